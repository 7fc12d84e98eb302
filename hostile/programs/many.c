// Many places to sample, and little to do.
volatile long counted;
#define FILL(n) void fill_##n(void) { counted += n; counted ^= n; counted -= n; }
#define TEN(n) FILL(n##0) FILL(n##1) FILL(n##2) FILL(n##3) FILL(n##4) FILL(n##5) FILL(n##6) FILL(n##7) FILL(n##8) FILL(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)

int main(void) {
    for (int i = 0; i < 1000; i++) fill_100();
    return 0;
}
