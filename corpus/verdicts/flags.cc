// The same with members.
//@ race: what=widget truth=benign category=safe-flag-update
//@ reason: one writer, and it changes another bit than the one that is tested
#include "../lib/crew.h"

enum : unsigned { Visible = 1, Dirty = 2 };

struct Widget {
    int id;
    unsigned flags;
    KEEP bool visible() const { return flags & Visible; }
    KEEP void mark(bool dirty)
    {
        if (dirty)
            flags |= Dirty;
        else
            flags &= ~Dirty;
    }
};

static Widget widget{7, Visible};
static unsigned drawn;

static void painter()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (widget.visible())
            drawn++;
        busy(4);
    }
}

static void editor()
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        widget.mark(i & 1);
        busy(4);
    }
}

int main()
{
    return run_pair(painter, editor);
}
