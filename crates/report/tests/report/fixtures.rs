//! Races as a run would tell them.

use redhanded_model::{
    AccessKind, AccessReport, AccessValue, BitField, Block, Class, Covered, Creation, Declared,
    Doubt, Ending, Evidence, Expression, Extent, Fact, Fingerprint, Form, Frame, Known, Loss,
    Losses, Marking, Pointee, PointeeSource, Race, Region, Report, Rule, Run, SeenBy, SideEvidence,
    SiteCounts, SourceEvidence, ThreadName, Typed, Unseen, Values, What,
};
use redhanded_report::{SourceLine, Writer};
use std::sync::Arc;

pub fn thread(tid: u32, name: &str) -> ThreadName {
    ThreadName {
        tid,
        name: name.into(),
        context: None,
    }
}

pub fn frame(function: &str, file: &str, line: u32, address: u64) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(line),
        module: Some("demo".into()),
        address,
        inlined: false,
    }
}

pub fn library_frame() -> Frame {
    Frame {
        function: Some("start_thread".into()),
        file: None,
        line: None,
        module: Some("libc.so.6".into()),
        address: 0x89134,
        inlined: false,
    }
}

pub fn access(kind: AccessKind, function: &str, file: &str, line: u32) -> AccessReport {
    AccessReport {
        thread: thread(4711, "worker"),
        kind,
        size: 4,
        pc: 0x5555_5555_11a6,
        instruction: None,
        atomic: false,
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(line),
        system_call: None,
        freed_by: None,
        pointee: None,
        value: None,
        created: None,
        stack: vec![frame(function, file, line, 0x11a6), library_frame()],
    }
}

fn race(what: What, values: Values, accesses: Vec<AccessReport>) -> Race {
    let places = accesses
        .iter()
        .map(|access| {
            let function = access.function.as_deref().unwrap_or("?");
            format!("{function} {}", access.kind.name())
        })
        .collect();
    let touched = match (&what.name, &what.field) {
        (Some(name), Some(field)) => format!("{name}{field}"),
        (Some(name), None) => name.clone(),
        (None, _) => "mapping".to_owned(),
    };
    Race {
        fingerprint: Fingerprint::new(places, &touched),
        class: Class::Race,
        rule: None,
        evidence: None,
        what,
        seen_by: SeenBy::Watch,
        analysed: None,
        values,
        instances: 3,
        accesses,
        suspects: Vec::new(),
        special: None,
        usage: Vec::new(),
        history: None,
        pairs: Vec::new(),
        verdict: None,
        triage: None,
        lines: Vec::new(),
    }
}

fn global(name: &str, type_name: &str, size: u64) -> What {
    What {
        name: Some(name.into()),
        type_name: Some(type_name.into()),
        field: None,
        field_in_full: None,
        bit_fields: Vec::new(),
        address: 0x5555_5555_8040,
        size,
        region: Region::Global {
            module: "demo".into(),
        },
        pointee: None,
        sides_differ: false,
        frame: None,
        block: None,
        allocated: None,
    }
}

/// Two threads set different bits of one word.
pub fn bit_fields() -> Race {
    let mut what = global("device", "unsigned int", 4);
    what.field = Some(".flags".into());
    what.bit_fields = [
        ("busy", 0, 1),
        ("state", 1, 3),
        ("level", 4, 1),
        ("need_callback", 5, 1),
    ]
    .map(|(name, first_bit, bits)| BitField {
        name: name.into(),
        first_bit,
        bits,
    })
    .to_vec();
    let mut held = access(AccessKind::Update, "set_busy", "demo.c", 42);
    held.instruction = Some("or dword ptr [rdi+8],1".into());
    let mut caught = access(AccessKind::Update, "request_callback", "demo.c", 71);
    caught.thread = thread(4710, "poll");
    caught.instruction = Some("or dword ptr [rbx+8],20h".into());
    caught.pc = 0x5555_5555_1204;
    caught.stack[0].address = 0x1204;
    caught.stack[0].inlined = true;
    caught
        .stack
        .insert(1, frame("poll_loop", "demo.c", 90, 0x1204));
    let values = Values {
        before: vec![0x11, 0, 0, 0],
        after: vec![0x31, 0, 0, 0],
        ..Values::default()
    };
    race(what, values, vec![held, caught])
}

/// The bytes changed and nobody was seen.
pub fn unknown_origin() -> Race {
    let what = What {
        name: None,
        type_name: None,
        field: None,
        field_in_full: None,
        bit_fields: Vec::new(),
        address: 0x7fff_f7fb_a000,
        size: 8,
        region: Region::Mapping {
            name: "/dev/zero (deleted)".into(),
            shared: true,
        },
        pointee: None,
        sides_differ: false,
        frame: None,
        block: None,
        allocated: None,
    };
    let mut held = access(AccessKind::Read, "wait_for_peer", "shm.c", 17);
    held.size = 8;
    held.instruction = Some("mov rax,[rdi]".into());
    let values = Values {
        before: vec![0; 8],
        after: vec![0xff, 0x55, 0x01, 0, 0, 0, 0, 0x80],
        ..Values::default()
    };
    let mut race = race(what, values, vec![held]);
    race.seen_by = SeenBy::Value;
    race.instances = 1;
    race
}

