// Lambdas capture a local variable by reference, and run in two threads.
//@ build: O0 O2
//@ full: O2+clang O3
//@ expect: what=* region=stack functions=~run,~run
#include "../lib/crew.h"
#include <thread>

template <class Step>
KEEP void run(Step step)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        step();
        busy(4);
    }
}

int main()
{
    long total = 0;
    auto bump = [&total] { total += 2; };
    std::thread first([&] { run(bump); });
    std::thread second([&] { run(bump); });
    first.join();
    second.join();
    return total > 0 ? 0 : 1;
}
