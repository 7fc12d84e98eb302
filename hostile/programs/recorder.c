// Stands in for DynamoRIO and our client of it: greets, and ends with 7. MODE says what else:
//   threads   claims millions of threads
//   orphan    leaves a process behind that never stops writing, and ends with 3
//   taken     claims a million processes, and ends with 3
//   where     says where its folder is
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int stream;

static void chunk(uint8_t kind, uint32_t thread, const void *bytes, uint32_t length) {
    static char out[65536 + 16];
    memset(out, 0, 16);
    memcpy(out, "RHRC", 4);
    out[4] = kind;
    memcpy(out + 8, &thread, 4);
    memcpy(out + 12, &length, 4);
    memcpy(out + 16, bytes, length);
    if (write(stream, out, 16 + length) < 0) _exit(0);
}

int main(void) {
    static char entries[65536];
    char path[4096];
    const char *folder = getenv("DYNAMORIO_LOGDIR"), *mode = getenv("MODE");
    const char *hello = "{\"version\":1,\"process\":1,\"parent\":0,\"program\":\"x\"}";
    if (!folder) return 1;
    if (!mode) mode = "";
    snprintf(path, sizeof path, "%s/stream.0", folder);
    stream = open(path, O_WRONLY | O_CLOEXEC);
    chunk(1, 0, hello, strlen(hello));
    if (!strcmp(mode, "where")) {
        puts(folder);
    } else if (!strcmp(mode, "threads")) {
        for (uint32_t thread = 0; thread < 4000000;) {
            for (int at = 0; at < 65536; at += 16, thread++) {
                memcpy(entries + at, "RHRC\2\0\0\0", 8);
                memcpy(entries + at + 8, &thread, 4);
            }
            if (write(stream, entries, sizeof entries) < 0) break;
        }
    } else if (!strcmp(mode, "orphan")) {
        for (int at = 7; at < 65536; at += 16) entries[at] = 1;
        if (fork() == 0) {
            for (time_t n = 0; n < 400000; n++) chunk(2, 7, entries, sizeof entries);
            _exit(0);
        }
        usleep(300000);
        return 3;
    } else if (!strcmp(mode, "taken")) {
        uint64_t taken = 1000000;
        snprintf(path, sizeof path, "%s/shared", folder);
        int shared = open(path, O_RDWR);
        if (pwrite(shared, &taken, sizeof taken, 64) < 0) return 1;
        sleep(2);
        return 3;
    }
    puts("ran");
    fflush(stdout);
    chunk(8, 0, "", 0);
    return 7;
}
