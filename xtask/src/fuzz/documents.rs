//! Seeds that are text, and the few bytes of a cache of sites.

use super::seeds::Seed;
use redhanded_recording::wire::{CHUNK_MAGIC, ChunkKind, Entry, Function, Kind, check};
use redhanded_recording::{Ending, Header, Item, Writer};
use redhanded_replay::{Limits, Mode, Scenario, Scene, Snapshot, SourceLine, Start, State};

/// What a gdbstub says, as stubs say it. The first byte is the length of a piece.
const PACKETS: [&str; 6] = [
    "@+$OK#9a$E22#a9$#00",
    "@+$PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+#00",
    "@$mp01.01,p01.02#00$l#6c$vCont;c;C;s;S#00",
    "@$T05thread:p01.02;awatch:ffffffff82a079c0;#00",
    "@$T02thread:01;#00$W00#b7",
    "@$53ff00f0*\"53ff00f0c3e2#00",
];

/// A description with a bit of everything.
const DESCRIPTION: &str = r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>
<architecture>i386:x86-64</architecture><!-- <reg name="no"/> --><xi:include href="target.xml"/>
<reg name="rax" bitsize="64" type="int64" regnum="0"/><reg name="rbx" bitsize="64"/><reg name="rcx" bitsize="64"/>
<reg name="rdx" bitsize="64"/><reg name="rsi" bitsize="64"/><reg name="rdi" bitsize="64"/><reg name="rbp" bitsize="64"/>
<reg name="rsp" bitsize="64"/><reg name="r8" bitsize="64"/><reg name="r9" bitsize="64"/><reg name="r10" bitsize="64"/>
<reg name="r11" bitsize="64"/><reg name="r12" bitsize="64"/><reg name="r13" bitsize="64"/><reg name="r14" bitsize="64"/>
<reg name="r15" bitsize="64"/><reg name="rip" bitsize='64'/><reg name="eflags" bitsize="32"/><reg name="cs" bitsize="32"/>
<reg name="st0" bitsize="80"/><reg name="xmm0" bitsize="128" regnum="40"/><reg name="cr3" bitsize="64"/></target>"#;

/// Lists of suspects, written by hand and printed by other tools.
const SUSPECTS: [&str; 4] = [
    "# a list\nput | get\nsrc/a.c:12 | b.c:7:3\nPath::operator| | put (a.c:3)\n",
    include_str!("../../../crates/suspects/tests/said/threadsanitizer.txt"),
    include_str!("../../../crates/suspects/tests/said/helgrind.txt"),
    include_str!("../../../crates/suspects/tests/said/go.txt"),
];

const MAPS: &str = "\
55a4d8c00000-55a4d8c02000 r-xp 00001000 fe:00 1234                       /usr/bin/some program
7f2a1c000000-7f2a1c021000 rw-s 00000000 00:05 7                          /dev/shm/x\\012y (deleted)
7ffd1b9e0000-7ffd1ba01000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

