// Numbers that are counted up and down under a lock, and looked at without it.
//@ race: what=connections truth=benign category=approximate-computation
//@ race: what=queued truth=benign category=approximate-computation
//@ race: what=borrowed truth=harmful category=reference-count
//@ race: what=seats truth=harmful category=check-then-act
//@ reason: a status line and a threshold take either value; whoever frees at zero, or takes a seat after looking, needs the lock
#include "../lib/crew.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long connections = 500, queued = 2000;
static unsigned borrowed = 1, seats;
static unsigned long shown;
static unsigned started, reclaimed;

KEEP static void open_one(void)
{
    pthread_mutex_lock(&lock);
    connections++;
    pthread_mutex_unlock(&lock);
}
KEEP static void close_one(void)
{
    pthread_mutex_lock(&lock);
    connections--;
    pthread_mutex_unlock(&lock);
}
KEEP static void status(void) { shown = connections; }

KEEP static void enqueue(unsigned length)
{
    pthread_mutex_lock(&lock);
    queued += length;
    pthread_mutex_unlock(&lock);
}
KEEP static void dequeue(unsigned length)
{
    pthread_mutex_lock(&lock);
    queued -= length;
    pthread_mutex_unlock(&lock);
}
KEEP static void start_above(unsigned long length)
{
    if (length > 100000)
        started++;
}
KEEP static void tick(void) { start_above(queued); }

KEEP static void borrow(void)
{
    pthread_mutex_lock(&lock);
    borrowed++;
    pthread_mutex_unlock(&lock);
}
KEEP static void give_back(void)
{
    pthread_mutex_lock(&lock);
    borrowed--;
    pthread_mutex_unlock(&lock);
}
KEEP static void reclaim(void)
{
    if (borrowed == 0)
        reclaimed++;
}

KEEP static void take_seat(void)
{
    pthread_mutex_lock(&lock);
    seats++;
    pthread_mutex_unlock(&lock);
}
KEEP static void leave_seat(void)
{
    pthread_mutex_lock(&lock);
    seats--;
    pthread_mutex_unlock(&lock);
}
KEEP static void come_in(void)
{
    if (seats < 40)
        take_seat();
}

REPEAT(worker, open_one(); busy(1); close_one(); busy(1); enqueue(i & 7); busy(1); dequeue(i & 7);
       borrow(); busy(1); give_back(); come_in(); busy(1); leave_seat())
REPEAT(watcher, status(); busy(1); tick(); busy(1); reclaim(); busy(1); come_in(); busy(1); leave_seat())

int main(void)
{
    return run_pair(worker, watcher);
}
