// A signal hands plain data from one thread to another: the owner fills a letter and raises a signal,
// for which the other thread waits synchronously; a second signal hands the letter back.
//@ build: O2
//@ full: O0 O0+clang O2+clang O2+nodebug O2+clang+nodebug O3 Os
//@ focus: fill empty
//@ twin-expect: what=letter functions=fill,empty
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <signal.h>
#include <string.h>

static struct {
    char text[48];
    unsigned length, sum;
} letter;
static pthread_t filler, emptier;
static pthread_barrier_t known;

KEEP static void fill(unsigned i)
{
    letter.length = 1 + i % 40;
    memset(letter.text, (int)i, letter.length);
    letter.sum = letter.length * (unsigned char)i;
}

KEEP static unsigned empty(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < letter.length; i++)
        sum += (unsigned char)letter.text[i];
    return sum - letter.sum;
}

static void await(int which)
{
#ifndef TWIN
    sigset_t set;
    int caught;
    sigemptyset(&set);
    sigaddset(&set, which);
    sigwait(&set, &caught);
#else
    (void)which;
    busy(4);
#endif
}

static void raise_for(pthread_t thread, int which)
{
#ifndef TWIN
    pthread_kill(thread, which);
#else
    (void)thread, (void)which;
#endif
}

#ifdef TWIN
#define LETTERS ROUNDS
#else
#define LETTERS (ROUNDS / 20)
#endif

static void fill_all(void)
{
    filler = pthread_self();
    pthread_barrier_wait(&known);
    for (unsigned i = 0; i < LETTERS; i++) {
        fill(i);
        raise_for(emptier, SIGUSR1);
        await(SIGUSR2);
    }
}

static void empty_all(void)
{
    emptier = pthread_self();
    pthread_barrier_wait(&known);
    for (unsigned i = 0; i < LETTERS; i++) {
        await(SIGUSR1);
        use_value(empty());
        raise_for(filler, SIGUSR2);
    }
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_barrier_init(&known, NULL, 2);
    return run_pair(fill_all, empty_all);
}
