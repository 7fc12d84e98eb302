// Atomic members of nested structs and unions: assigned whole, by a macro of the C library that
// chooses by type, and updated by one thread alone through a load and a store.
//@ build: O2
//@ full: O0 O2+clang O2+dwarf4 O3+g3 O2+stripped O0+clang O2+clang+dwarf4 O3+clang+g3 O2+clang+stripped O2+nodebug
//@ allow: possibly-atomic in *+dwarf4
// A macro hides the types, and this compiler's atomics cannot be told from others by their form.
//@ doubt: O2+clang+dwarf4
//@ focus: produce consume
//@ twin-expect: what=station functions=produce,consume
#include "../lib/crew.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef TWIN
#define SHARED(type) type
#else
#define SHARED(type) _Atomic(type)
#endif

struct position {
    int16_t x, y, z, w;
};

#define get(it)                                          \
    _Generic((it), long : (it), default : (it))

struct station {
    struct {
        union {
            SHARED(int32_t) code;
            SHARED(float) level;
        };
        SHARED(bool) open;
    } doors[3];
    SHARED(struct position) where;
    SHARED(long) count;
    SHARED(const char *) label;
} station;

KEEP static void produce(unsigned i)
{
    struct station *s = &station;
    s->doors[i % 3].level = i * 0.25f;
    s->doors[i % 3].open = !s->doors[(i + 1) % 3].open;
    s->where = (struct position){i, i + 1, i + 2, i + 3};
    s->count = s->count + 1;
    s->label = i & 1 ? "odd" : "even";
}

KEEP static long consume(unsigned i)
{
    struct station *s = &station;
    struct position at = s->where;
    const char *text = s->label;
    long sum = s->doors[i % 3].open ? s->doors[i % 3].code : at.x;
    return sum + get(s->count) + (text ? *text : 0) + (s->doors[0].level > 2.0f);
}

REPEAT(producer, produce(i))
REPEAT(consumer, use_value(consume(i)))

int main(void)
{
    return run_pair(producer, consumer);
}
