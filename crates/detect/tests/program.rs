//! Collisions of a small program with debug information: what becomes of a value in each caller,
//! and how a replay is told. Needs gcc and nm.

use redhanded_detect::{Around, Collision, Confirmed, Folded, Folder, Replay, tally};
use redhanded_image::{Image, Instruction};
use redhanded_model::{
    AccessKind, Avma, Bytes, Change, ModuleId, Region, Registers, SpaceId, Svma, TaskId,
    ThreadName, Use, WindowEnd, WindowId, WindowRecord,
};
use redhanded_replay::{Call, Difference, End, Ended, Failure, Judgement, Order, Outcome, Side};
use redhanded_target::Module;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const SOURCE: &str = "
static unsigned flags; unsigned table[64], sum;
#define KEEP __attribute__((noipa))
KEEP unsigned get(void) { return flags; }
KEEP void asks(void) { if (get() & 1) sum++; }
KEEP void picks(void) { sum += table[get() & 0x10]; }
KEEP void writes(void) { flags ^= 0x10; }
";

fn module(folder: &Path) -> (Arc<Module>, Bytes) {
    let [source, library] = ["source.c", "library.so"].map(|name| folder.join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-g", "-O2", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(built.unwrap().success());
    let symbols = Command::new("nm").arg(&library).output().unwrap().stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(" flags"));
    let at = u64::from_str_radix(&line.unwrap()[..16], 16).unwrap();
    let module = Arc::new(Module {
        id: ModuleId(0),
        space: SpaceId::default(),
        name: "library.so".to_owned(),
        bias: 0,
        range: 0..0x10_0000,
        image: Some(Arc::new(Image::open(&library).unwrap())),
    });
    (module, Bytes::new(Avma(at), 4))
}

/// The first instruction of a function that is so.
fn first(module: &Module, function: &str, is: impl Fn(&str) -> bool) -> (u64, Instruction) {
    let image = module.image.as_ref().unwrap();
    let functions = image.functions().as_slice();
    let mut named = functions
        .iter()
        .filter(|f| f.name.as_deref() == Some(function));
    let function = named.next().unwrap();
    let mut at = function.start;
    loop {
        let instruction = image.instruction_at(at).unwrap();
        if is(&instruction.text()) {
            return (at.0, instruction);
        }
        at = Svma(instruction.next());
        assert!(at < function.end);
    }
}

/// `get`, called by this function, met `writes`.
fn collision(module: &Module, bytes: Bytes, caller: &str) -> Collision {
    let (read_at, read) = first(module, "get", |text| text.contains('['));
    let (write_at, write) = first(module, "writes", |text| text.starts_with("xor"));
    let back = first(module, caller, |text| text.starts_with("call"))
        .1
        .next();
    let image = module.image.as_ref().unwrap();
    let code = image.bytes_at(Svma(read_at), (read.next() - read_at) as usize);
    let confirmed = Confirmed {
        pc: Avma(write_at),
        kind: AccessKind::Update,
        bytes,
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
            registers: Registers {
                rip: read_at,
                ..Registers::default()
            },
            bytes,
            kind: AccessKind::Read,
            before: vec![1, 0, 0, 0],
            after: vec![0x11, 0, 0, 0],
            hit: None,
            end: WindowEnd::Collided,
            held: Duration::ZERO,
            losses: Vec::new(),
        },
        sampled: (ThreadName::default(), vec![Avma(read_at), Avma(back)]),
        other: Some((confirmed, ThreadName::default(), vec![Avma(write_at)])),
        region: Region::Global {
            module: module.name.clone(),
        },
        modules: vec![module.id],
        suspects: Vec::new(),
        sampled_code: code.unwrap().to_vec(),
        around: Around::default(),
        replay: None,
        analysed: None,
    }
}

#[test]
fn what_each_caller_does_with_the_value_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (module, bytes) = module(folder.path());
    let modules = [Arc::clone(&module)];
    let mut races = Folder::new();
    let asks = collision(&module, bytes, "asks");
    let picks = collision(&module, bytes, "picks");
    assert_eq!(races.add(&asks, &modules), Folded::New(0));
    for _ in 0..2 {
        assert_eq!(races.add(&asks, &modules), Folded::Again(0));
        assert_eq!(races.add(&picks, &modules), Folded::Again(0));
    }
    let race = &races.races()[0];
    assert!(!race.usage[0].has(&Use::Index), "{:?}", race.usage);
    assert_eq!((race.instances, race.pairs.len()), (5, 1));
    let other = &race.pairs[0].usage[0];
    assert!(other.has(&Use::Index), "{other:?}");
}

