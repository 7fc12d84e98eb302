// Memory is unmapped when nobody reads it any more: who reads the current piece holds the lock under which the next one
// becomes current. Later reads would fault, and there are none.
//@ build: O0 O2
//@ full: O2+clang O2+nodebug O2+stripped
//@ focus: read_page read_block
//@ twin-expect: class=race origin=unknown what=* functions=read_page
//@ twin-expect: class=race origin=unknown what=* functions=read_block
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(void)
{
#ifndef TWIN
    pthread_mutex_lock(&lock);
#endif
}

static void leave(void)
{
#ifndef TWIN
    pthread_mutex_unlock(&lock);
#else
    (void)lock;
#endif
}

#include "../lib/pages.h"
