//! Accesses that synchronise by the names of the kernel's functions.

use super::build::{KERNEL, MARK, compile, one};
use redhanded_image::{DebugSearch, Image};
use redhanded_model::{Marking, Svma};

const SOURCE: &str = r#"
typedef struct { int counter; } atomic_t;
struct kref { atomic_t count; };
struct object { struct kref kref; int plain; unsigned long flags; unsigned sequence; int *next; };

static inline int arch_atomic_read(const atomic_t *v) { return *(const volatile int *)&v->counter; }
static inline int atomic_read(const atomic_t *v) { return arch_atomic_read(v); }
static inline int constant_test_bit(long n, const volatile unsigned long *a) { return (*a >> n) & 1; }
static inline void __set_bit(long n, unsigned long *a) { *a |= 1ul << n; }
static inline void kref_put(struct kref *k, void (*release)(struct kref *)) { release(k); }
static inline void link_up(int **at, int *next) { *at = next; }
static inline void osq_unlock(struct object *o, int *next) { link_up(&o->next, next); }
static inline void raw_write_seqcount_begin(struct object *o) { o->sequence += 2; }
static void release(struct kref *k) { ((struct object *)k)->plain = 17; }

int reads(struct object *o) { return atomic_read(&o->kref.count); }
int tests(struct object *o) { return constant_test_bit(3, &o->flags); }
void sets(struct object *o) { __set_bit(4, &o->flags); }
void puts_it(struct object *o) { kref_put(&o->kref, release); }
void unlocks(struct object *o, int *next) { osq_unlock(o, next); }
void counts(struct object *o) { raw_write_seqcount_begin(o); }
int plain(struct object *o) { return o->plain; }
"#;

fn told(image: &Image, function: &str, access: &str) -> Marking {
    let at = Svma(one(image, function, access));
    image.debug().source_evidence(at).marking
}

fn is_unknown(marking: &Marking) -> bool {
    matches!(marking, Marking::Unknown { .. })
}

fn marked(how: &str) -> Marking {
    Marking::Atomic {
        word: how.to_owned(),
    }
}

#[test]
fn by_inlined_functions_of_a_kernel() {
    let built = compile(&format!("{MARK}{SOURCE}"), "source.c", &KERNEL);
    let image = built.linked(&[(".text", 0xffff_ffff_c010_0000)]);
    assert_eq!(
        told(&image, "reads", "[rdi]"),
        marked("arch_atomic_read, atomic operation")
    );
    assert_eq!(
        told(&image, "tests", "[rdi+"),
        marked("constant_test_bit, atomic bit operation")
    );
    assert_eq!(
        told(&image, "unlocks", "[rdi+"),
        marked("osq_unlock, inside a spinlock"),
        "the store is in a function inlined into it"
    );
    assert_eq!(
        told(&image, "counts", "[rdi+"),
        marked("raw_write_seqcount_begin, inside a sequence counter")
    );
    // Plain bit operations, what a last reference releases, and all else.
    for (function, access) in [("sets", "[rdi+"), ("puts_it", "[rdi+"), ("plain", "[rdi+")] {
        assert_eq!(told(&image, function, access), Marking::Plain, "{function}");
    }
}

#[test]
fn a_program_that_has_such_names_is_judged_by_its_text() {
    let built = compile(SOURCE, "source.c", &KERNEL);
    let image = built.linked(&[(".text", 0xffff_ffff_c010_0000)]);
    assert_eq!(told(&image, "unlocks", "[rdi+"), Marking::Plain);
    assert_eq!(told(&image, "counts", "[rdi+"), Marking::Plain);
}

#[test]
fn assembly_that_must_not_go_away_is_no_volatile_access() {
    let source = format!(
        "{MARK}
#define BARRIER() asm volatile(\"\" ::: \"memory\")
#define CHECK(x) ({{ if (x) BARRIER(); }})
#define ONCE(x) (*(volatile int *)&(x))
struct s {{ int a, b; }};
void checks(struct s *p) {{ CHECK(p->b); }}
int once(struct s *p) {{ return ONCE(p->b); }}
"
    );
    let built = compile(&source, "source.c", &KERNEL);
    let image = built.linked(&[(".text", 0xffff_ffff_c010_0000)]);
    assert_eq!(told(&image, "checks", "[rdi+4]"), Marking::Plain);
    assert_eq!(told(&image, "once", "[rdi+4]"), marked("macro ONCE"));
}

#[test]
fn sources_in_a_tree_that_was_given() {
    let source = format!(
        "{MARK}
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
struct s {{ int a, b; }};
int once(struct s *p) {{ return READ_ONCE(p->b); }}
int plain(struct s *p) {{ return p->b; }}
"
    );
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("linux");
    std::fs::create_dir_all(tree.join("fs")).unwrap();
    std::fs::write(tree.join("fs/source.c"), &source).unwrap();
    // As kernels are built: paths in them lead nowhere.
    let object = folder.path().join("object");
    super::build::run(
        std::process::Command::new("gcc")
            .current_dir(&tree)
            .args(KERNEL)
            .arg(format!(
                "-ffile-prefix-map={}=debian/build/x",
                tree.display()
            ))
            .args(["fs/source.c", "-o"])
            .arg(&object),
    );
    let built = super::build::Built {
        path: object,
        folder,
    };
    let image = built.linked(&[(".text", 0xffff_ffff_c010_0000)]);
    assert!(is_unknown(&told(&image, "once", "[rdi+4]")));
    let image = image.with_debug_search(DebugSearch {
        sources: vec![tree.clone()],
        ..DebugSearch::nowhere()
    });
    assert_eq!(told(&image, "once", "[rdi+4]"), marked("READ_ONCE"));
    assert_eq!(told(&image, "plain", "[rdi+4]"), Marking::Plain);
    // The same name elsewhere is another file's.
    std::fs::rename(tree.join("fs/source.c"), tree.join("source.c")).unwrap();
    let image = built
        .linked(&[(".text", 0xffff_ffff_c010_0000)])
        .with_debug_search(DebugSearch {
            sources: vec![tree],
            ..DebugSearch::nowhere()
        });
    assert!(is_unknown(&told(&image, "once", "[rdi+4]")));
}
