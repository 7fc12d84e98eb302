// Relaxed loads of a double that Clang folds into the arithmetic of a later statement: the line
// of the instruction names local variables only, or calls a function that was inlined.
//@ build: O2 O2+clang
//@ full: O0 O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ allow: possibly-atomic in *+clang
//@ focus: look_by_local look_by_call look_beside tell
//@ twin-expect: what=* functions=~look_by_local,tell
#include "../lib/crew.h"

struct gauge {
    double offset;
    double level;
};

static struct gauge *shared;

static inline double load(const double *from)
{
#ifdef TWIN
    return *from;
#else
    double seen;
    __atomic_load(from, &seen, __ATOMIC_RELAXED);
    return seen;
#endif
}

KEEP static double look_by_local(struct gauge *from, double k)
{
    double seen = load(&from->level);
    return k + seen;
}

KEEP static int look_by_call(struct gauge *from, double k)
{
    return load(&from->level) > k;
}

KEEP static double look_beside(struct gauge *from, double k)
{
    double seen = load(&from->level);
    return from->offset * k + seen;
}

KEEP static void tell(struct gauge *to, double level)
{
#ifdef TWIN
    to->level = level;
#else
    __atomic_store(&to->level, &level, __ATOMIC_RELAXED);
#endif
}

REPEAT(teller, tell(shared, i))
REPEAT(looker, use_value(look_by_local(shared, i) > 3.0); use_value(look_by_call(shared, i));
       use_value(look_beside(shared, i) > 4.0))

int main(void)
{
    shared = calloc(1, sizeof *shared);
    return shared ? run_pair(teller, looker) : 1;
}
