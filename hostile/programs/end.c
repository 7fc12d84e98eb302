// Says "ran", works for a moment, or for so many turns, and ends with 7.
#include <stdlib.h>
#include <unistd.h>

volatile long shared;

int main(int count, char **arguments) {
    long turns = count > 1 ? atol(arguments[1]) : 3000000;
    if (write(1, "ran\n", 4) != 4) return 1;
    for (long i = 0; i < turns; i++) shared++;
    return 7;
}
