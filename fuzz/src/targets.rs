//! The parsers, and how each is given an input.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use redhanded_analysis::{Atomicity, HappensBefore, Place};
use redhanded_image::kernel_file::Btf;
use redhanded_image::{DebugSearch, Image, decode_forged_sites, link};
use redhanded_model::{AccessKind, Bytes, Report, Spot};
use redhanded_provision::companions;
use redhanded_recorder::{Next, next};
use redhanded_recording::translate::{Judge, Translator};
use redhanded_recording::wire::ChunkKind;
use redhanded_recording::{Damage, Header, Recording, Writer as RecordingWriter, steps};
use redhanded_replay::Scenario;
use redhanded_report::json::Json;
use redhanded_report::{Style, Terminal, Writer, clean};
use redhanded_session::read;
use redhanded_sys::Mapping;

use crate::{guest, kernel, protocol, questions, replays, servants, settings};

/// One parser of foreign bytes, or a few that belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// ELF files: headers, symbols, code, unwind tables, DWARF, ORC.
    File,
    /// Instructions.
    Instruction,
    /// A kernel's image and the symbols in it.
    Kernel,
    /// A kernel's types.
    Btf,
    /// A module's object file.
    Module,
    /// Source text.
    Source,
    /// What a gdbstub sends.
    Packets,
    /// The registers that a gdbstub describes.
    Description,
    /// A session log.
    Log,
    /// A report's document.
    Report,
    /// The cache of sites.
    Sites,
    /// The map of a process.
    Maps,
    /// A race that was kept.
    Scenario,
    /// A list of suspects.
    Suspects,
    /// A recording.
    Recording,
    /// What a recorded program sends.
    Chunks,
    /// The memory of a guest.
    Guest,
    /// A guest's console and reports.
    Console,
    /// The libraries that a program names.
    Libraries,
    /// The answers of the namer.
    Names,
    /// The answers of the replayer.
    Judgements,
    /// What people write.
    Settings,
}

const TARGETS: [(&str, Target); 22] = [
    ("file", Target::File),
    ("instruction", Target::Instruction),
    ("kernel", Target::Kernel),
    ("btf", Target::Btf),
    ("module", Target::Module),
    ("source", Target::Source),
    ("packets", Target::Packets),
    ("description", Target::Description),
    ("log", Target::Log),
    ("report", Target::Report),
    ("sites", Target::Sites),
    ("maps", Target::Maps),
    ("scenario", Target::Scenario),
    ("suspects", Target::Suspects),
    ("recording", Target::Recording),
    ("chunks", Target::Chunks),
    ("guest", Target::Guest),
    ("console", Target::Console),
    ("libraries", Target::Libraries),
    ("names", Target::Names),
    ("judgements", Target::Judgements),
    ("settings", Target::Settings),
];

/// The target of this process.
pub fn chosen() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = env::var("REDHANDED_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.map_or_else(
            || panic!("no target {name}: set REDHANDED_FUZZ_TARGET"),
            |(_, target)| *target,
        )
    })
}

impl Target {
    /// Whether its inputs are ELF files, whose parts can be told apart.
    pub const fn takes_elf(self) -> bool {
        matches!(
            self,
            Self::File | Self::Kernel | Self::Module | Self::Libraries
        )
    }

    /// What has to be done before the first input.
    pub fn prepare(self) {
        if self == Self::Scenario {
            replays::prepare();
        }
    }

    /// Has `bytes` parsed, and asks about what came out.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Self::File => questions::ask(&on_disk(bytes)),
            Self::Instruction => questions::decode(bytes),
            Self::Kernel => kernel::ask(bytes, &on_disk(bytes)),
            Self::Btf => kernel::types(bytes),
            Self::Module => module(bytes),
            Self::Source => source(bytes),
            Self::Packets => protocol::converse(bytes),
            Self::Description => protocol::describe(&String::from_utf8_lossy(bytes), bytes),
            Self::Log => {
                let path = on_disk(bytes);
                let file = fs::File::open(&path);
                if let Some(log) = file.ok().and_then(|file| read(&file, &path).ok()) {
                    show(&log.report);
                }
            }
            Self::Report => {
                if let Ok(report) = serde_json::from_slice(bytes) {
                    show(&report);
                }
            }
            Self::Sites => {
                if let Some(set) = decode_forged_sites(bytes) {
                    assert!(set.sites.is_sorted_by(|a, b| a.svma < b.svma));
                }
            }
            Self::Maps => maps(bytes),
            Self::Suspects => suspects(&String::from_utf8_lossy(bytes)),
            Self::Recording => recording(bytes),
            Self::Chunks => chunks(bytes),
            Self::Guest => guest::explore(bytes),
            Self::Console => guest::hear(bytes),
            Self::Libraries => drop(companions(&on_disk(bytes))),
            Self::Names => servants::names(bytes),
            Self::Judgements => servants::judgements(bytes),
            Self::Settings => settings::read(&String::from_utf8_lossy(bytes)),
            Self::Scenario => {
                let _ = Scenario::read(bytes);
                // A changed byte of what is packed never gets past its checksum.
                if let Some(scenario) = Scenario::of_unpacked(bytes) {
                    let again = Scenario::read(scenario.to_bytes().as_slice());
                    assert!(again.is_ok(), "a scenario that cannot be read back");
                    replays::play(scenario);
                }
            }
        }
    }
}