#[test]
fn what_two_orders_leave_behind_is_told_whole_and_in_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let (module, bytes) = module(folder.path());
    let modules = [Arc::clone(&module)];
    let mut collision = collision(&module, bytes, "asks");
    let at = bytes.start.0;
    let word = |value: u64| value << (8 * (at % 8));
    let memory = Difference::Memory {
        address: at,
        this: vec![0xbc],
        that: vec![0xbb],
        words: [word(0x3bbc), word(0x3bbb)],
    };
    let register = Difference::Register {
        side: Side::A,
        name: "rdx".to_owned(),
        this: 0x117_a773,
        that: 0x117_a774,
    };
    let (this, that) = (Order::First(Side::A), Order::First(Side::B));
    let ip = first(&module, "asks", |_| true).0;
    let ended = |ip| Ended {
        end: End::Bound,
        ip,
        steps: 1,
        calls: Vec::new(),
    };
    let outcome = |order| Outcome {
        order,
        ended: [ended(ip), ended(ip)],
    };
    collision.replay = Some(Replay {
        judgement: Judgement {
            call: Call::StateChange {
                this,
                that,
                differences: vec![register, memory],
                further: Vec::new(),
                untold: None,
            },
            outcomes: vec![outcome(this), outcome(that)],
            used: Vec::new(),
            steps: 2,
        },
        race: (at, at + 4),
        took: Duration::ZERO,
    });
    let difference = |modules: &[Arc<Module>]| tally(&collision, modules).unwrap().difference;
    let [memory, register] = <[_; 2]>::try_from(difference(&modules)).unwrap();
    assert_eq!((memory.what.as_str(), memory.raced), ("flags", true));
    assert_eq!(memory.this, "15292 (held first)");
    assert_eq!(memory.that, "15291 (caught first)");
    assert_eq!(register.what, "rdx of the held thread");
    let place = register.in_use.unwrap();
    assert!(place.starts_with("asks (source.c:"), "{place}");
    // Nothing is known of the type, but which bytes both threads access.
    let unnamed = &difference(&[])[0];
    assert_eq!(unnamed.what, "the raced bytes");
    assert_eq!(unnamed.this, "0x3bbc (held first)");
}

/// A replay in which the second order leaves another value at these bytes, and perhaps more.
fn value_changes(
    bytes: Bytes,
    further: Vec<(Order, Difference)>,
    untold: Option<Failure>,
) -> Replay {
    let (this, that) = (Order::First(Side::A), Order::First(Side::B));
    let at = bytes.start.0;
    Replay {
        judgement: Judgement {
            call: Call::StateChange {
                this,
                that,
                differences: vec![changed(at, 1)],
                further,
                untold,
            },
            outcomes: Vec::new(),
            used: Vec::new(),
            steps: 2,
        },
        race: (at, at + 4),
        took: Duration::ZERO,
    }
}

fn changed(address: u64, to: u8) -> Difference {
    Difference::Memory {
        address,
        this: vec![0],
        that: vec![to],
        words: [0; 2],
    }
}

#[test]
fn what_later_orders_change_counts_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (module, bytes) = module(folder.path());
    let mut collision = collision(&module, bytes, "asks");
    collision.replay = Some(value_changes(bytes, Vec::new(), None));
    let itself = tally(&collision, &[]).unwrap();
    assert!(itself.changes_only_what_is_raced_on(), "{itself:?}");
    let split = Order::Split {
        side: Side::B,
        after: 2,
    };
    let elsewhere = (split, changed(bytes.start.0 + 64, 9));
    collision.replay = Some(value_changes(bytes, vec![elsewhere], None));
    let more = tally(&collision, &[]).unwrap();
    assert!(!more.changes_only_what_is_raced_on(), "{more:?}");
    assert_eq!(more.state_change, 1);
    assert_eq!(more.difference[1].that, "0x9 (held in between)");
}

#[test]
fn a_list_that_is_cut_short_is_not_of_the_value_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (module, bytes) = module(folder.path());
    let mut collision = collision(&module, bytes, "asks");
    let cut = Some(Failure::ManyDifferences);
    collision.replay = Some(value_changes(bytes, Vec::new(), cut.clone()));
    let itself = tally(&collision, &[]).unwrap();
    assert!(!itself.changes_only_what_is_raced_on(), "{itself:?}");
    assert_eq!((itself.replay_failure, itself.state_change), (1, 0));
    // Where something else differs anyway, that is told.
    let further = vec![(Order::First(Side::B), changed(bytes.start.0 + 64, 9))];
    collision.replay = Some(value_changes(bytes, further, cut));
    let more = tally(&collision, &[]).unwrap();
    assert_eq!((more.replay_failure, more.state_change), (0, 1));
}
