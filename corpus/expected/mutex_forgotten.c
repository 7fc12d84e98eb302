// Two places change the counters under a mutex; a third reads them without. Without debug
// information nothing tells the `sub [credit], 1` from assembly, by which a single writer counts.
//@ build: O2 O2+nodebug O2+stripped
//@ full: Os O3+nodebug
//@ expect: what=left functions=put_one,look
//@ expect: what=credit functions=spend,look
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long left, credit;

KEEP static void put_one(long value)
{
    pthread_mutex_lock(&lock);
    left = value;
    pthread_mutex_unlock(&lock);
}

KEEP static void spend(void)
{
    pthread_mutex_lock(&lock);
    credit--;
    pthread_mutex_unlock(&lock);
}

KEEP static long look(void)
{
    return left + credit;
}

REPEAT(putter, put_one(i); spend())
REPEAT(looker, use_value(look()))

int main(void)
{
    return run_pair(putter, looker);
}
