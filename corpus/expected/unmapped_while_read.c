// Memory is unmapped while another thread stands at a read of it. Nobody writes to it, so that no watch fires: it is
// found because the bytes are gone.
//@ build: O0 O2 O2+stripped
//@ full: O2+clang O2+nodebug
//@ expect: class=race origin=unknown what=* functions=read_page
//@ expect: class=race origin=unknown what=* functions=read_block
static void enter(void)
{
}

static void leave(void)
{
}

#include "../lib/pages.h"
