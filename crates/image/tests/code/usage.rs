//! What the code around an access does with the value, in optimised and unoptimised code.

use crate::fixture::{Built, assembly, c};
use redhanded_model::{Bits, Step, Usage, Use};

const SOURCE: &str = r#"
    #include <pthread.h>
    #include <sched.h>
    #include <stdlib.h>
    #define KEEP __attribute__((noipa))
    unsigned flags, number, other, table[64]; unsigned char byte, spin; int *pointer;
    struct { unsigned a:3, b:5; } bits;
    pthread_mutex_t lock; void *volatile sink;

    KEEP void count(void) { number++; }
    KEEP void count_down(void) { number--; }
    KEEP void add(unsigned by) { number += by; }
    KEEP void set_bit(void) { flags |= 0x40; }
    KEEP void clear_bit(void) { flags &= ~0x40u; }
    KEEP void set_low(unsigned i) { byte = (byte & 0xf0) | (i & 0x0f); }
    KEEP void set_field(unsigned v) { bits.b = v; }
    KEEP void set_constant(void) { number = 7; }
    KEEP void test_bit(void) { if (flags & 1) other++; }
    KEEP void test_shifted(void) { if ((flags >> 3) & 1) other++; }
    KEEP int test_result(void) { return flags & 4; }
    KEEP void caller(void) { if (test_result()) other++; }
    KEEP void follow(void) { other = *pointer; }
    KEEP void index(void) { other = table[number]; }
    KEEP void loop(void) { for (unsigned i = 0; i < number; i++) table[i] = 1; }
    KEEP void wait(void) { while (number != 3) __asm__ volatile("pause" ::: "memory"); }
    KEEP void wait_politely(void) { while (number != 3) sched_yield(); }
    KEEP void pass(void) { sink = malloc(number); }
    KEEP void check(void) { if (number == 0) number = 5; }
    KEEP void check_again(void) {
        if (!number) { pthread_mutex_lock(&lock); if (!number) number = 5; pthread_mutex_unlock(&lock); }
    }
    KEEP void locked(void) { pthread_mutex_lock(&lock); number = 5; pthread_mutex_unlock(&lock); }
    KEEP void released(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); number = 5; }
    static inline __attribute__((always_inline)) void my_lock_acquire(void) {
        while (__atomic_exchange_n(&spin, 1, __ATOMIC_ACQUIRE)) __asm__ volatile("pause");
    }
    static inline __attribute__((always_inline)) void my_lock_release(void) {
        __atomic_store_n(&spin, 0, __ATOMIC_RELEASE);
    }
    KEEP void spun(void) { my_lock_acquire(); number = 5; my_lock_release(); }
    KEEP void spun_before(void) { my_lock_acquire(); my_lock_release(); number = 5; }
    KEEP void either(int x) { unsigned v = number; if (x) v |= 1; else v = 9; number = v; }
    KEEP int part_of_an_address(void) { other = *(unsigned *)((char *)table + ((flags & 2) << 2)); return 0; }
    KEEP int copy_a_bit(void) { other = flags & 0x10; return 0; }
    KEEP int copy(void) { other = flags; return 0; }
    KEEP void above(void) { if (number > 100) other++; }
    KEEP void equal(void) { if (number == 100) other++; }
    KEEP void several(void) { if (number > 1) other++; }
    KEEP void in_range(void) { if (number - 1 < 100) other++; }
    KEEP void compare(unsigned long a, unsigned n) { if (n > a) other++; }
    KEEP void pass_to_compare(void) { compare(other * 2, number); }
    KEEP void keep(unsigned n) { other = n; }
    KEEP void pass_to_keep(void) { keep(number); }
    KEEP void ignore(unsigned turns) { for (unsigned i = 0; i < turns; i++) __asm__ volatile("pause"); }
    unsigned gauge, references, seats;
    KEEP void up(void) { pthread_mutex_lock(&lock); gauge++; pthread_mutex_unlock(&lock); }
    KEEP void down(void) { pthread_mutex_lock(&lock); gauge--; pthread_mutex_unlock(&lock); }
    KEEP void watch(void) { if (gauge > 100) other++; }
    KEEP void get(void) { references++; }
    KEEP unsigned put(void) { return --references; }
    KEEP void drop(void) { if (put() == 0) free(sink); }
    KEEP void sit(void) { pthread_mutex_lock(&lock); seats++; pthread_mutex_unlock(&lock); }
    KEEP void rise(void) { seats--; }
    KEEP void sit_if_free(void) { if (seats < 100) sit(); }
    unsigned served, shown, total;
    KEEP void show(void) { shown = served; }
    KEEP void show_sum(void) { total = served + 1; }
    int main(void) { caller(); ignore(3); return 0; }
