// A method of an object on the heap, called by two threads without a lock.
//@ build: O0 O2
//@ full: O2+clang
//@ expect: what=* pointee=Account.balance region=heap functions=deposit,deposit
#include "../lib/crew.h"
#include <memory>
#include <thread>

namespace bank {

class Account {
public:
    KEEP void deposit(long amount) { balance += amount; }

private:
    long number = 17;
    long balance = 0;
};

} // namespace bank

int main()
{
    auto account = std::make_unique<bank::Account>();
    auto pay = [&account] {
        for (unsigned i = 0; i < ROUNDS; i++) {
            account->deposit(1);
            busy(4);
        }
    };
    std::thread first(pay), second(pay);
    first.join();
    second.join();
    return 0;
}