/// Reads the input as a recording. What is packed never gets past its checksum, so the input is
/// also taken for the entries of two threads and for everything else that a recording has.
fn recording(bytes: &[u8]) {
    examine(bytes.to_vec());
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let Ok(mut writer) = RecordingWriter::new(Vec::new(), &Header::default()) else {
        return;
    };
    let kinds = [
        ChunkKind::Hello,
        ChunkKind::Module,
        ChunkKind::Sites,
        ChunkKind::Contexts,
        ChunkKind::Name,
        ChunkKind::Unmapped,
        ChunkKind::Code,
    ];
    let chunks = [(1, first), (2, second)].into_iter();
    for (thread, part) in chunks {
        let whole = part.len() / 16 * 16;
        let _ = writer.append(1, ChunkKind::Entries, thread, &part[..whole]);
    }
    let _ = writer.append(1, ChunkKind::Goodbye, 0, b"");
    let kind = kinds[usize::from(bytes.first().copied().unwrap_or(0)) % kinds.len()];
    let _ = writer.append(1, kind, 1, bytes);
    if let Ok(file) = writer.finish(&redhanded_recording::Ending::default()) {
        examine(file);
    }
}

/// Takes the input for what a recorded program sends, and keeps it as `record` does.
fn chunks(bytes: &[u8]) {
    let Ok(mut writer) = RecordingWriter::new(Vec::new(), &Header::default()) else {
        return;
    };
    let mut left = bytes;
    while let Next::Chunk(chunk, length) = next(left) {
        left = &left[length..];
        let _ = writer.append(1, chunk.kind, chunk.thread, chunk.bytes);
    }
    if let Ok(file) = writer.finish(&redhanded_recording::Ending::default()) {
        examine(file);
    }
}

/// Goes through a recording as the analyses do.
fn examine(file: Vec<u8>) {
    /// Takes every access for one that may be atomic.
    struct Doubt;
    impl Judge for Doubt {
        fn is_runtime(&mut self, site: u32) -> bool {
            site.is_multiple_of(2)
        }
        fn atomicity(&mut self, _: Place, _: AccessKind, _: Bytes) -> Option<Atomicity> {
            Some(Atomicity::Doubtful)
        }
        fn tells_free(&mut self, place: Place, _: &'static str, _: Bytes) -> bool {
            place.0.is_multiple_of(3)
        }
        fn tells_kernel(&mut self, place: Place, _: &'static str, _: Bytes) -> bool {
            place.0.is_multiple_of(2)
        }
    }
    let Ok(recording) = Recording::read(Box::new(file), Path::new("recording")) else {
        return;
    };
    for process in recording.processes() {
        let mut translator = Translator::new(process);
        let mut analysis = HappensBefore::default();
        let mut events = Vec::new();
        // A packed file has room for more than there is time for.
        let damage = Damage::default();
        for step in steps(&recording, process, &damage).take(MOST_STEPS) {
            let entry = step.item.entry;
            let _ = (process.site(entry.site()), process.stack(entry.context()));
            translator.step(&step, &mut Doubt, &mut events);
            events.drain(..).for_each(|event| analysis.push(&event));
        }
        let _ = (analysis.finish(), translator.allocation(0x1000));
        let _ = process.code().range(0..u64::MAX).count();
        for thread in process.threads() {
            for stretch in recording.stretches(thread).take(MOST_STEPS) {
                let Ok(stretch) = stretch else { break };
                assert!(stretch.loads.is_sorted_by_key(|load| load.count));
            }
        }
    }
}

