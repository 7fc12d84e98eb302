// Two threads search halves of an array and tell each other through a plain
// flag: benign in its effect, a data race all the same. Searches are started
// together by a barrier, which orders the resetting of the flag.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=found functions=find,find
//@ silent: what=searches_done
#include "../lib/crew.h"

enum { HALF = 400, SEARCHES = 800 };

static int found;
static int haystack[2 * HALF];
static pthread_barrier_t turn;
static unsigned searches_done;

KEEP static void find(int value, int part)
{
    for (int i = part * HALF; i < (part + 1) * HALF; i++) {
        if (haystack[i] == value)
            found = 1;
        if (found)
            break;
        busy(4);
    }
}

static void search(int part)
{
    for (unsigned i = 0; i < SEARCHES; i++) {
        pthread_barrier_wait(&turn);
        if (part == 0) {
            found = 0;
            searches_done++;
        }
        pthread_barrier_wait(&turn);
        find((int)(i & 1 ? HALF - 1 : 2 * HALF - 1), part);
    }
}

static void lower(void)
{
    search(0);
}

static void upper(void)
{
    search(1);
}

int main(void)
{
    for (int i = 0; i < 2 * HALF; i++)
        haystack[i] = i;
    pthread_barrier_init(&turn, NULL, 2);
    return run_pair(lower, upper);
}
