// Requests pushed to the front of a list without its lock: of two pushed at
// the same time one is lost. The list is never walked, only emptied.
//@ expect: what=pending.first functions=push_request,push_request
//@ expect: what=pending.first functions=push_request,drop_all_requests
//@ race: what=pending.first truth=harmful category=list-link
#include "../lib/crew.h"

struct request {
    struct request *next;
    unsigned long number;
};

static struct {
    struct request *first;
} pending;

// Each thread pushes its own, so that only the list itself is contended.
static struct request submitted[2][8];

KEEP static void push_request(struct request *request)
{
    request->next = pending.first;
    pending.first = request;
}

KEEP static void drop_all_requests(void)
{
    pending.first = NULL;
}

static void submit(unsigned int queue)
{
    static unsigned long numbers[2];
    unsigned long number = numbers[queue]++;

    push_request(&submitted[queue][number % 8]);
}

static void submitter(void)
{
    submit(0);
}

static void submitter_and_collector(void)
{
    submit(1);
    crew_idle(20);
    drop_all_requests();
}

CREW_MODULE(submitter, submitter_and_collector, "a list pushed to without its lock");