/// How many entries of an input are looked at.
const MOST_STEPS: usize = 10_000;

/// Whatever pairs come out, each has names, and is read back from how a report writes it.
fn suspects(text: &str) {
    let Ok(suspects) = redhanded_suspects::read(text) else {
        return;
    };
    assert!((1..=redhanded_suspects::MOST).contains(&suspects.candidates.len()));
    for candidate in suspects.candidates {
        assert!(candidate.sides.iter().all(Spot::is_named));
        let _ = redhanded_suspects::read(&candidate.to_string());
    }
}

/// The folder for files of this process.
fn folder() -> PathBuf {
    env::var_os("REDHANDED_FUZZ_FOLDER").map_or_else(env::temp_dir, PathBuf::from)
}

/// Writes the input to a file, for parsers that open one.
fn on_disk(bytes: &[u8]) -> PathBuf {
    put(folder().join("input"), bytes)
}

/// Writes a file over the last one. Some file systems wait for the disk if a file is emptied and
/// written again, which takes longer than most parsers.
fn put(path: PathBuf, bytes: &[u8]) -> PathBuf {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let written = file.and_then(|file| {
        file.write_all_at(bytes, 0)?;
        file.set_len(bytes.len() as u64)
    });
    written.unwrap_or_else(|why| panic!("cannot write {}: {why}", path.display()));
    path
}

/// Links an object file as a module, and opens what comes out.
fn module(bytes: &[u8]) {
    let text = 0xffff_ffff_c000_0000;
    let loaded = [
        (".text", text),
        (".data", text + 0x10_0000),
        (".bss", text + 0x20_0000),
    ];
    let loaded = loaded.map(|(name, at)| (name.to_owned(), at));
    let resolve = |name: &str| name.len().is_multiple_of(2).then_some(text - 0x1000);
    let _ = link(bytes, &loaded, Some(bytes), &resolve);
    if let Ok(linked) = link(bytes, &loaded, None, &resolve) {
        questions::ask(&on_disk(&linked));
    }
}

/// Takes the input for the source of a program, and asks what it says of each access.
///
/// The program is a small one without headers (`asked.c` in `xtask/src/fuzz/seeds.rs`). Its debug
/// information names a folder that does not exist, or the true source would be read.
fn source(bytes: &[u8]) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| folder().join("program"));
    let sources = folder().join("sources");
    let _ = fs::create_dir_all(&sources);
    put(sources.join("asked.c"), bytes);
    let search = DebugSearch {
        roots: Vec::new(),
        sources: vec![folder()],
        carried: Vec::new(),
    };
    let found = search.source(Path::new("/nowhere/sources/asked.c"));
    assert!(
        found.is_some_and(|found| *found.bytes == *bytes),
        "it is not what is read"
    );
    let image = open(program).with_debug_search(search);
    for site in image.sites().sites.iter() {
        let _ = image.debug().source_evidence(site.svma);
    }
}

fn open(program: &Path) -> Image {
    Image::open(program).unwrap_or_else(|why| panic!("the program to ask about: {why}"))
}

fn maps(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(map) = Mapping::parse(line) {
            assert!(map.start < map.end && !map.contains(map.end));
            let _ = (map.has_file(), map.file(1, Path::new("/")));
        }
    }
}

/// Shows a report in both forms. Whatever is in it, nothing may act on the terminal.
pub fn show(report: &Report) {
    let mut text = Vec::new();
    for unicode in [false, true] {
        let style = Style {
            unicode,
            ..Style::default()
        };
        let _ = Terminal::new(style).write(report, &mut text);
    }
    let acts = |byte: &u8| byte.is_ascii_control() && *byte != b'\n';
    assert!(!text.iter().any(acts), "{}", String::from_utf8_lossy(&text));
    let mut document = Vec::new();
    if Json.write(report, &mut document).is_ok() {
        let again: Result<Report, _> = serde_json::from_slice(&document);
        assert!(again.is_ok(), "a document that cannot be read back");
    }
    let text = String::from_utf8_lossy(&text);
    assert!(clean(&text, false).is_ascii());
}

/// Types that go on from others of the same section, as a module's do from its kernel's.
pub fn split(section: &[u8], base: Btf) -> Option<Btf> {
    Btf::parse(section, Some(Arc::new(base))).ok()
}