"#;

fn each(check: impl Fn(&Built, &str)) {
    for level in ["-O0", "-O2"] {
        check(&c(SOURCE, &[level, "-g", "-pthread"]), level);
    }
}

/// The usages of the function's sites.
fn usages(built: &Built, function: &str) -> Vec<Usage> {
    let sites = built.sites_at(built.start(function));
    sites
        .iter()
        .map(|site| built.image.usage(site.svma, &[]))
        .collect()
}

/// The first thing that `pick` finds at a site of the function.
fn find<T>(built: &Built, function: &str, pick: impl Fn(&Usage) -> Option<T>) -> Option<T> {
    usages(built, function).iter().find_map(pick)
}

#[test]
fn what_an_update_adds() {
    each(|built, level| {
        let step = |name| find(built, name, |usage| usage.step);
        assert_eq!(step("count"), Some(Step::By(1)), "{level}");
        assert_eq!(step("count_down"), Some(Step::By(-1)), "{level}");
        assert_eq!(step("add"), Some(Step::Up), "{level}");
        assert_eq!(step("set_bit"), Some(Step::Bits), "{level}");
        assert_eq!(step("set_constant"), None, "{level}");
        assert_eq!(step("follow"), None, "{level}");
    });
}

#[test]
fn which_bits_a_write_changes() {
    each(|built, level| {
        let changes = |name: &str, size: u32| {
            let mask = u64::MAX >> (64 - size * 8);
            // The store knows most: what it stores may have been computed before the load.
            let usages = usages(built, name);
            let mut changes = usages.iter().rev().filter_map(|usage| usage.changes);
            changes.next().map(|bits| bits.0 & mask)
        };
        assert_eq!(changes("set_bit", 4), Some(0x40), "{level}");
        assert_eq!(changes("clear_bit", 4), Some(0x40), "{level}");
        assert_eq!(changes("set_low", 1), Some(0x0f), "{level}");
        assert_eq!(changes("set_field", 1), Some(0xf8), "{level}");
        let constant = find(built, "set_constant", |usage| usage.constant);
        assert_eq!(constant, Some(Bits(7)), "{level}");
        // One way stores something else.
        let either = changes("either", 4);
        assert!(
            either.is_none_or(|bits| bits == 0xffff_ffff),
            "{level}: {either:x?}"
        );
    });
}

#[test]
fn which_bits_a_branch_tests() {
    each(|built, level| {
        let tests = |name| find(built, name, |usage| usage.tests);
        // Unoptimised code leaves the value in the register of the result, which only a caller
        // can tell from a result.
        if level == "-O2" {
            assert_eq!(tests("test_bit"), Some(Bits(1)));
            assert_eq!(tests("test_shifted"), Some(Bits(8)));
        }
        assert_eq!(tests("either"), None, "{level}");
    });
}

#[test]
fn which_bits_anything_depends_on() {
    each(|built, level| {
        let tests = |name| find(built, name, |usage| usage.tests);
        if level == "-O2" {
            assert_eq!(tests("part_of_an_address"), Some(Bits(2)));
            assert_eq!(tests("copy_a_bit"), Some(Bits(0x10)));
            assert_eq!(tests("copy"), Some(Bits(0xffff_ffff)));
        }
        let address =
            |usage: &Usage| (usage.has(&Use::Address) || usage.has(&Use::Index)).then_some(());
        assert!(find(built, "part_of_an_address", address).is_some());
    });
}

