//! Reading a recording. Everything in it is foreign: no length, count, offset or number in it is
//! trusted, and what is kept in memory is limited.

use crate::blocks::{Blocks, Source};
use crate::container::{self, Placed};
use crate::entries::Entries;
use crate::notes::{Ending, Header, Hello, Module, Unmapped};
use crate::stretches::{Code, Stretches};
use crate::wire::{ChunkKind, MOST_PROCESSES};
use redhanded_sys::open_regular;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{io, mem};

/// A note in JSON is never longer.
const LONGEST_NOTE: usize = 64 << 10;

/// The notes of a recording together are never longer.
const MOST_NOTES: usize = 64 << 20;

/// A recording has no more sites and contexts together.
const MOST_PLACES: usize = 8 << 20;

/// It has no more threads. A reader holds a piece of each.
pub const MOST_THREADS: usize = 8192;

/// How many times its own size a recording may be unpacked,
const MOST_TIMES: u64 = 512;

/// except that every recording may be as much. Entries that are alike pack to a thirtieth; only
/// what was made for the purpose packs to a thousandth.
const LEAST_UNPACKED: u64 = 256 << 20;

/// A name of a thread is cut off behind as many bytes; the kernel's have 15.
const LONGEST_NAME: usize = 64;

/// A stack is cut off behind as many frames. Foreign contexts may go round in circles.
const DEEPEST: usize = 128;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It cannot be opened or read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It does not begin as a recording does.
    #[error("{} is not a recording, which redhanded record writes", .0.display())]
    NotARecording(PathBuf),
    /// Another version of the format.
    #[error("{} is a recording of another version; record the program again", .0.display())]
    Version(PathBuf),
    /// Even its beginning is damaged.
    #[error("{} is damaged: {why}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        why: String,
    },
}

/// A recording in a file.
pub struct Recording {
    path: PathBuf,
    source: Box<dyn Source>,
    header: Header,
    ending: Option<Ending>,
    cut_short: Option<String>,
    processes: Vec<Process>,
}

/// A process of a recording.
#[derive(Default)]
pub struct Process {
    number: u32,
    hello: Hello,
    sites: HashMap<u32, u64>,
    /// Each with its caller's context and the return address.
    contexts: HashMap<u32, (u32, u64)>,
    modules: Vec<Mapped>,
    threads: Vec<Thread>,
    by_thread: HashMap<u32, usize>,
    code: Code,
    ended: bool,
}

/// A file that was mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Which, and where.
    pub module: Module,
    /// Whether it was unmapped before the process ended.
    pub unmapped: bool,
}

/// A thread of a process, by its number for the kernel. One that ended and another that got its
/// number later have their entries one after the other.
pub struct Thread {
    id: u32,
    name: Option<String>,
    pieces: Vec<Placed>,
}

impl Recording {
    /// Opens a recording and reads everything but its entries.
    ///
    /// # Errors
    /// If it is none, or its beginning is damaged. A later damage is
    /// [`Recording::cut_short`].
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = open_regular(path).map_err(|source| RecordingError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::read(Box::new(file), path)
    }

    /// Reads a recording from anywhere; `path` is for messages.
    ///
    /// # Errors
    /// As for [`Recording::open`].
    pub fn read(source: Box<dyn Source>, path: &Path) -> Result<Self, RecordingError> {
        let (blocks, mut cut_short) = Blocks::find(&*source, path)?;
        let length = source.length().unwrap_or(0);
        let damaged = |why| RecordingError::Damaged {
            path: path.to_owned(),
            why,
        };
        let mut recording = Self {
            path: path.to_owned(),
            header: Header::default(),
            ending: None,
            cut_short: None,
            processes: Vec::new(),
            source,
        };
        let mut loading = Loading {
            unpacked: length.saturating_mul(MOST_TIMES).max(LEAST_UNPACKED),
            ..Loading::default()
        };
        for (index, placed) in blocks.placed.iter().enumerate() {
            if let Err(why) = loading.take(&mut recording, *placed) {
                if index == 0 {
                    return Err(damaged(why));
                }
                cut_short = Some(why);
                break;
            }
        }
        if !loading.began {
            return Err(damaged(cut_short.unwrap_or_else(|| "it is empty".into())));
        }
        recording.cut_short = match recording.ending {
            None => cut_short.or_else(|| Some("its ending is missing".into())),
            Some(_) => cut_short,
        };
        Ok(recording)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.source.length().unwrap_or(0)
    }

