// Reading the balance and storing the new one are each under the lock, but not
// together: money is lost, without a data race. Redhanded is silent about it.
//@ build: O0 O2
//@ full: O2+clang
//@ focus: read_balance store_balance
//@ twin-expect: what=accounts functions=read_balance,store_balance
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long accounts[4] = {1000000, 1000000, 1000000, 1000000};

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#else
    (void)lock;
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#endif
}

KEEP static long read_balance(int account)
{
    return accounts[account];
}

KEEP static void store_balance(int account, long balance)
{
    accounts[account] = balance;
}

static void extract(int account, long sum)
{
    enter();
    long balance = read_balance(account);
    leave();
    busy(2);
    enter();
    store_balance(account, balance - sum);
    leave();
}

static void customer(void)
{
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        extract(2, 1);
        busy(4);
    }
}

int main(void)
{
    return run_pair(customer, customer);
}
