//! What the tracer tells the process in front: one line of JSON a message.
//!
//! Names are not the tracer's business. It sends addresses and which files are
//! mapped where, and the other side reads the debug information.

use crate::exit::Failure;
use redhanded_detect::{Collision, Confirmed, Counts, Crashed, Outcome, RecentWindow};
use redhanded_model::{Avma, ModuleId, Region, RunReport, SpaceId, ThreadName, WindowRecord};
use redhanded_target::VMLINUX;
use redhanded_target::images::Images;
use redhanded_target::{Ending, Module};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// One message.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// A program was started or attached to.
    Started { pid: u32 },
    /// A file that is mapped; later messages name it by its number.
    Module(MappedFile),
    /// A confirmed collision, after so many windows.
    Collision(Box<Caught>, u64),
    /// A signal is about to kill the program.
    Crash(Box<Crash>),
    /// A core file was written, or could not be.
    Core(Result<PathBuf, String>),
    /// How things stand, all runs together.
    Progress(Counts),
    /// Tracing is over, in the ordinary way.
    Finished(Box<Finished>),
    /// It could not be done.
    Failed { code: u8, message: String },
}

/// Tells the tracer where its target is; all that the one in front ever says.
pub fn tell_place(mut stream: &UnixStream, place: &str) -> std::io::Result<()> {
    writeln!(stream, "{place}")
}

/// Waits to be told; nothing if there will be no target.
pub fn hear_place(stream: &UnixStream) -> Option<String> {
    let mut place = String::new();
    BufReader::new(stream).read_line(&mut place).ok()?;
    place.strip_suffix('\n').map(str::to_owned)
}

/// The end of tracing.
#[derive(Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The report, without its races.
    pub report: RunReport,
    /// How the last run's session ended.
    pub outcome: Outcome,
    /// How the program ended, as far as it has.
    pub ending: Ending,
}

/// A module, by its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappedFile {
    id: ModuleId,
    space: SpaceId,
    name: String,
    bias: u64,
    range: std::ops::Range<u64>,
    /// In bytes: not every name is text.
    path: Option<Vec<u8>>,
}

/// A collision, with numbers for its modules.
#[derive(Debug, Serialize, Deserialize)]
pub struct Caught {
    record: WindowRecord,
    sampled: (ThreadName, Vec<Avma>),
    other: Option<(Confirmed, ThreadName, Vec<Avma>)>,
    region: Region,
    modules: Vec<ModuleId>,
    suspects: Vec<String>,
    sampled_code: Vec<u8>,
}

/// A crash, with numbers for its modules.
#[derive(Debug, Serialize, Deserialize)]
pub struct Crash {
    thread: ThreadName,
    signal: i32,
    stack: Vec<Avma>,
    modules: Vec<ModuleId>,
    windows: Vec<RecentWindow>,
}

/// The tracer's end. Messages are written by a thread of their own: whoever
/// holds a program's thread must not wait for a reader.
pub struct Teller {
    sender: Sender<Message>,
    writer: JoinHandle<()>,
    told: HashSet<ModuleId>,
}

impl Teller {
    /// `first` is done by the writing thread before anything else.
    pub fn new(stream: UnixStream, first: impl FnOnce() + Send + 'static) -> Self {
        let (sender, messages) = mpsc::channel();
        let writer = std::thread::spawn(move || {
            first();
            write_all(stream, &messages);
        });
        Self {
            sender,
            writer,
            told: HashSet::new(),
        }
    }

    /// A program was started or attached to; numbers begin anew with it.
    pub fn started(&mut self, pid: u32) {
        self.told.clear();
        self.tell(Message::Started { pid });
    }

    pub fn tell(&self, message: Message) {
        // A reader that is gone is noticed by other means.
        let _ = self.sender.send(message);
    }

    /// Tells of modules that were not told of yet; their numbers.
    fn modules(&mut self, modules: &[Arc<Module>]) -> Vec<ModuleId> {
        for module in modules {
            if self.told.insert(module.id) {
                let image = module.image.as_ref();
                self.tell(Message::Module(MappedFile {
                    id: module.id,
                    space: module.space,
                    name: module.name.clone(),
                    bias: module.bias,
                    range: module.range.clone(),
                    path: image.map(|image| image.path().as_os_str().as_bytes().to_owned()),
                }));
            }
        }
        modules.iter().map(|module| module.id).collect()
    }

