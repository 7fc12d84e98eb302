// The race is inside a library that is opened at run time, while threads of the
// program are already running; it is closed again before the end.
//@ build: O0 O2
//@ full: O2+clang
//@ lib: lib/tally.c as libtally.so dlopen
//@ flags: -ldl
//@ expect: what=tally_total functions=tally_add,tally_read
#include "../lib/crew.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static void (*add)(long);
static long (*get)(void);

static void adder(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        add(1);
        busy(4);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        use_value(get());
        busy(4);
    }
}

static void *bystander(void *unused)
{
    usleep(2000);
    return unused;
}

int main(void)
{
    pthread_t early;
    if (pthread_create(&early, NULL, bystander, NULL) != 0)
        return 1;
    void *library = dlopen("libtally.so", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    add = (void (*)(long))dlsym(library, "tally_add");
    get = (long (*)(void))dlsym(library, "tally_read");
    if (add == NULL || get == NULL)
        return 1;
    int status = run_pair(adder, reader);
    pthread_join(early, NULL);
    dlclose(library);
    return status;
}
