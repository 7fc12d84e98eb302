// A value of 16 bytes, copied as a whole while another thread changes it.
//@ race: what=account truth=harmful category=torn-value
//@ reason: a reader can get one half of the old value and the other half of the new one
#include "../../lib/crew.h"

struct Money {
    long amount;
    long checksum;
};

static Money account;
static unsigned long wrong;

KEEP static void deposit(unsigned i)
{
    account = Money{long(i), -long(i)};
}

KEEP static void audit(void)
{
    Money copy = account;
    if (copy.amount + copy.checksum != 0)
        wrong++;
}

REPEAT(teller, deposit(i))
REPEAT(auditor, audit())

int main()
{
    return run_pair(teller, auditor);
}
