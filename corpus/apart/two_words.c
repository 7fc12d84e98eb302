// Two variables of the same two functions: two races, of which one being caught says nothing of
// the other.
//@ expect: what=first_word functions=producer,consumer
//@ expect: what=second_word functions=producer,consumer
#include "apart.h"

static long first_word, second_word;

KEEP static void producer(long n)
{
    ENTER;
    first_word = n;
    LEAVE;
    apart();
    ENTER;
    second_word = n;
    LEAVE;
}

KEEP static long consumer(void)
{
    apart();
    ENTER;
    long sum = first_word;
    LEAVE;
    apart();
    ENTER;
    sum += second_word;
    LEAVE;
    return sum;
}

static void *produce(void *unused)
{
    producer(7);
    return unused;
}

static void *consume(void *unused)
{
    long sum = consumer();
    __asm__ volatile("" : : "r"(sum));
    return unused;
}

int main(void)
{
    return run_both(produce, consume);
}