/// What a guest's kernel and its init say.
const CONSOLE: &str = "\
[    0.1] Kernel panic - not syncing: Attempted to kill init!\r
[    0.2] BUG: unable to handle page fault for address: 0\r
[    0.3] Oops: 0002 [#1] PREEMPT SMP\r
ready
module bad.ko
exit 3
";

/// Files that people write.
const SETTINGS: [&str; 3] = [
    "[[suppress]]\nfunction = \"w*\"\nfile = \"{a,b}/**\"\nsides = \"both\"\nbecause = \"x\"\n\
     owner = \"o\"\nuntil = \"2030-01-31\"\n[[suppress]]\nframe = \"work\"\nclass = \"race\"\nbecause = \"y\"\n",
    "[[annotation]]\nfunction = \"work\"\nbenign = \"a counter\"\n[[annotation]]\nvariable = \"shared\"\n\
     protected-by = \"lock\"\n[[annotation]]\nfield = \"node.next\"\nignore = true\n",
    "# why\nrace:^work$\nrace_top:a*b{c}?\\\nthread:x\n",
];

/// Thirteen counts, two functions, three sites.
const SITES: [u8; 23] = [
    0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 3, 0x20, 0x10, 0x22, 4, 0x45, 8,
];

/// Answers of a replayer, each after its length: it asks for a page, or has run nothing.
const JUDGEMENTS: [u8; 8] = [1, 1, 0x80, 0x20, 1, 3, 1, 0];

/// The seeds that need nothing but themselves.
pub fn seeds() -> Vec<Seed> {
    let mut seeds: Vec<Seed> = (1..)
        .zip(PACKETS)
        .map(|(number, text)| Seed::new(&format!("packets{number}"), text.into()))
        .collect();
    let suspects = (1..).zip(SUSPECTS);
    seeds.extend(suspects.map(|(n, text)| Seed::new(&format!("suspects{n}"), text.into())));
    seeds.push(Seed::new("description", DESCRIPTION.into()));
    seeds.push(Seed::new("maps", MAPS.into()));
    let scenario = scenario();
    seeds.push(Seed::new("scenario1", scenario.to_bytes()));
    seeds.push(Seed::new("scenario2", scenario.to_unpacked()));
    seeds.push(Seed::new("sites", [&SITES[..], &[1]].concat()));
    let (entries, file) = recording();
    seeds.push(Seed::new("chunks", chunks(&entries)));
    let settings = (1..).zip(SETTINGS);
    seeds.extend(settings.map(|(n, text)| Seed::new(&format!("settings{n}"), text.into())));
    seeds.push(Seed::new("console", CONSOLE.into()));
    seeds.push(Seed::new("guest", guest()));
    seeds.push(Seed::new("names", names()));
    seeds.push(Seed::new("judgements", JUDGEMENTS.to_vec()));
    seeds.push(Seed::new("recording1", entries));
    seeds.push(Seed::new("recording2", file));
    seeds
}

/// Two threads at one number: one counts it up in a loop, the other one sets it and follows a
/// pointer.
fn scenario() -> Scenario {
    const DATA: u64 = 0x20_0000;
    const CODE: [u64; 2] = [0x10_0000, 0x11_0000];
    let counts = [
        0xff, 0x07, // inc dword ptr [rdi]
        0x48, 0xff, 0xc9, // dec rcx
        0x75, 0xf9, // jnz to the start
        0x0f, 0xae, 0xf0, // mfence
    ];
    let sets = [
        0xc7, 0x07, 7, 0, 0, 0, // mov dword ptr [rdi], 7
        0x48, 0x8b, 0x47, 0x08, // mov rax, [rdi+8]
        0x8b, 0x00, // mov eax, [rax]
        0x0f, 0xae, 0xf0, // mfence
    ];
    let mut memory = Snapshot::new(true);
    memory.write(CODE[0], &counts);
    memory.write(CODE[1], &sets);
    memory.write(DATA + 8, &(DATA + 16).to_le_bytes());
    let thread = |ip| {
        let mut state = State {
            ip,
            ..State::default()
        };
        // rcx and rdi
        state.general[1] = 5;
        state.general[7] = DATA;
        Start::Before(state)
    };
    Scenario {
        id: "ab12cd34".to_owned(),
        what: "number".to_owned(),
        program: vec!["./program".to_owned()],
        names: ["thread 1".to_owned(), "thread 2".to_owned()],
        scene: Scene {
            mode: Mode::User,
            threads: CODE.map(thread),
            race: vec![(DATA, DATA + 4)],
            handled: 0,
        },
        limits: Limits::default().with_weak_memory(),
        memory,
        files: Vec::new(),
        places: [(CODE[0], SourceLine::default())].into(),
        data: [(DATA, (4, "number".to_owned()))].into(),
    }
}

/// The entries of a small recording, and the whole.
fn recording() -> (Vec<u8>, Vec<u8>) {
    let item = |kind, address, number: Option<u64>, values: &[u64]| {
        let entry = Entry {
            kind,
            size: 8,
            address,
            word: 0x0000_0002_0000_0001,
        };
        Item::new(entry, number, values)
    };
    let with = |kind, size, address, word, values: &[u64]| {
        let entry = Entry {
            kind,
            size,
            address,
            word,
        };
        Item::new(entry, None, values)
    };
    let lock = Function::MutexLock as u64;
    let items = [
        item(
            Kind::Start,
            0,
            Some(1),
            &[0x7f00_0000_0000, 0x7eff_ffff_0000],
        ),
        item(Kind::SystemCall, 435, Some(2), &[0, 88]),
        item(Kind::SystemReturn, 435, Some(4), &[2]),
        item(Kind::Call, lock, Some(5), &[0x60_0000]),
        item(Kind::Return, lock, Some(7), &[0]),
        item(Kind::Write, 0x50_0000, None, &[]),
        item(Kind::Atomic, 0x50_0008, Some(9), &[]),
        item(Kind::Exit, 0, Some(11), &[]),
        with(Kind::Check, check::FRESH, 0, 3, &[0x40_0000]),
        with(Kind::Register, 0, 4, 0x7eff_ffff_0000, &[]),
        with(Kind::At, 0, 0, 5, &[]),
        with(Kind::Load, 0, 0x50_0000, 6, &[]),
        with(Kind::Check, check::STOPPED, 3, 7, &[0x40_0003]),
    ];
    let entries = items.iter().flat_map(Item::to_entries);
    let bytes: Vec<u8> = entries.flat_map(Entry::pack).collect();
    let written = Writer::new(Vec::new(), &Header::default()).and_then(|mut writer| {
        let hello = br#"{"version":1,"process":1,"parent":0,"program":"/bin/true"}"#;
        writer.append(1, ChunkKind::Hello, 0, hello)?;
        writer.append(1, ChunkKind::Entries, 1, &bytes)?;
        writer.append(1, ChunkKind::Goodbye, 0, b"")?;
        writer.finish(&Ending::default())
    });
    (bytes, written.unwrap_or_default())
}

/// The stream of a recorded process.
fn chunks(entries: &[u8]) -> Vec<u8> {
    let hello = br#"{"version":1,"process":1,"parent":0,"program":"/bin/true"}"#;
    let chunk = |kind: ChunkKind, thread: u32, bytes: &[u8]| {
        let mut chunk = CHUNK_MAGIC.to_vec();
        chunk.extend([kind as u8, 0, 0, 0]);
        chunk.extend(thread.to_le_bytes());
        chunk.extend((bytes.len() as u32).to_le_bytes());
        chunk.extend(bytes);
        chunk
    };
    [
        chunk(ChunkKind::Hello, 0, hello),
        chunk(ChunkKind::Entries, 1, entries),
        chunk(ChunkKind::Goodbye, 0, b""),
    ]
    .concat()
}

/// Memory with pointers of every kind: registers of two CPUs, and then a list, a task, a table.
fn guest() -> Vec<u8> {
    const LIST: u64 = 0xffff_ffff_8200_0000;
    const DIRECT: u64 = 0xffff_8880_0000_0000;
    let registers = [DIRECT, 0x7000, 0x10_0000, 0];
    let memory = [
        LIST,
        DIRECT + 0x2000,
        LIST + 8,
        u64::from_le_bytes(*b".text\0\0\0"),
        0x67,
        3,
        LIST + 0x40,
        0xffff_c900_0000_4000,
    ];
    // Registers are the words from their highest byte on.
    let registers = registers
        .iter()
        .cycle()
        .take(8)
        .map(|word| word.to_be_bytes());
    let memory = memory
        .iter()
        .cycle()
        .take(56)
        .map(|word| word.to_le_bytes());
    registers.chain(memory).flatten().collect()
}

/// Answers of the namer, from the log that is kept.
fn names() -> Vec<u8> {
    let log = include_str!("../../../fuzz/corpus/log/race");
    let findings = log.lines().filter_map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).ok()?;
        let finding = record.get_mut("finding")?.take();
        let answer = serde_json::json!({
            "finding": {"finding": finding, "quotes": [], "replay": null}
        });
        Some(format!("{answer}\n"))
    });
    let mut answers: String = findings.collect();
    answers.push_str("{\"facts\":[{\"covered\":true}]}\n{\"log\":{\"Err\":\"none\"}}\n");
    answers.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_a_scenario_are_scenarios() {
        let seeds = seeds();
        let of = |name: &str| {
            let seed = seeds.iter().find(|seed| seed.name == name);
            seed.map(|seed| seed.bytes.as_slice()).unwrap()
        };
        assert_eq!(Scenario::read(of("scenario1")).unwrap(), scenario());
        assert_eq!(Scenario::of_unpacked(of("scenario2")), Some(scenario()));
    }
}