/// The second byte of a register has the bits from 8 on, and its first byte can be changed
/// alone.
#[test]
fn parts_of_registers_have_their_own_bits() {
    let built = assembly(
        ".globl second, rest\n.type second, @function\n.type rest, @function\n\
         second: movzx ecx, word ptr [rdi]\ntest ch, 1\njne 1f\nxor ecx, ecx\n1: xor ecx, ecx\nret\n\
         .size second, .-second\n\
         rest: mov eax, dword ptr [rdi]\nand al, 0xf\ntest eax, 0x101\njne 1f\n1: xor eax, eax\nret\n\
         .size rest, .-rest\n",
    );
    let tests = |name| find(&built, name, |usage| usage.tests);
    assert_eq!(tests("second"), Some(Bits(0x100)));
    assert_eq!(tests("rest"), Some(Bits(0x101)));
}

#[test]
fn thresholds_are_told_from_other_questions() {
    each(|built, level| {
        let asks = |name| find(built, name, |usage| usage.threshold.then_some(()));
        assert!(asks("above").is_some(), "{level}");
        for name in ["equal", "several", "in_range", "test_bit", "check", "copy"] {
            assert!(asks(name).is_none(), "{name} {level}");
        }
    });
}

#[test]
fn an_argument_is_followed_into_what_is_called() {
    each(|built, level| {
        let of = |name, built: &Built| {
            let passed = |usage: &Usage| usage.uses.iter().any(|it| matches!(it, Use::Passed(_)));
            let usages = usages(built, name);
            (
                usages.iter().any(passed),
                usages.iter().any(|usage| usage.threshold),
            )
        };
        assert_eq!(of("pass_to_compare", built), (false, true), "{level}");
        assert_eq!(of("pass_to_keep", built), (true, false), "{level}");
    });
}

#[test]
fn a_result_is_followed_into_the_caller() {
    each(|built, level| {
        let site = built.sites_at(built.start("test_result"))[0].svma;
        let alone = built.image.usage(site, &[]);
        assert!(alone.has(&Use::Returned), "{level}: {alone:?}");
        assert_eq!(alone.tests, None);
    });
}

#[test]
fn where_a_value_goes() {
    each(|built, level| {
        for (name, used) in [
            ("follow", Use::Address),
            ("index", Use::Index),
            ("loop", Use::Loop),
            ("wait", Use::Wait),
            ("wait_politely", Use::Wait),
            ("pass", Use::Passed(Some("malloc".to_owned()))),
            ("check", Use::Overwritten),
        ] {
            let usages = usages(built, name);
            // Unoptimised code computes the address of an element first.
            let used = match used {
                Use::Index if level == "-O0" => Use::Address,
                used => used,
            };
            assert!(
                usages.iter().any(|usage| usage.has(&used)),
                "{name} {level}: {usages:?}"
            );
        }
        for name in ["test_bit", "index", "follow", "pass", "check"] {
            let usages = usages(built, name);
            let waits = |usage: &Usage| usage.has(&Use::Wait) || usage.has(&Use::Loop);
            assert!(!usages.iter().any(waits), "{name} {level}: {usages:?}");
        }
    });
}

#[test]
fn locks_before_and_between() {
    each(|built, level| {
        let lock = Some("pthread_mutex_lock".to_owned());
        assert_eq!(
            find(built, "check_again", |usage| usage.checked_again.clone()),
            lock,
            "{level}"
        );
        assert_eq!(
            find(built, "check", |usage| usage.checked_again.clone()),
            None,
            "{level}"
        );
        assert_eq!(
            find(built, "locked", |usage| usage.lock.clone()),
            lock,
            "{level}"
        );
        assert_eq!(
            find(built, "released", |usage| usage.lock.clone()),
            None,
            "{level}"
        );
        assert_eq!(
            find(built, "check", |usage| usage.lock.clone()),
            None,
            "{level}"
        );
    });
}

#[test]
fn an_inlined_lock_is_a_lock() {
    each(|built, level| {
        // The last store is the one that gives the lock back, or comes after it.
        let before_last = |name: &str, skip: usize| {
            let mut usages = usages(built, name);
            usages.truncate(usages.len() - skip);
            usages.pop().unwrap().lock
        };
        let lock = Some("my_lock_acquire".to_owned());
        assert_eq!(before_last("spun", 1), lock, "{level}");
        assert_eq!(before_last("spun_before", 0), None, "{level}");
    });
}

