// The two users of the toy file system, for ever: one links its file to a second
// name and unlinks that again, the other opens it and asks for a file's size, and
// both append to that file. A shell would have to start programs for it, and would
// do a hundred other things meanwhile.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void line(int file)
{
    if (write(file, "line\n", 5) < 0)
        _exit(1);
}

int main(int argc, char **argv)
{
    int linker = argc == 2 && !strcmp(argv[1], "link");
    int file = open("/mnt/toy/log", O_WRONLY | O_APPEND);
    struct stat facts;

    if (argc != 2 || file < 0)
        return 1;
    for (;;) {
        if (linker) {
            link("/mnt/toy/shared", "/mnt/toy/other");
            line(file);
            unlink("/mnt/toy/other");
        } else {
            close(open("/mnt/toy/shared", O_RDONLY));
            fstat(file, &facts);
        }
        line(file);
    }
}
