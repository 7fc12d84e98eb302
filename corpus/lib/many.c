// A library of many small functions, each bound on its first call.
#define EACH(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

#define FUNCTION(n) \
    __attribute__((noipa)) long many_##n(long x) { return x + n; }

EACH(FUNCTION)
