// A loop over one member of an array of pairs is vectorised and reads whole pairs. The other
// member is written by another thread. The source reads no byte of it: no data race.
//@ build: O3
//@ full: O0 O2 O3+clang O2+clang O3+nodebug O3+stripped O3+dwarf4
//@ focus: sum_prices set_stock
//@ twin-expect: what=goods functions=sum_prices,set_stock
#include "../lib/crew.h"

struct {
    int price, stock;
} goods[64];

KEEP static int sum_prices(void)
{
    int sum = 0;
    for (unsigned i = 0; i < 64; i++)
        sum += goods[i].price;
    return sum;
}

KEEP static void set_stock(unsigned of, int to)
{
#ifdef TWIN
    goods[of].price = to;
#else
    goods[of].stock = to;
#endif
}

REPEAT(summer, use_value(sum_prices()))
REPEAT(stocker, set_stock(i & 31, (int)i))

int main(void)
{
    return run_pair(summer, stocker);
}
