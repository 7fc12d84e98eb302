// Values that do not change as a whole.
//@ race: what=position truth=harmful category=torn-value
//@ race: what=record.serial truth=harmful category=torn-value
//@ race: what=matrix truth=harmful category=torn-value
//@ reason: a reader can get part of the old value and part of the new one
#include "../lib/crew.h"
#include <string.h>

struct position {
    double x;
    double y;
};
static struct position position;
static struct __attribute__((packed)) {
    char tag[61];
    unsigned long serial;
} record __attribute__((aligned(64)));
static double matrix[8];
static unsigned long wrong;

KEEP static void move(unsigned i)
{
    struct position next = {i, -(double)i};
    memcpy(&position, &next, sizeof position);
}
KEEP static void look(void)
{
    struct position copy;
    memcpy(&copy, &position, sizeof copy);
    if (copy.x + copy.y != 0)
        wrong++;
}
KEEP static void number(unsigned long i) { record.serial = i * 0x100000001ul; }
KEEP static void check(void)
{
    unsigned long serial = record.serial;
    if ((unsigned)serial != serial >> 32)
        wrong++;
}
KEEP static void fill(unsigned i) { memset(matrix, (int)(i & 0x3f), sizeof matrix); }
KEEP static void copy(void)
{
    double all[8];
    memcpy(all, matrix, sizeof all);
    use_value(all[0]);
    use_value(all[7]);
}

REPEAT(writer, move(i); busy(1); number(i); busy(1); fill(i))
REPEAT(reader, look(); busy(1); check(); busy(1); copy())

int main(void)
{
    return run_pair(writer, reader);
}
