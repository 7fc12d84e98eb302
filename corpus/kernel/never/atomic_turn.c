// Two threads change an account in turns; whose turn it is, an atomic_t says.
// A second one counts the turns. The twin changes the account out of turn.
//@ focus: change_account
//@ twin-expect: what=account functions=change_account,change_account
#include "../lib/crew.h"
#include <linux/atomic.h>

static atomic_t turn = ATOMIC_INIT(0);
static atomic_t turns_taken = ATOMIC_INIT(0);
static struct {
    long balance;
    long changes;
} account;

KEEP static void change_account(long amount)
{
    account.balance += amount;
    account.changes++;
}

KEEP static void count_turn(void)
{
    atomic_inc(&turns_taken);
}

static void take_turn(int mine, long amount)
{
#ifndef TWIN
    if (atomic_read_acquire(&turn) != mine)
        return;
#endif
    change_account(amount);
    count_turn();
    atomic_set_release(&turn, 1 - mine);
}

static void depositor(void)
{
    take_turn(0, 10);
}

static void spender(void)
{
    take_turn(1, -10);
}

CREW_MODULE(depositor, spender, "turns told by an atomic_t");
