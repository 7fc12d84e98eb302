// What containers hold, reached through calls of the library that nothing inlines.
//@ build: O0 O0+clang O0+debugfile
//@ flags: -std=c++17
//@ expect: what=* pointee=Row.hits region=heap functions=hit_row,hit_row
//@ expect: what=* pointee=Best.score functions=set_best,best_of
//@ expect: what=* pointee=Owned.state region=heap functions=set_state,state_of
#include "../lib/crew.h"
#include <memory>
#include <optional>
#include <vector>

struct Row {
    long key = 0;
    int hits = 0;
};

struct Best {
    long key = 0;
    int score = 0;
};

struct Owned {
    long key = 0;
    int state = 0;
};

struct Ledger {
    std::vector<Row> rows = std::vector<Row>(8);
    std::optional<Best> best = Best();
    std::unique_ptr<Owned> owned = std::make_unique<Owned>();
};

static Ledger *ledger;

KEEP static void hit_row(Ledger *of)
{
    of->rows[3].hits++;
}

KEEP static void set_best(Ledger *of, int score)
{
    of->best->score = score;
}

KEEP static int best_of(Ledger *of)
{
    return of->best->score;
}

KEEP static void set_state(Ledger *of, int state)
{
    of->owned->state = state;
}

KEEP static int state_of(Ledger *of)
{
    return of->owned->state;
}

static void writer(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        hit_row(ledger);
        set_best(ledger, (int)i);
        set_state(ledger, (int)i);
        busy(4);
    }
}

static void reader(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        hit_row(ledger);
        use_value(best_of(ledger));
        use_value(state_of(ledger));
        busy(4);
    }
}

int main(void)
{
    ledger = new Ledger;
    return run_pair(writer, reader);
}
