//! Modules linked as the kernel does it: against what ld makes of them.

use super::build::{Built, KERNEL, MARK, compile, instructions, one, open, places, run, start};
use object::{Object, ObjectSection};
use redhanded_image::{Image, LinkError, link};
use redhanded_model::{AccessKind, Excluded, Svma};
use std::process::Command;

const SOURCE: &str = r#"
struct counter { long since; int hits; };
static struct counter table[4];
static int unused_here[2] = { 1, 2 };
int *pointer = &unused_here[1];
int shared = 7;
extern int outside(int);
extern int elsewhere;

__attribute__((noinline)) static int callee(int i) { return table[i].hits; }

int bump(int i)
{
    table[i].hits++;
    return outside(shared) + callee(i) + elsewhere;
}

__attribute__((section(".init.text"))) int begin(int *p)
{
    return *p + shared;
}
"#;

const TEXT: u64 = 0xffff_ffff_c020_0040;
const INIT: u64 = 0xffff_ffff_c028_0000;
const DATA: u64 = 0xffff_ffff_c021_0000;
const BSS: u64 = 0xffff_ffff_c021_0800;
const OUTSIDE: u64 = 0xffff_ffff_8123_4560;
const ELSEWHERE: u64 = 0xffff_ffff_82c0_0010;

const SECTIONS: [(&str, u64); 4] = [
    (".text", TEXT),
    (".init.text", INIT),
    (".data", DATA),
    (".bss", BSS),
];

fn module() -> Built {
    compile(&format!("{MARK}{SOURCE}"), "module.c", &KERNEL)
}

fn resolve(name: &str) -> Option<u64> {
    match name {
        "outside" => Some(OUTSIDE),
        "elsewhere" => Some(ELSEWHERE),
        _ => None,
    }
}

fn linked(built: &Built, debug: Option<&[u8]>) -> Image {
    let linked = link(&built.bytes(), &places(&SECTIONS), debug, &resolve).unwrap();
    open(built.folder.path(), &linked)
}

#[test]
fn code_and_data_are_what_ld_makes_of_them() {
    let built = module();
    let image = linked(&built, None);
    let by_ld = built.folder.path().join("by-ld");
    let mut ld = Command::new("ld");
    ld.args(["-e", "0", "--no-relax", "-z", "noexecstack", "-o"])
        .arg(&by_ld)
        .arg(&built.path)
        .arg(format!("--defsym=outside={OUTSIDE:#x}"))
        .arg(format!("--defsym=elsewhere={ELSEWHERE:#x}"));
    for (name, address) in SECTIONS {
        ld.arg(format!("--section-start={name}={address:#x}"));
    }
    run(&mut ld);
    let data = std::fs::read(&by_ld).unwrap();
    let expected = object::File::parse(&*data).unwrap();
    for (name, address) in &SECTIONS[..3] {
        let section = expected.section_by_name(name).unwrap();
        assert_eq!(section.address(), *address);
        let expected = section.data().unwrap();
        assert!(!expected.is_empty());
        let found = image.bytes_at(Svma(*address), expected.len());
        assert_eq!(found, Some(expected), "{name}");
    }
    let bss = image.segment_at(Svma(BSS)).unwrap();
    assert_eq!((bss.mem_size, bss.file_size), (64, 0));
    assert!(bss.writable && !bss.executable);
}

fn check_names(image: &Image) {
    let bump = start(image, "bump");
    let update = one(image, "bump", "add dword ptr");
    let frames = image.debug().frames(Svma(update));
    assert_eq!(frames[0].function.as_deref(), Some("bump"));
    assert!(frames[0].file.as_deref().unwrap().ends_with("module.c"));
    let text = format!("{MARK}{SOURCE}");
    let line = text.lines().position(|line| line.contains("hits++"));
    assert_eq!(
        frames[0].line,
        line.map(|line| u32::try_from(line).unwrap() + 1)
    );

    let hit = image.debug().variable_at(Svma(BSS + 2 * 16 + 8)).unwrap();
    assert_eq!(hit.name, "table");
    assert_eq!(hit.part(2 * 16 + 8, 4).path, "[2].hits");
    let shared = image.debug().variable_at(Svma(DATA)).unwrap();
    assert!(["shared", "pointer", "unused_here"].contains(&&*shared.name));

    let site = image.sites().at(Svma(update)).unwrap();
    assert_eq!((site.kind, site.size), (AccessKind::Update, 4));
    assert!(image.is_kernel());
    // Where it was loaded, but never sampled.
    let begin = start(image, "begin");
    assert_eq!(begin, INIT);
    assert!(image.sites().at(Svma(begin)).is_none());
    assert!(image.sites().excluded.0[&Excluded::InitText] > 0);
    assert_eq!(
        image.call_target_name(Svma(call(image))),
        Some("callee".to_owned())
    );
    assert_eq!(image.function_at(Svma(bump)).unwrap().start.0, bump);
}

/// Where the call of a function in the module returns to.
fn call(image: &Image) -> u64 {
    let callee = format!("call {:#x}", start(image, "callee"));
    let at = one(image, "bump", &callee);
    at + 5
}

