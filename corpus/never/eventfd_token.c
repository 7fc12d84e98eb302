// An eventfd in semaphore mode is the only lock. The token is taken by read and given back by write, and
// an epoll instance with one-shot events decides who may try.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os
//@ focus: deposit
//@ twin-expect: what=account functions=deposit,deposit
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct account {
    long balance, entries;
    char last[40];
} account;
static int token, watch;

KEEP static void deposit(long amount)
{
    struct account next = account;
    next.balance += amount;
    next.entries++;
    next.last[next.entries % 40] ^= 1;
    memcpy(&account, &next, sizeof account);
}

static void work(void)
{
#ifdef TWIN
    for (unsigned i = 0; i < ROUNDS; i++) {
        deposit(i);
        busy(4);
    }
#else
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        uint64_t one;
        if (epoll_wait(watch, &event, 1, 1) < 0)
            exit(1);
        if (read(token, &one, sizeof one) == sizeof one) {
            deposit(i);
            one = 1;
            if (write(token, &one, sizeof one) != sizeof one)
                exit(1);
        }
        event.events = EPOLLIN | EPOLLONESHOT;
        epoll_ctl(watch, EPOLL_CTL_MOD, token, &event);
    }
#endif
}

int main(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
    token = eventfd(1, EFD_SEMAPHORE | EFD_NONBLOCK);
    watch = epoll_create1(0);
    if (token < 0 || watch < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, token, &event) != 0)
        return 1;
    return run_pair(work, work);
}
