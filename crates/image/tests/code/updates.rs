//! Unoptimised read-modify-writes are seen as such, other pairs are not.

use crate::fixture::c;

const SOURCE: &str = r#"
    int x; unsigned char flags; struct { int a:3; int b:5; } bits; int many[100];
    struct node { struct node *next; int count; } *head;
    struct holder { struct node *node; };
    _Bool found; double real;
    void increment(void) { x++; }
    void through_pointer(struct node *p) { p->count++; }
    void through_two(struct holder *h) { h->node->count += 3; }
    void element(int i) { many[i]++; }
    void set_flag(void) { flags |= 4; }
    void set_bits(int v) { bits.b = v; }
    void by_copy(void) { int t = x; t = t + 1; x = t; }
    struct node *pop(void) { struct node *n = head; head = n->next; return n; }
    void flip(void) { found = !found; }
    void add_real(void) { real += 1.0; }

    void copy(int *p) { x = *p; }
    int swap(int v) { int old = x; x = v; return old; }
    void check_first(int y) { if (x == 3) x = y; }
    void publish(struct node *n) { n->next = head; head = n; }
    int main(void) { return 0; }
"#;

#[test]
fn both_halves_of_updates_are_seen() {
    let built = c(SOURCE, &["-O0"]);
    for name in [
        "increment",
        "through_pointer",
        "through_two",
        "element",
        "set_flag",
        "set_bits",
        "by_copy",
        "pop",
        "flip",
        "add_real",
    ] {
        let halves = halves(&built, name);
        assert_eq!(halves, ["read", "write"], "{name}: {:?}", built.sites(name));
    }
}

#[test]
fn a_store_of_something_else_is_no_half() {
    let built = c(SOURCE, &["-O0"]);
    for name in ["copy", "swap", "check_first", "publish"] {
        assert_eq!(halves(&built, name), [""; 0], "{name}");
        assert!(!built.sites(name).is_empty());
    }
}

/// The kinds of the function's sites that are halves, in order.
fn halves(built: &crate::fixture::Built, function: &str) -> Vec<&'static str> {
    built
        .sites_at(built.start(function))
        .iter()
        .filter(|site| built.image.half_of_update(site.svma))
        .map(|site| site.kind.name())
        .collect()
}