/// Plain moves that may be relaxed atomics.
pub fn possibly_atomic() -> Race {
    let mut held = access(AccessKind::Read, "ready", "flag.c", 9);
    held.file = None;
    held.line = None;
    held.stack[0].file = None;
    held.stack[0].line = None;
    let mut caught = held.clone();
    caught.kind = AccessKind::Write;
    caught.function = None;
    caught.stack[0].function = None;
    caught.stack[0].address = 0x1300;
    caught.thread = thread(4712, "");
    let values = Values {
        before: vec![1, 0, 0, 0],
        after: vec![1, 0, 0, 0],
        ..Values::default()
    };
    let mut race = race(global("flag", "int", 4), values, vec![held, caught]);
    race.class = Class::PossiblyAtomic;
    race.instances = 2;
    race
}

/// What is known about a read that meets a write, in words that come from outside.
pub fn evidence(words: &str) -> Evidence {
    let words = || words.to_owned();
    let source = SourceEvidence {
        marking: Marking::Unknown {
            why: Doubt::UnknownName(words()),
        },
        expression: Some(Expression {
            text: words(),
            file: words(),
            line: 7,
            column: Some(3),
        }),
        declared: Some(words()),
        covers: Some(Covered { start: 0, len: 2 }),
    };
    let extent = Extent {
        address: 0x5555_5555_8040,
        size: 4,
    };
    let side = |kind, facts: Vec<Fact>| SideEvidence {
        kind,
        extent,
        facts: facts.into_iter().map(Known::from).collect(),
    };
    let form = Form::Operation;
    let read = vec![
        Fact::Form { form },
        Fact::Natural { natural: true },
        Fact::HalfOfUpdate,
        Fact::Source { source },
        Fact::MaySearch,
    ];
    let name = words;
    let frees = true;
    let write = vec![
        Fact::Locked,
        Fact::ChangesNothing { known: true },
        Fact::AtomicVector,
        Fact::MemoryFunction { name: name() },
        Fact::SystemCall { name: name() },
        Fact::SequenceSection,
        Fact::CallersUnknown,
        Fact::KernelWithoutDebugInformation,
        Fact::Allocator {
            name: name(),
            frees,
            hands_out: true,
        },
    ];
    let as_what = Declared::Volatile;
    let bytes = [
        Fact::Declared {
            part: words(),
            as_what,
        },
        Fact::Special { reason: words() },
        Fact::Unmapped,
    ];
    Evidence {
        sides: vec![side(AccessKind::Read, read), side(AccessKind::Write, write)],
        conflict: Some(extent),
        bytes: bytes.into_iter().map(Known::from).collect(),
    }
}

/// A read that stands while the block is freed.
pub fn freed() -> Race {
    let mut race = possibly_atomic();
    race.class = Class::Race;
    race.rule = Some(Rule::FreedWhileItStood);
    race.accesses[1].function = Some("drop_table".into());
    race.accesses[1].freed_by = Some("free".into());
    race.what.region = Region::Heap;
    race.evidence = Some(evidence("table"));
    race
}

/// A member of an object on the heap, which has no name of its own.
pub fn behind_a_pointer() -> Race {
    let pointee = |expression: &str| Pointee {
        expression: Some(expression.into()),
        type_name: "struct item".into(),
        path: ".it_flags".into(),
        member: None,
        part_type: "uint16_t".into(),
        from: PointeeSource::Variable,
        doubtful: false,
        outside: false,
    };
    let what = What {
        name: None,
        region: Region::Heap,
        pointee: Some(pointee("it->it_flags")),
        ..global("", "uint16_t", 2)
    };
    let mut held = access(AccessKind::Read, "process_get", "proto.c", 589);
    held.size = 2;
    held.pointee = Some(pointee("it->it_flags"));
    let mut caught = access(AccessKind::Update, "do_item_update", "items.c", 575);
    caught.size = 2;
    caught.pointee = Some(pointee("search->it_flags"));
    caught.thread = thread(4713, "lru");
    let values = Values {
        before: vec![3, 0],
        after: vec![11, 0],
        ..Values::default()
    };
    race(what, values, vec![held, caught])
}

/// A state that two threads set, in a block that the allocator knows.
pub fn typed() -> Race {
    let mut race = behind_a_pointer();
    race.what = What {
        type_name: Some("enum state".into()),
        size: 4,
        block: Some(Block {
            address: race.what.address - 16,
            size: 40,
        }),
        pointee: Some(Pointee {
            expression: Some("job->state".into()),
            type_name: "struct job".into(),
            path: ".state".into(),
            member: None,
            part_type: "enum state".into(),
            from: PointeeSource::Variable,
            doubtful: false,
            outside: false,
        }),
        ..race.what
    };
    race.values = Values {
        before: vec![0; 4],
        after: vec![1, 0, 0, 0],
        typed: Some(Typed {
            before: "IDLE".into(),
            after: "BUSY".into(),
        }),
    };
    for (access, (byte, name)) in race.accesses.iter_mut().zip([(2, "DONE"), (1, "BUSY")]) {
        access.kind = AccessKind::Write;
        access.size = 4;
        access.pointee = None;
        access.value = Some(AccessValue {
            bytes: vec![byte, 0, 0, 0],
            typed: Some(name.into()),
        });
        access.created = Some(Creation {
            thread: thread(4700, "main"),
            stack: vec![frame("start_workers", "pool.c", 21, 0x1400)],
        });
    }
    race
}

