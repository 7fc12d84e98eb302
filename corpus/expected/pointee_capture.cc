// What a lambda captures has the name that the source gives it, not that of the object in which
// the compiler keeps it.
//@ build: O0 O2 O0+clang O2+clang
//@ expect: what=* pointee=total region=stack functions=~run,~run
#include "../lib/crew.h"
#include <thread>

template <class Step>
KEEP void run(Step step)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        step(2);
        busy(4);
    }
}

int main()
{
    long total = 0;
    auto bump = [&total](long by) KEEP { total += by; };
    std::thread first([&] { run(bump); });
    std::thread second([&] { run(bump); });
    first.join();
    second.join();
    return total > 0 ? 0 : 1;
}
