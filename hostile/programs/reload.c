// reload LIBRARY N: loads and unloads it N times.
#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    for (int i = atoi(argv[2]); i > 0; i--) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) return 1;
        ((void (*)(void))dlsym(library, "count"))();
        dlclose(library);
    }
    return 0;
}