/// The same, with who allocated the block.
pub fn allocated() -> Race {
    let mut race = typed();
    let malloc = Frame {
        function: Some("malloc".to_owned()),
        ..library_frame()
    };
    race.what.allocated = Some(Creation {
        thread: thread(4700, "main"),
        stack: vec![malloc, frame("make_job", "pool.c", 12, 0x1480)],
    });
    race
}

/// `read()` fills a buffer another thread looks at.
pub fn system_call() -> Race {
    let what = What {
        type_name: Some("char [64]".into()),
        region: Region::Heap,
        name: Some("buffer".into()),
        ..global("", "", 32)
    };
    let mut held = access(AccessKind::Read, "parse", "io.c", 30);
    held.size = 32;
    held.instruction = Some("vmovdqu ymm0,[rsi]".into());
    let mut caught = access(AccessKind::Write, "__read", "", 0);
    caught.file = None;
    caught.line = None;
    caught.size = 64;
    caught.system_call = Some("read".into());
    caught.thread = thread(4712, "reader");
    caught.stack = vec![
        Frame {
            module: Some("libc.so.6".into()),
            file: None,
            line: None,
            ..frame("__read", "", 0, 0xf81a0)
        },
        frame("fill", "io.c", 12, 0x1180),
    ];
    let mut after = vec![0; 32];
    after[8..16].copy_from_slice(b"GET / HT");
    after[16] = b'P';
    let values = Values {
        before: vec![0; 32],
        after,
        ..Values::default()
    };
    race(what, values, vec![held, caught])
}

pub const CPP: &str = "cache::Table<std::__cxx11::basic_string<char, std::char_traits<char>, \
                       std::allocator<char> >, Entry>::insert(std::__cxx11::basic_string<char, \
                       std::char_traits<char>, std::allocator<char> > const&, Entry*)";
pub const RUST: &str = "<demo::stats::Shared<alloc::sync::Arc<demo::stats::Counter>> as \
                        demo::stats::Record<u64>>::record";

/// Names of C++ and Rust.
pub fn long_names() -> Race {
    let held = access(
        AccessKind::Write,
        CPP,
        "/build/cache-2.1/src/include/cache/table.hpp",
        210,
    );
    let mut caught = access(AccessKind::Read, RUST, "src/stats.rs", 8);
    caught.thread = thread(4710, "main");
    let values = Values {
        before: 41i64.to_le_bytes().to_vec(),
        after: 41i64.to_le_bytes().to_vec(),
        ..Values::default()
    };
    race(global("hits", "i64", 8), values, vec![held, caught])
}

/// A thread and a symbol that try to drive the terminal.
pub fn hostile() -> Race {
    let mut race = possibly_atomic();
    race.accesses[0].thread.name = "\x1b]0;owned\x07\x1b[2J".into();
    race.accesses[1].function = Some("f\u{202e}(tni)\u{9b}31m\r\n".into());
    race.what.name = Some("x\ny".into());
    race
}

/// A run with all of it.
pub fn run() -> Report {
    let mut losses = Losses::default();
    for (loss, number) in [
        (Loss::OverBudget, 9),
        (Loss::Alone, 1204),
        (Loss::StaleTrap, 2),
    ] {
        losses.0.insert(loss, number);
    }
    let run = Run {
        recorded: None,
        program: vec!["./demo".into(), "--threads=4".into()],
        runs: 1,
        cut_off: 0,
        wall_s: 12.34,
        samples: 2_470,
        windows: 1_257,
        held_s: 0.61,
        thread_s: 24.5,
        standstill: None,
        sites: SiteCounts {
            total: 812,
            armed: 500,
            sampled: 120,
        },
        losses,
        unseen: vec![Unseen {
            what: "libc.so.6".into(),
            why: "runtime library, not sampled".into(),
        }],
        crash: None,
        cut_short: false,
        ending: Some(Ending::Exited { status: 0 }),
        candidates: Vec::new(),
    };
    Report {
        run,
        set_aside: Vec::new(),
        races: vec![bit_fields(), possibly_atomic(), unknown_origin()],
        quotes: Vec::new(),
    }
}

/// No source is at hand.
pub fn no_source() -> SourceLine {
    Arc::new(|_, _| None)
}

/// The lines of `demo.c`.
pub fn source() -> SourceLine {
    Arc::new(|file, line| {
        (file == "demo.c").then(|| match line {
            42 => "\t\tdev->busy = 1;".to_owned(),
            _ => "\tdev->need_callback = 1;".to_owned(),
        })
    })
}

/// In one of the formats.
pub fn written(writer: &dyn Writer, report: &Report) -> String {
    let mut text = Vec::new();
    writer.write(report, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}
