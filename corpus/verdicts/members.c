// Members that belong together.
//@ race: what=window truth=harmful category=torn-value
//@ reason: the width of the old window with the height of the new one
#include "../lib/crew.h"

static struct {
    int width;
    int color;
    int height;
} window;
static unsigned long area;

KEEP static void resize(unsigned i)
{
    window.width = (int)(i & 255);
    __asm__ volatile("" ::: "memory");
    window.height = (int)(i & 127);
}
KEEP static void measure(void)
{
    area += (unsigned long)(window.width * window.height);
}

REPEAT(user, resize(i))
REPEAT(painter, measure())

int main(void)
{
    return run_pair(user, painter);
}
