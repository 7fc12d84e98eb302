/* Says with whose rights it runs. */
#include "work.h"
#include <sys/auxv.h>

int main(void) {
    work_starts();
    work_ends();
    printf("user %d, effective %d, secure %ld\n", getuid() == 0, geteuid() == 0, getauxval(AT_SECURE));
    return 0;
}