    /// The user and the group that the file belongs to which was opened, whatever has its name
    /// by now.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.source.owner()
    }

    /// What it begins with.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How the program ended, if the recording has it.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Why the recording is only the beginning of one, if it is.
    #[must_use]
    pub fn cut_short(&self) -> Option<&str> {
        self.cut_short.as_deref()
    }

    /// The processes, in the order in which they appeared.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// How many bytes of entries the threads of a process have, unpacked.
    #[must_use]
    pub fn size(&self, process: &Process) -> u64 {
        let pieces = process.threads.iter().flat_map(|thread| &thread.pieces);
        pieces.map(|piece| u64::from(piece.block.unpacked)).sum()
    }

    /// The entries of a thread, from its first. A piece of them is held at a time.
    #[must_use]
    pub fn entries<'a>(&'a self, thread: &'a Thread) -> Entries<'a> {
        Entries::new(&*self.source, &thread.pieces)
    }

    /// What a thread needs to be replayed; nothing if its values were not recorded.
    #[must_use]
    pub fn stretches<'a>(&'a self, thread: &'a Thread) -> Stretches<'a> {
        Stretches::new(self.entries(thread))
    }
}

impl Process {
    /// The number that stands for it in this recording.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// What the recorder said of it: its number for the kernel, its parent, its program.
    #[must_use]
    pub const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether everything of it was written.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.ended
    }

    /// Its modules, in the order in which they were mapped.
    #[must_use]
    pub fn modules(&self) -> &[Mapped] {
        &self.modules
    }

    /// The module that has this address; the latest, if several had it.
    #[must_use]
    pub fn module_at(&self, address: u64) -> Option<&Mapped> {
        let has = |mapped: &&Mapped| mapped.module.has(address);
        self.modules.iter().rev().find(has)
    }

    /// The code that it ran, if values were recorded.
    #[must_use]
    pub const fn code(&self) -> &Code {
        &self.code
    }

    /// Its threads.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The address of a site's instruction.
    #[must_use]
    pub fn site(&self, site: u32) -> Option<u64> {
        self.sites.get(&site).copied()
    }

    /// The return addresses of a context, the innermost first.
    #[must_use]
    pub fn stack(&self, context: u32) -> Vec<u64> {
        let mut stack = Vec::new();
        let mut at = context;
        while at != 0 && stack.len() < DEEPEST {
            let Some(&(caller, returns_to)) = self.contexts.get(&at) else {
                break;
            };
            stack.push(returns_to);
            at = caller;
        }
        stack
    }
}

impl Thread {
    /// Its number for the kernel.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// What was read so far, and how much of what is allowed is left.
#[derive(Default)]
struct Loading {
    began: bool,
    processes: HashMap<u32, usize>,
    threads: usize,
    places: usize,
    notes: usize,
    /// How many more bytes may be unpacked.
    unpacked: u64,
    contents: Vec<u8>,
}

impl Loading {
    /// Takes in a block, or says what is wrong with it.
    fn take(&mut self, recording: &mut Recording, placed: Placed) -> Result<(), String> {
        let kind = placed.block.kind;
        if !self.began && kind != container::HEADER {
            return Err("it has no header".into());
        }
        let left = self.unpacked.checked_sub(placed.block.unpacked.into());
        self.unpacked = left.ok_or("it unpacks to far more than a file of its size holds")?;
        if ChunkKind::new(kind) == Some(ChunkKind::Entries) {
            let index = self.process(recording, placed)?;
            let process = &mut recording.processes[index];
            let thread = self.thread(process, placed.block.thread)?;
            process.threads[thread].pieces.push(placed);
            return Ok(());
        }
        let mut contents = mem::take(&mut self.contents);
        crate::blocks::unpack(&*recording.source, placed, &mut contents)?;
        let taken = match ChunkKind::new(kind) {
            Some(kind) => self.chunk(recording, placed, kind, &contents),
            None => self.own(recording, placed, &contents),
        };
        self.contents = contents;
        taken
    }

