// Pages are filled by whoever touches them first: the access faults, and the handler fills the page by way of
// another mapping, under a lock, before it lets the access go on. Whoever is about to read waits for that.
//@ build: O2
//@ full: O0 O2+clang O2+nodebug
//@ focus: look fill_page
//@ allow: possibly-atomic
//@ twin-expect: what=* functions=look,fill_page class=*
#define _GNU_SOURCE
#include "../lib/crew.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 16
#define SIZE 4096
#define TURNS 150

static char *view, *store;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static char present[PAGES];

KEEP static void fill_page(long *page, long value)
{
    for (int i = 0; i < SIZE / 8; i++)
        page[i] = value + i;
}

KEEP static long look(const long *page)
{
    return page[5] + page[100];
}

static void on_fault(int number, siginfo_t *about, void *context)
{
    (void)number, (void)context;
    long page = ((char *)about->si_addr - view) / SIZE;
    if (page < 0 || page >= PAGES)
        _exit(3);
    pthread_mutex_lock(&lock);
    if (!present[page]) {
        fill_page((long *)(store + page * SIZE), page);
        mprotect(view + page * SIZE, SIZE, PROT_READ);
        present[page] = 1;
    }
    pthread_mutex_unlock(&lock);
}

static void *reader(void *first)
{
    long sum = 0;
    for (int i = 0; i < TURNS; i++) {
        for (long page = 0; page < PAGES; page++)
            sum += look((long *)(view + page * SIZE));
        pthread_barrier_wait(&turn);
        if (first) {
#ifdef TWIN
            for (long page = 0; page < PAGES; page++)
                fill_page((long *)(store + page * SIZE), page);
#else
            mprotect(view, PAGES * SIZE, PROT_NONE);
            for (int page = 0; page < PAGES; page++)
                present[page] = 0;
            pthread_barrier_wait(&turn);
#endif
        }
#ifndef TWIN
        else
            pthread_barrier_wait(&turn);
#endif
    }
    use_value(sum);
    return 0;
}

int main(void)
{
    int file = memfd_create("pages", 0);
    if (file < 0 || ftruncate(file, PAGES * SIZE))
        return 77;
    store = mmap(0, PAGES * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    view = mmap(0, PAGES * SIZE, PROT_NONE, MAP_SHARED, file, 0);
    struct sigaction handler = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &handler, 0);
    pthread_barrier_init(&turn, 0, 2);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, reader, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
