/* Begins as root, goes on as nobody, in all of its threads. */
#include "work.h"
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>

int main(void) {
    work_starts();
    usleep(30000);
    CHECK(!setgroups(0, 0) && !setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
    for (int turn = 0; turn < 5; turn++)
        usleep(20000);
    CHECK(getuid() == 65534 && geteuid() == 65534 && setuid(0) == -1 && errno == EPERM);
    CHECK(open("/etc/shadow", O_RDONLY) == -1 && errno == EACCES);
    printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
    work_ends();
    puts("dropped");
    return 0;
}
