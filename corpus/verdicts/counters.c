// Statistics in several shapes.
//@ race: what=requests truth=benign category=statistics-counter
//@ race: what=errors truth=benign category=statistics-counter
//@ race: what=bytes_in truth=benign category=statistics-counter
//@ race: what=port.packets truth=benign category=statistics-counter
//@ reason: all are only counted up and printed at the end
#include "../lib/crew.h"
#include <stdio.h>

static unsigned long requests;
static unsigned errors;
static unsigned long bytes_in;
static struct {
    int number;
    unsigned packets;
} port;

KEEP static void count_request(void) { requests++; }
KEEP static void count_error(void) { errors += 1; }
KEEP static void count_bytes(unsigned length) { bytes_in += length; }
KEEP static void count_packet(void) { port.packets++; }

REPEAT(worker, count_request(); busy(1); count_error(); busy(1); count_bytes(i & 63); busy(1); count_packet())

int main(void)
{
    int status = run_pair(worker, worker);
    printf("%lu %u %lu %u\n", requests, errors, bytes_in, port.packets);
    return status;
}
