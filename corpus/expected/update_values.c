// Two threads add and subtract in one instruction each. Every one of them changes the value.
//@ build: O2
//@ full: O2+clang Os
//@ expect: what=gauge functions=raise,~lower kinds=update,update values=changed
//@ expect: what=gauge functions=raise,raise kinds=update,update values=changed
#include "../lib/crew.h"

long gauge;

KEEP static void raise_by(long by)
{
    gauge += by;
}

KEEP static void raise(void)
{
    gauge += 1;
}

KEEP static void lower(void)
{
    gauge -= 3;
}

REPEAT(raiser, raise(); if (i == ROUNDS) raise_by(i))
REPEAT(lowerer, raise(); lower())

int main(void)
{
    return run_pair(raiser, lowerer);
}
