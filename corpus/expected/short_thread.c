// Threads that live for about a millisecond: each makes its one access and
// ends, while a long-lived thread makes the other side.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=visits functions=visit,show_visits
#include "../lib/crew.h"

enum { VISITORS = 60 };

unsigned visits;
static int closed;

KEEP static void visit(void)
{
    visits++;
}

KEEP static unsigned show_visits(void)
{
    return visits;
}

static void *visitor(void *unused)
{
    busy(20000);
    visit();
    busy(20000);
    return unused;
}

static void *board(void *unused)
{
    while (!__atomic_load_n(&closed, __ATOMIC_ACQUIRE)) {
        use_value(show_visits());
        busy(4);
    }
    return unused;
}

int main(void)
{
    pthread_t display, guest;
    if (pthread_create(&display, NULL, board, NULL) != 0)
        return 1;
    for (int i = 0; i < VISITORS; i++) {
        if (pthread_create(&guest, NULL, visitor, NULL) != 0)
            return 1;
        pthread_join(guest, NULL);
    }
    __atomic_store_n(&closed, 1, __ATOMIC_RELEASE);
    pthread_join(display, NULL);
    return 0;
}
