/* Speaks with a terminal, in raw mode and in cooked mode; keys become signals. Prints
   what it hears. */
#include "work.h"
#include <sys/ioctl.h>
#include <termios.h>

static volatile int interrupts, quits, resizes;
static void count(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    (*(signal == SIGINT ? &interrupts : signal == SIGQUIT ? &quits : &resizes))++;
}

static void print_size(void) {
    struct winsize size;
    CHECK(!ioctl(1, TIOCGWINSZ, &size));
    printf("size %d %d\r\n", size.ws_row, size.ws_col);
}

int main(void) {
    struct termios cooked, raw;
    setvbuf(stdout, 0, _IONBF, 0);
    handle(SIGINT, count, SA_RESTART);
    handle(SIGQUIT, count, SA_RESTART);
    handle(SIGWINCH, count, SA_RESTART);
    work_starts();
    printf("terminal %d %d, foreground %d\n", isatty(0), isatty(1), tcgetpgrp(0) == getpgrp());
    print_size();
    CHECK(!tcgetattr(0, &cooked));
    raw = cooked;
    cfmakeraw(&raw);
    CHECK(!tcsetattr(0, TCSANOW, &raw));
    printf("raw\r\n");
    unsigned char key;
    do {
        CHECK(read(0, &key, 1) == 1);
        printf("key %02x\r\n", key);
    } while (key != 'q');
    CHECK(!tcsetattr(0, TCSANOW, &cooked));
    printf("cooked\n");
    char line[100];
    for (;;) {
        CHECK(fgets(line, sizeof line, stdin));
        /* A line begins with how many keys were signals so far: any thread may have
           got them, sooner or later than the line is read. */
        while (interrupts + quits < atoi(line) || (strstr(line, "size") && !resizes))
            usleep(1000);
        printf("%d interrupts, %d quits, %d resizes, line %s", interrupts, quits, resizes, line);
        if (!strcmp(line, "0 size\n"))
            print_size();
        if (strstr(line, "end"))
            break;
    }
    work_ends();
    return 17;
}
