//! Code that is known by its instructions.

use crate::fixture::c;
use redhanded_model::Svma;

const SET: &str = "
struct node { long count; struct node *next; } list;
int table[100];
__attribute__((noinline)) void f(struct node *at, int by) {
    for (; at; at = at->next) { at->count += by; table[by & 63]++; }
}
";

/// The hash of `f` in a program with `before` in front of it.
fn hash(source: &str, before: &str) -> u64 {
    let source = format!("{before}{source}int main(int n, char **v) {{ f(&list, n); return 0; }}");
    let built = c(&source, &["-O2", "-fno-ipa-icf"]);
    let functions = built.image.functions().as_slice();
    let f = functions.iter().find(|f| f.name.as_deref() == Some("f"));
    let at = f.expect("f is there").start;
    let stripped = built.stripped();
    let hash = stripped.image.code_hash(Svma(at.0 + 4));
    assert_eq!(hash, built.image.code_hash(at));
    hash.expect("the unwind table has it")
}

#[test]
fn moved_code_has_the_same_hash_and_other_code_another() {
    let plain = hash(SET, "");
    let moved = "int more[4000] = {1}; int g(int n) { return more[n] * 3; }\n";
    assert_eq!(plain, hash(SET, moved));
    let other_field = SET.replace("at->count += by", "at->count -= by");
    assert_ne!(plain, hash(&other_field, ""));
    let other_offset = SET.replace("long count;", "long first, count;");
    assert_ne!(plain, hash(&other_offset, ""));
}