#[test]
fn a_counter_is_searched_in_the_whole_file() {
    each(|built, level| {
        let sites = built.sites_at(built.start("count"));
        let instruction = built.image.instruction_at(sites[0].svma).unwrap();
        let address = instruction
            .sampled_access()
            .unwrap()
            .operand
            .constant()
            .unwrap();
        let steps = built.image.updates_of(redhanded_model::Svma(address)).steps;
        assert!(
            steps.contains(&Step::By(-1)) && steps.contains(&Step::Up),
            "{level}: {steps:?}"
        );
    });
}

/// The updates of the variable that the function's first site accesses.
fn updates_at(built: &Built, function: &str) -> redhanded_image::Updates {
    let fixed = |site: &redhanded_model::Site| {
        let instruction = built.image.instruction_at(site.svma)?;
        instruction.sampled_access()?.operand.constant()
    };
    let address = built.sites_at(built.start(function)).iter().find_map(fixed);
    built
        .image
        .updates_of(redhanded_model::Svma(address.unwrap()))
}

#[test]
fn what_is_left_after_counting_down_may_be_tested_elsewhere() {
    each(|built, level| {
        let references = updates_at(built, "get");
        assert!(
            references.left_tested && !references.guarded,
            "{level}: {references:?}"
        );
        let gauge = updates_at(built, "watch");
        assert!(!gauge.left_tested && gauge.guarded, "{level}: {gauge:?}");
        let seats = updates_at(built, "rise");
        assert!(!seats.left_tested && !seats.guarded, "{level}: {seats:?}");
    });
}

#[test]
fn whoever_only_looks_does_not_lead_to_a_writer() {
    each(|built, level| {
        let looks = |name| find(built, name, |usage| usage.only_looks.then_some(()));
        assert!(looks("watch").is_some(), "{level}");
        assert!(looks("sit_if_free").is_none(), "{level}");
    });
}

/// What Rust does without optimisation: checks that end in a panic stand between the load and
/// the store, and one of them comes from before the load.
#[test]
fn a_panic_does_not_come_back() {
    let built = assembly(
        ".globl count\n.type count, @function\n.type _ZN4core9panicking5panicE, @function\n\
         count: sub rsp, 24\ntest edi, edi\njne 1f\n\
         mov rcx, qword ptr [rip + hits]\nmov rax, rcx\nadd rax, 1\n\
         mov qword ptr [rsp + 8], rax\ncmp rax, rcx\njb 3f\njmp 2f\n\
         1: call _ZN4core9panicking5panicE\n\
         2: test esi, esi\njne 4f\njmp 1b\n\
         3: call _ZN4core9panicking5panicE\n\
         4: mov rax, qword ptr [rsp + 8]\nmov qword ptr [rip + hits], rax\nadd rsp, 24\nret\n\
         .size count, .-count\n\
         _ZN4core9panicking5panicE: ud2\n\
         .size _ZN4core9panicking5panicE, .-_ZN4core9panicking5panicE\n\
         .bss\n.local hits\n.align 8\nhits: .zero 8\n",
    );
    let step = find(&built, "count", |usage| usage.step);
    assert_eq!(step, Some(Step::By(1)));
}

#[test]
fn a_variable_with_nothing_but_copies_is_known() {
    each(|built, level| {
        let copies = |function: &str| -> Vec<String> {
            let sites = built.sites_at(built.start(function));
            let copies = sites
                .iter()
                .flat_map(|site| built.image.copies_of(site.svma));
            let variable = |at| built.image.debug().variable_at(at).expect("a variable");
            copies.map(|at| variable(at).name).collect()
        };
        assert_eq!(copies("show"), ["shown"], "{level}");
        // It is changed before, or other code writes there, too.
        assert_eq!(copies("show_sum"), [""; 0], "{level}");
        assert_eq!(copies("copy"), [""; 0], "{level}");
        assert_eq!(copies("copy_a_bit"), [""; 0], "{level}");
    });
}
