// cuts LIBRARY MILLISECONDS BYTES: loads a copy of it, cuts the copy to so many bytes after a while, and runs in it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void (*count)(void);

static void *work(void *unused) {
    for (int i = 0; i < 300; i++) {
        count();
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    char command[4096];
    pthread_t threads[2];
    if (argc < 4) return 1;
    snprintf(command, sizeof command, "cp '%s' copy.so", argv[1]);
    if (system(command)) return 1;
    void *library = dlopen("./copy.so", RTLD_NOW);
    if (!library) return 1;
    count = (void (*)(void))dlsym(library, "count");
    count();
    usleep(1000 * atoi(argv[2]));
    if (truncate("copy.so", atoi(argv[3]))) return 1;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