#[test]
fn names_lines_variables_and_sites() {
    check_names(&linked(&module(), None));
}

#[test]
fn debug_information_in_a_file_of_its_own() {
    let built = module();
    for compressed in [false, true] {
        let debug = built.folder.path().join("debug");
        std::fs::copy(&built.path, &debug).unwrap();
        if compressed {
            run(Command::new("objcopy")
                .arg("--compress-debug-sections=zlib")
                .arg(&debug));
        }
        let stripped = built.folder.path().join("stripped");
        run(Command::new("strip")
            .args(["--strip-debug", "-o"])
            .arg(&stripped)
            .arg(&built.path));
        let stripped = std::fs::read(&stripped).unwrap();
        assert!(stripped.len() < built.bytes().len() / 2);
        let debug = std::fs::read(debug).unwrap();
        let linked = link(&stripped, &places(&SECTIONS), Some(&debug), &resolve).unwrap();
        check_names(&open(built.folder.path(), &linked));
    }
}

#[test]
fn what_is_not_in_memory_is_in_no_segment() {
    let built = module();
    let image = built.linked(&SECTIONS[..1]);
    assert_eq!(image.segments().len(), 1);
    assert!(image.function_at(Svma(start(&image, "bump"))).is_some());
    let functions = image.functions().as_slice();
    assert!(functions.iter().all(|f| f.name.as_deref() != Some("begin")));
    // Its lines and variables do not get in the way of those that are.
    let first = instructions(&image, "bump")[0].0;
    assert_eq!(
        image.debug().frames(Svma(first))[0].function.as_deref(),
        Some("bump")
    );
    assert!(image.debug().variable_at(Svma(0)).is_none());
}

#[test]
fn addresses_that_cannot_be() {
    let built = module();
    let link = |sections: &[(&str, u64)]| {
        link(&built.bytes(), &places(sections), None, &resolve).map(|_| ())
    };
    assert_eq!(link(&[]), Err(LinkError::NothingLoaded));
    assert_eq!(link(&[(".elsewhere", TEXT)]), Err(LinkError::NothingLoaded));
    assert_eq!(
        link(&[(".text", TEXT), (".data", TEXT + 4)]),
        Err(LinkError::Overlap(".text".to_owned(), ".data".to_owned()))
    );
    assert!(matches!(
        link(&[(".text", u64::MAX - 3)]),
        Err(LinkError::Malformed(_))
    ));
    assert!(matches!(
        redhanded_image::link(b"\x7fELF", &[], None, &resolve),
        Err(LinkError::NotAnObject(_))
    ));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(
        redhanded_image::link(&program, &[], None, &resolve),
        Err(LinkError::NotAnObject(_))
    ));
}

/// A look without the lock, and a second one with it. The kernel takes locks elsewhere.
const DOUBLE_CHECK: &str = r#"
struct mutex { long owner; };
extern void mutex_lock(struct mutex *lock);
extern void mutex_unlock(struct mutex *lock);
extern void forget(struct mutex *lock);
static struct mutex lock;
static int ready, other;
int made;

__attribute__((noinline, used)) static void use_table(void)
{
    if (!*(&ready)) {
        mutex_lock(&lock);
        if (!ready) {
            made++;
            ready = 1;
        }
        mutex_unlock(&lock);
    }
}
__attribute__((noinline, used)) static void drop_table(void)
{
    mutex_lock(&lock);
    ready = 0;
    mutex_unlock(&lock);
}
__attribute__((noinline, used)) static void without(void)
{
    if (!other) {
        forget(&lock);
        if (!other)
            other = 1;
    }
}
"#;

#[test]
fn the_kernel_takes_locks_for_a_module() {
    let built = compile(&format!("{MARK}{DOUBLE_CHECK}"), "lazy.c", &KERNEL);
    let resolve = |name: &str| match name {
        "mutex_lock" => Some(OUTSIDE),
        "mutex_unlock" => Some(OUTSIDE + 0x40),
        "forget" => Some(OUTSIDE + 0x80),
        _ => None,
    };
    let places = places(&SECTIONS);
    let linked = link(&built.bytes(), &places, None, &resolve).unwrap();
    let image = open(built.folder.path(), &linked);
    let usages = |function: &str| -> Vec<redhanded_model::Usage> {
        let start = start(&image, function);
        let end = image.function_at(Svma(start)).unwrap().end;
        let sites = image.sites();
        let within = (start..end.0).filter_map(|at| sites.at(Svma(at)));
        within.map(|site| image.usage(site.svma, &[])).collect()
    };
    let lock = Some("mutex_lock".to_owned());
    let again = |function| {
        let found = usages(function).into_iter();
        found.filter_map(|usage| usage.checked_again).next()
    };
    assert_eq!(again("use_table"), lock);
    assert_eq!(usages("drop_table")[0].lock, lock);
    assert_eq!(again("without"), None);
    // A symbol of the kernel is no function of the module.
    assert!(image.function_at(Svma(OUTSIDE)).is_none());
}
