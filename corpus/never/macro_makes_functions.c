// A macro writes both functions, so that the line of their code is the line of the macro's
// use. What it makes uses __atomic builtins: no data race.
//@ build: O0 O2
//@ full: O2+clang O2+g3 O2+clang+g3 O2+dwarf4
//@ focus: is_turn_of hand_to guarded_bump
//@ allow: possibly-atomic
//@ twin-expect: what=balance functions=guarded_bump,guarded_bump
#include "../lib/crew.h"

#define SHARED_WORD(type, name, is, set)                       \
    static type name;                                          \
    KEEP static int is(type wanted)                            \
    {                                                          \
        return __atomic_load_n(&name, __ATOMIC_ACQUIRE) == wanted; \
    }                                                          \
    KEEP static void set(type value)                           \
    {                                                          \
        __atomic_store_n(&name, value, __ATOMIC_RELEASE);      \
    }

SHARED_WORD(int, turn, is_turn_of, hand_to)

#include "../lib/turns.h"
