// kills_tool tracer|front SIGNAL: sends it to who traces us, or to who started that; then works for a second.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

volatile long shared;

static int field(const char *path, const char *name) {
    char line[256];
    int value = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) value = atoi(line + strlen(name));
    if (file) fclose(file);
    return value;
}

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    char path[64];
    int whom = field("/proc/self/status", "TracerPid:");
    if (!strcmp(argv[1], "front")) {
        snprintf(path, sizeof path, "/proc/%d/status", whom);
        whom = field(path, "PPid:");
    }
    if (whom > 1) kill(whom, atoi(argv[2]));
    for (time_t end = time(0) + 2; time(0) < end;) shared++;
    return 0;
}
