//! Readers under a sequence counter: what their meeting with a writer is called,
//! by what is known of the writer's callers. Needs gcc.

use redhanded_detect::{Around, Collision, Confirmed, Folded, Folder};
use redhanded_image::{Image, Instruction, link};
use redhanded_model::{
    AccessKind, Avma, Bytes, Change, Class, ModuleId, Region, Register, Registers, SpaceId, Svma,
    TaskId, ThreadName, WindowEnd, WindowId, WindowRecord,
};
use redhanded_target::{Module, VMLINUX};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// One function writes, with its callers' sections or without.
const SOURCE: &str = r#"
__attribute__((section(".modinfo"), used)) static const char license[] = "license=none";
struct object { unsigned sequence; int value; };
#define BARRIER() __asm__ volatile("" ::: "memory")
static inline unsigned read_seqcount_begin(struct object *o)
{ unsigned s; while ((s = *(volatile unsigned *)&o->sequence) & 1); BARRIER(); return s; }
static inline int read_seqcount_retry(struct object *o, unsigned s)
{ BARRIER(); return *(volatile unsigned *)&o->sequence != s; }
static inline void write_seqcount_begin(struct object *o) { o->sequence++; BARRIER(); }
static inline void write_seqcount_end(struct object *o) { BARRIER(); o->sequence++; }

int reads(struct object *o)
{ unsigned s; int v; do { s = read_seqcount_begin(o); v = o->value; } while (read_seqcount_retry(o, s)); return v; }
__attribute__((noinline)) void sets(struct object *o, int v) { o->value = v; BARRIER(); }
void careful(struct object *o, int v) { write_seqcount_begin(o); sets(o, v); write_seqcount_end(o); }
void careless(struct object *o, int v) { sets(o, v); BARRIER(); }
"#;
const TEXT: u64 = 0xffff_ffff_c010_0000;
const VALUE: Bytes = Bytes::new(Avma(0xffff_8880_0000_1004), 4);

/// A module with its source in `folder`, which tells plain accesses from marked ones.
fn kernel_module(folder: &Path) -> Arc<Module> {
    let [source, object] = ["source.c", "object"].map(|name| folder.join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let built = Command::new("gcc")
        .args(["-c", "-g", "-O2", "-mcmodel=kernel", "-fno-pic"])
        .args(["-fcf-protection=none", "-o"])
        .arg(&object)
        .arg(&source)
        .status();
    assert!(built.unwrap().success());
    let places = [(".text".to_owned(), TEXT)];
    let linked = link(&std::fs::read(&object).unwrap(), &places, None, &|_| None).unwrap();
    std::fs::write(&object, linked).unwrap();
    Arc::new(Module {
        id: ModuleId(0),
        space: SpaceId::default(),
        name: "guarded".to_owned(),
        bias: 0,
        range: TEXT..TEXT + 0x1000,
        image: Some(Arc::new(Image::open(&object).unwrap())),
    })
}

/// The first instruction of a function that is so, and where it is.
fn first(image: &Image, function: &str, is: impl Fn(&Instruction) -> bool) -> (u64, Instruction) {
    let functions = image.functions().as_slice();
    let named = |f: &&redhanded_image::Function| f.name.as_deref() == Some(function);
    let function = functions.iter().find(named).unwrap();
    let mut at = function.start;
    loop {
        let instruction = image.instruction_at(at).unwrap();
        if is(&instruction) {
            return (at.0, instruction);
        }
        at = Svma(instruction.next());
        assert!(at < function.end);
    }
}

/// The reader met the writer, whose callers are these.
fn collision(module: &Module, callers: &[Avma]) -> Collision {
    let image = module.image.as_ref().unwrap();
    let touches = |instruction: &Instruction| instruction.text().contains("+4]");
    let (read_at, read) = first(image, "reads", touches);
    let (write_at, write) = first(image, "sets", touches);
    let mut registers = Registers {
        rip: read_at,
        ..Registers::default()
    };
    registers.set(Register::Rdi, VALUE.start.0 - 4);
    let code = image.bytes_at(Svma(read_at), (read.next() - read_at) as usize);
    let mut stack = vec![Avma(write.next())];
    stack.extend(callers);
    let confirmed = Confirmed {
        pc: Avma(write_at),
        kind: AccessKind::Write,
        bytes: VALUE,
        locked: false,
        instruction: write.text(),
        system_call: None,
        freed_by: None,
        form: write.form(),
        found: None,
        change: Change::Made,
    };
    Collision {
        record: WindowRecord {
            id: WindowId(1),
            space: SpaceId::default(),
            module: module.id,
            svma: Svma(read_at),
            pc: Avma(read_at),
            task: TaskId(1),
            registers,
            bytes: VALUE,
            kind: AccessKind::Read,
            before: vec![0; 4],
            after: vec![1; 4],
            hit: None,
            end: WindowEnd::Collided,
            held: Duration::ZERO,
            losses: Vec::new(),
        },
        sampled: (ThreadName::default(), vec![Avma(read_at)]),
        other: Some((confirmed, ThreadName::default(), stack)),
        region: Region::Heap,
        modules: vec![module.id],
        suspects: Vec::new(),
        sampled_code: code.unwrap().to_vec(),
        around: Around::default(),
        replay: None,
        analysed: None,
    }
}

/// What it is called.
fn class(collision: &Collision, module: &Arc<Module>) -> Option<Class> {
    let mut folder = Folder::new();
    match folder.add(collision, &[Arc::clone(module)]) {
        Folded::New(index) | Folded::Again(index) => Some(folder.races()[index].class),
        _ => None,
    }
}

#[test]
fn a_read_under_a_sequence_counter_is_judged_by_the_writers_callers() {
    let folder = tempfile::tempdir().unwrap();
    let module = kernel_module(folder.path());
    let image = module.image.as_ref().unwrap();
    let behind_call = |function| {
        let calls = |instruction: &Instruction| instruction.text().starts_with("call");
        Avma(first(image, function, calls).1.next())
    };
    let met = |callers: &[Avma]| class(&collision(&module, callers), &module);
    assert_eq!(met(&[behind_call("careful")]), None);
    assert_eq!(met(&[behind_call("careless")]), Some(Class::Race));
    // Who called it is not known, or lies where nothing is known.
    for callers in [&[][..], &[Avma(0xffff_ffff_c020_0000)]] {
        assert_eq!(met(callers), Some(Class::PossiblyAtomic));
    }
}

/// Without its image nothing tells that a sequence counter guards it.
#[test]
fn a_read_in_a_kernel_that_cannot_be_read_may_be_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let module = kernel_module(folder.path());
    let mut unaligned = collision(&module, &[]);
    let bytes = Bytes::new(Avma(VALUE.start.0 + 1), 4);
    unaligned.record.bytes = bytes;
    unaligned.other.as_mut().unwrap().0.bytes = bytes;
    for (name, called) in [(VMLINUX, Class::PossiblyAtomic), ("a program", Class::Race)] {
        let unread = Arc::new(Module {
            id: module.id,
            space: module.space,
            name: name.to_owned(),
            bias: module.bias,
            range: module.range.clone(),
            image: None,
        });
        assert_eq!(class(&unaligned, &unread), Some(called), "{name}");
    }
}
