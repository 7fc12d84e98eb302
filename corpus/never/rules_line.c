// C made by a generator from rules in a language of its own. `#line` leads to the rules, where
// `turn = who` means an atomic store: text that looks like C but is none shows nothing.
//@ full: O2 O0 O2+clang O2+dwarf4
//@ focus: rule_take rule_look note
//@ twin-expect: what=turn functions=rule_take,rule_look
//@ allow: possibly-atomic
#include "../lib/crew.h"

static long turn;
static long notes[32];

#ifdef TWIN
KEEP static void rule_take(long who)
{
    turn = who;
}

KEEP static long rule_look(void)
{
    return turn;
}
#else
KEEP static void rule_take(long who)
{
#line 5 "corpus/lib/turn.rules"
    __atomic_store_n(&turn, who, __ATOMIC_RELEASE);
#line 28 "corpus/never/rules_line.c"
}

KEEP static long rule_look(void)
{
#line 9 "corpus/lib/turn.rules"
    return __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
#line 35 "corpus/never/rules_line.c"
}
#endif

KEEP static void note(unsigned who)
{
    notes[who * 16]++;
}

REPEAT(taker, rule_take(i); note(0))
REPEAT(looker, use_value(rule_look()); note(1))

int main(void)
{
    return run_pair(taker, looker);
}
