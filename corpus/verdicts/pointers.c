// Pointers that are published without order.
//@ race: what=route truth=harmful category=publication
//@ race: what=handler truth=harmful category=publication
//@ race: what=banner truth=harmful category=publication
//@ reason: what is behind the pointer may not be there yet, or no longer
#include "../lib/crew.h"

struct route {
    unsigned hop;
    unsigned cost;
};
typedef void (*handler_function)(void);

static struct route routes[8];
static struct route *route = routes;
static unsigned handled[2];
static void handle_a(void) { handled[0]++; }
static void handle_b(void) { handled[1]++; }
static handler_function handler = handle_a;
static const char *banner = "first";
static unsigned long sum;

KEEP static void use_route(void) { sum += route->cost; }
KEEP static void call_handler(void) { handler(); }
KEEP static void show_banner(void) { sum += (unsigned char)banner[1]; }
KEEP static void change_route(unsigned i)
{
    routes[i & 7].cost = i;
    route = &routes[i & 7];
}
KEEP static void change_handler(unsigned i) { handler = i & 1 ? handle_a : handle_b; }
KEEP static void change_banner(unsigned i) { banner = i & 1 ? "first" : "second"; }

REPEAT(user, use_route(); busy(1); call_handler(); busy(1); show_banner())
REPEAT(owner, change_route(i); busy(1); change_handler(i); busy(1); change_banner(i))

int main(void)
{
    return run_pair(user, owner);
}
