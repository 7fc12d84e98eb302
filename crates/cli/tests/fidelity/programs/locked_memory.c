/* Memory that is locked, and memory in huge pages, accessed by several threads. */
#define WORK_AT_LEAST 2000000
#include "work.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { SIZE = 8 << 20, THREADS = 3 };
static long *area;

static void *fill(void *of) {
    long me = (long)of;
    for (int round = 0; round < 4; round++)
        for (long at = me; at < SIZE / (long)sizeof *area; at += THREADS)
            bump(&area[at]);
    return 0;
}

static long locked_kb(void) {
    char line[200];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "VmLck: %ld", &kb);
    fclose(file);
    return kb;
}

int main(void) {
    work_starts();
    char *anywhere = mmap(0, 3 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(anywhere != MAP_FAILED);
    /* On the boundary of a huge page. */
    area = (long *)(((unsigned long)anywhere + SIZE - 1) & ~(SIZE - 1UL));
    printf("huge pages: %s\n", madvise(area, SIZE, MADV_HUGEPAGE) ? "none" : "asked for");
    int locked = mlock(area, SIZE / 4) == 0;
    printf("locked a part: %d, %ld kB\n", locked, locked_kb());
    /* Everything there is, the code too; an ordinary user may not have that much. */
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_MEMLOCK, &limit));
    int all = mlockall(MCL_CURRENT | MCL_FUTURE);
    printf("locked all: %d\n", all == 0);
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], 0, fill, (void *)t)) {
            printf("no more threads with locked stacks\n");
            munlockall();
            CHECK(!pthread_create(&threads[t], 0, fill, (void *)t));
        }
    for (int t = 0; t < THREADS; t++)
        CHECK(!pthread_join(threads[t], 0));
    for (long at = 0; at < SIZE / (long)sizeof *area; at++)
        CHECK(area[at] == 4);
    CHECK(!munlockall());
    work_ends();
    printf("locked at the end: %ld kB\n", locked_kb());
    return 0;
}
