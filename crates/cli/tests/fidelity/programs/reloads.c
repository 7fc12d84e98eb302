/* Opens a library, runs it in threads, closes it and opens another, which mostly comes
   to lie at the same address. The two files are its arguments. */
#include "work.h"
#include <dlfcn.h>

enum { ROUNDS = 60, THREADS = 2, STEPS = 20000 };
typedef long walk(long *, int);

static void *run(void *of) {
    long number = 0;
    ((walk *)of)(&number, STEPS);
    return (void *)number;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    work_starts();
    void *last = 0;
    int same_place = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *library = dlopen(argv[1 + round % 2], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            printf("%s\n", dlerror());
        CHECK(library);
        walk *function = (walk *)dlsym(library, "walk");
        CHECK(function);
        Dl_info place;
        CHECK(dladdr((void *)function, &place));
        same_place += place.dli_fbase == last;
        last = place.dli_fbase;
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            CHECK(!pthread_create(&threads[t], 0, run, (void *)function));
        for (int t = 0; t < THREADS; t++) {
            void *sum;
            CHECK(!pthread_join(threads[t], &sum));
            CHECK((long)sum == (round % 2 ? 5L : 3L) * STEPS);
        }
        CHECK(!dlclose(library));
    }
    work_ends();
    /* Otherwise it is not about what it is meant to be about. */
    CHECK(same_place > 0);
    puts("reloaded");
    return 0;
}
