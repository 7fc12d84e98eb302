// Synchronisation by plain variables.
//@ race: what=stage truth=benign category=user-constructed-synchronisation
//@ race: what=answer_ready truth=benign category=user-constructed-synchronisation
//@ reason: one side only waits for the other one to store
#include "../lib/crew.h"

static unsigned stage;
static int answer_ready;
static unsigned long answers;

KEEP static void wait_for_stage(unsigned wanted)
{
    unsigned turns = 0;
    while (stage != wanted)
        relax(turns++);
}

KEEP static void enter_stage(unsigned next)
{
    stage = next;
}

KEEP static void wait_for_answer(void)
{
    unsigned turns = 0;
    while (!answer_ready)
        relax(turns++);
}

KEEP static void answer(void)
{
    answer_ready = 1;
}

KEEP static void take_answer(void)
{
    answer_ready = 0;
    answers++;
}

static void asks(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        enter_stage(1);
        wait_for_answer();
        take_answer();
        enter_stage(2);
        wait_for_stage(0);
    }
}

static void replies(void)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        wait_for_stage(1);
        answer();
        wait_for_stage(2);
        enter_stage(0);
    }
}

int main(void)
{
    return run_pair(asks, replies);
}