    pub fn crash(&mut self, crash: Crashed) {
        let crash = Crash {
            modules: self.modules(&crash.modules),
            thread: crash.thread,
            signal: crash.signal,
            stack: crash.stack,
            windows: crash.windows,
        };
        self.tell(Message::Crash(Box::new(crash)));
    }

    pub fn collision(&mut self, collision: Collision, windows: u64) {
        let caught = Caught {
            modules: self.modules(&collision.modules),
            record: collision.record,
            sampled: collision.sampled,
            other: collision.other,
            region: collision.region,
            suspects: collision.suspects,
            sampled_code: collision.sampled_code,
        };
        self.tell(Message::Collision(Box::new(caught), windows));
    }

    /// Waits until everything is written.
    pub fn finish(self) {
        drop(self.sender);
        let _ = self.writer.join();
    }
}

fn write_all(stream: UnixStream, messages: &Receiver<Message>) {
    let mut out = BufWriter::new(stream);
    while let Ok(message) = messages.recv() {
        for message in std::iter::once(message).chain(messages.try_iter()) {
            if serde_json::to_writer(&mut out, &message).is_err() || out.write_all(b"\n").is_err() {
                return;
            }
        }
        if out.flush().is_err() {
            return;
        }
    }
}

/// The end in front.
pub struct Listener {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

/// What was heard.
pub enum Heard {
    Message(Box<Message>),
    /// Nothing for a while.
    Nothing,
    /// The other side is gone.
    Silence,
}

impl Listener {
    /// Waits no longer than `patience` for each message.
    pub fn new(stream: UnixStream, patience: std::time::Duration) -> Result<Self, Failure> {
        stream.set_read_timeout(Some(patience))?;
        Ok(Self {
            stream: BufReader::new(stream),
            line: Vec::new(),
        })
    }

    pub fn hear(&mut self) -> Heard {
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        // What came of a line before the time was over stays in the buffer.
        match self.stream.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => {
                let message = serde_json::from_slice(&self.line);
                self.line.clear();
                message.map_or(Heard::Silence, |message| Heard::Message(Box::new(message)))
            }
            Ok(_) => Heard::Silence,
            Err(error) if matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => {
                Heard::Nothing
            }
            Err(_) => Heard::Silence,
        }
    }
}

/// The modules that were told of.
#[derive(Default)]
pub struct Mapped(HashMap<ModuleId, Arc<Module>>);

impl Mapped {
    /// Takes note of a module, whose file is opened here.
    pub fn add(&mut self, file: MappedFile, images: &Images) {
        let path = file.path.map(OsString::from_vec);
        let image = path.and_then(|path| images.open(Path::new(&path)).ok());
        let kernel = self.0.values().find(|known| known.name == VMLINUX);
        if let (Some(image), Some(kernel)) = (&image, kernel.and_then(|known| known.image.as_ref()))
        {
            image.is_module_of(kernel);
        }
        let module = Module {
            id: file.id,
            space: file.space,
            name: file.name,
            bias: file.bias,
            range: file.range,
            image,
        };
        self.0.insert(module.id, Arc::new(module));
    }

    fn modules(&self, ids: &[ModuleId]) -> Vec<Arc<Module>> {
        ids.iter()
            .filter_map(|id| self.0.get(id).cloned())
            .collect()
    }

    /// A crash with its modules.
    pub fn crash(&self, crash: Crash) -> Crashed {
        Crashed {
            modules: self.modules(&crash.modules),
            thread: crash.thread,
            signal: crash.signal,
            stack: crash.stack,
            windows: crash.windows,
        }
    }

    /// A collision with its modules.
    pub fn collision(&self, caught: Caught) -> Collision {
        Collision {
            modules: self.modules(&caught.modules),
            record: caught.record,
            sampled: caught.sampled,
            other: caught.other,
            region: caught.region,
            suspects: caught.suspects,
            sampled_code: caught.sampled_code,
        }
    }
}
