// A base class and what containers hold, behind pointers.
//@ build: O2 O2+debugfile
//@ expect: what=* pointee=Account.version functions=bump,bump
//@ expect: what=* pointee=Account.limit functions=set_limit,limit_of
//@ expect: what=* pointee=account->items[3] functions=set_item,item_of
//@ expect: what=* pointee=Account.mode functions=set_mode,mode_of
#include "../lib/crew.h"
#include <memory>
#include <optional>
#include <vector>

struct Base {
    int version = 0;
};

struct Account : Base {
    long number = 1;
    std::optional<int> limit = 0;
    std::vector<int> items = std::vector<int>(8);
    int mode = 0;
};

struct Bank {
    std::shared_ptr<Account> main = std::make_shared<Account>();
};

static Bank *bank;

KEEP static void bump(Account *account)
{
    account->version++;
}

KEEP static void set_limit(Account *account, int limit)
{
    *account->limit = limit;
}

KEEP static int limit_of(Account *account)
{
    return *account->limit;
}

KEEP static void set_item(Account *account, int item)
{
    account->items[3] = item;
}

KEEP static int item_of(Account *account)
{
    return account->items[3];
}

KEEP static void set_mode(Bank *of, int mode)
{
    of->main->mode = mode;
}

KEEP static int mode_of(Bank *of)
{
    return of->main->mode;
}

static void writer(void)
{
    Account *account = bank->main.get();
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump(account);
        set_limit(account, (int)i);
        set_item(account, (int)i);
        set_mode(bank, (int)i);
        busy(4);
    }
}

static void reader(void)
{
    Account *account = bank->main.get();
    for (unsigned i = 0; i < ROUNDS; i++) {
        bump(account);
        use_value(limit_of(account));
        use_value(item_of(account));
        use_value(mode_of(bank));
        busy(4);
    }
}

int main(void)
{
    bank = new Bank;
    return run_pair(writer, reader);
}
