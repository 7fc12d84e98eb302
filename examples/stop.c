// A worker runs until the main thread tells it to stop, through a plain int.
// Nothing orders the two accesses, and a compiler that can see all of `work`
// may load `stop` once and never again.
#include <pthread.h>
#include <unistd.h>

int stop;

__attribute__((noinline)) static void work(void)
{
    __asm__ volatile("" ::: "memory"); // as if it were in another file
}

static void *worker(void *unused)
{
    while (!stop)
        work();
    return unused;
}

__attribute__((noinline)) static void tell(int value)
{
    stop = value;
}

int main(void)
{
    for (int round = 0; round < 200; round++) {
        pthread_t thread;
        tell(0);
        pthread_create(&thread, NULL, worker, NULL);
        usleep(2000);
        tell(1);
        pthread_join(thread, NULL);
    }
}
