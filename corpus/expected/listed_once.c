// One store against one load: one race, listed once, however it was seen.
//@ build: O2
//@ full: O0 O2+clang
//@ expect: what=news functions=post,look
//@ once: what=news
#include "../lib/crew.h"

long news;

KEEP static void post(long text)
{
    news = text;
}

KEEP static long look(void)
{
    return news;
}

REPEAT(poster, post(i))
REPEAT(looker, if (look() < 0) exit(1))

int main(void)
{
    return run_pair(poster, looker);
}