    /// What the writer added to the recorder's chunks.
    fn own(
        &mut self,
        recording: &mut Recording,
        placed: Placed,
        contents: &[u8],
    ) -> Result<(), String> {
        match placed.block.kind {
            container::HEADER => {
                recording.header = self.note(placed, contents)?;
                self.began = true;
            }
            container::ENDING => recording.ending = Some(self.note(placed, contents)?),
            // A later version may have more to say.
            _ => {}
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        recording: &mut Recording,
        placed: Placed,
        kind: ChunkKind,
        contents: &[u8],
    ) -> Result<(), String> {
        let index = self.process(recording, placed)?;
        let process = &mut recording.processes[index];
        match kind {
            ChunkKind::Hello => process.hello = self.note(placed, contents)?,
            ChunkKind::Module => process.modules.push(Mapped {
                module: self.note(placed, contents)?,
                unmapped: false,
            }),
            ChunkKind::Unmapped => {
                let gone: Unmapped = self.note(placed, contents)?;
                let mut last_first = process.modules.iter_mut().rev();
                let there = |at: &&mut Mapped| !at.unmapped && at.module.start == gone.start;
                if let Some(mapped) = last_first.find(there) {
                    mapped.unmapped = true;
                }
            }
            ChunkKind::Sites => {
                for [site, address] in self.pairs(placed, contents)? {
                    process.sites.insert(site as u32, address);
                }
            }
            ChunkKind::Contexts => {
                for [numbers, returns_to] in self.pairs(placed, contents)? {
                    let caller = (numbers >> 32) as u32;
                    process
                        .contexts
                        .insert(numbers as u32, (caller, returns_to));
                }
            }
            ChunkKind::Name => {
                let name = &contents[..contents.len().min(LONGEST_NAME)];
                let name = String::from_utf8_lossy(name);
                let thread = self.thread(process, placed.block.thread)?;
                process.threads[thread].name = Some(name.trim_end_matches('\0').to_owned());
            }
            ChunkKind::Code => {
                let wrong = |why| format!("a list at offset {} {why}", placed.offset);
                self.places += process.code.add(contents).map_err(wrong)?;
                if self.places > MOST_PLACES {
                    return Err(format!("it has more than {MOST_PLACES} places in code"));
                }
            }
            ChunkKind::Goodbye => process.ended = true,
            ChunkKind::Entries => {}
        }
        Ok(())
    }

    /// The process of a block, which may be a new one.
    fn process(&mut self, recording: &mut Recording, placed: Placed) -> Result<usize, String> {
        let number = placed.block.process;
        if let Some(&index) = self.processes.get(&number) {
            return Ok(index);
        }
        let index = recording.processes.len();
        if index >= MOST_PROCESSES as usize {
            return Err(format!("it has more than {MOST_PROCESSES} processes"));
        }
        recording.processes.push(Process {
            number,
            ..Process::default()
        });
        self.processes.insert(number, index);
        Ok(index)
    }

    /// A thread of a process, which may be a new one.
    fn thread(&mut self, process: &mut Process, id: u32) -> Result<usize, String> {
        if let Some(&index) = process.by_thread.get(&id) {
            return Ok(index);
        }
        if self.threads == MOST_THREADS {
            return Err(format!("it has more than {MOST_THREADS} threads"));
        }
        self.threads += 1;
        let index = process.threads.len();
        process.by_thread.insert(id, index);
        process.threads.push(Thread {
            id,
            name: None,
            pieces: Vec::new(),
        });
        Ok(index)
    }

    fn note<T: DeserializeOwned>(&mut self, at: Placed, contents: &[u8]) -> Result<T, String> {
        self.notes += contents.len();
        if contents.len() > LONGEST_NOTE || self.notes > MOST_NOTES {
            return Err(format!("a note at offset {} is too long", at.offset));
        }
        serde_json::from_slice(contents)
            .map_err(|why| format!("a note at offset {} cannot be read: {why}", at.offset))
    }

    fn pairs<'a>(
        &mut self,
        at: Placed,
        contents: &'a [u8],
    ) -> Result<impl Iterator<Item = [u64; 2]> + use<'a>, String> {
        let (pairs, rest) = contents.as_chunks::<16>();
        self.places += pairs.len();
        if !rest.is_empty() {
            return Err(format!("a list at offset {} ends within a pair", at.offset));
        }
        if self.places > MOST_PLACES {
            return Err(format!("it has more than {MOST_PLACES} places in code"));
        }
        Ok(pairs.iter().map(|pair| {
            let both = u128::from_le_bytes(*pair);
            [both as u64, (both >> 64) as u64]
        }))
    }
}

impl Module {
    /// Whether the address is in it.
    #[must_use]
    pub fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}
