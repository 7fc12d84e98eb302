// A class template called atomic in a namespace of its own, whose load and store are plain.
//@ build: O0 O2
//@ full: O2+clang O2+dwarf4 O2+split O3
//@ expect: what=level functions=store,load
#include "../lib/crew.h"

namespace portable {
template <class T>
struct atomic {
    T value;
    KEEP void store(T to) { value = to; }
    KEEP T load() const { return value; }
};
} // namespace portable

portable::atomic<int> level;

REPEAT(setter, level.store(static_cast<int>(i)))
REPEAT(getter, use_value(level.load()))

int main()
{
    return run_pair(setter, getter);
}
