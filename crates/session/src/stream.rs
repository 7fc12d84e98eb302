//! The stream between the tracer and the process in front.

use crate::{ImageFile, Record};
use redhanded_detect::Collision;
use redhanded_model::{Crash, ModuleId};
use redhanded_target::Module;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time between two looks whether everything is written.
const WRITTEN_SOON: Duration = Duration::from_millis(1);

/// Tells the tracer where its target is, which is all that the front ever says.
///
/// # Errors
/// When the tracer is gone.
pub fn tell_place(mut stream: &UnixStream, place: &str) -> io::Result<()> {
    writeln!(stream, "{place}")
}

/// Waits to be told; nothing if there will be no target.
#[must_use]
pub fn hear_place(stream: &UnixStream) -> Option<String> {
    let mut place = String::new();
    BufReader::new(stream).read_line(&mut place).ok()?;
    place.strip_suffix('\n').map(str::to_owned)
}

/// The tracer's end. A thread of its own writes the records, because whoever holds
/// a program's thread must not wait for a reader.
pub struct Teller {
    sender: Sender<Record>,
    writer: JoinHandle<()>,
    told: HashSet<ModuleId>,
}

impl Teller {
    /// Writes to `stream`. The writing thread does `first` before anything else.
    ///
    /// # Errors
    /// When no thread can be started; the front is told.
    pub fn new(stream: UnixStream, first: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (sender, records) = mpsc::channel();
        let spare = stream.try_clone();
        let writer = redhanded_sys::thread_builder().and_then(|thread| {
            thread.spawn(move || {
                first();
                // A reader that is gone is noticed by other means.
                let _ = write_all(stream, &records);
            })
        });
        let writer = writer.inspect_err(|error| {
            let message = format!("the tracer cannot start a thread: {error}");
            let failed = Record::Failed { code: 125, message };
            if let Ok(stream) = spare {
                let _ = write_line(&mut BufWriter::new(stream), failed);
            }
        })?;
        Ok(Self {
            sender,
            writer,
            told: HashSet::new(),
        })
    }

    /// A program was started or attached to; modules are numbered anew.
    pub fn started(&mut self, pid: u32) {
        self.told.clear();
        self.tell(Record::Started { pid });
    }

    /// Tells something.
    pub fn tell(&self, record: Record) {
        // A reader that is gone is noticed by other means.
        let _ = self.sender.send(record);
    }

    /// Tells of modules that were not told of yet.
    fn modules(&mut self, modules: &[Arc<Module>]) -> Vec<ModuleId> {
        for module in modules {
            if self.told.insert(module.id) {
                let module = Module::clone(module);
                self.tell(Record::Module { module, file: None });
            }
        }
        modules.iter().map(|module| module.id).collect()
    }

    /// Tells of a collision, and before it of its modules.
    pub fn collision(&mut self, collision: Collision, modules: &[Arc<Module>], windows: u64) {
        self.modules(modules);
        let collision = Box::new(collision);
        self.tell(Record::Collision { collision, windows });
    }

    /// Tells of a crash, and before it of its modules.
    pub fn crash(&mut self, crash: Crash, modules: &[Arc<Module>]) {
        let modules = self.modules(modules);
        self.tell(Record::Crash { crash, modules });
    }

    /// Waits until everything is written. Calls `meanwhile` again and again until then.
    pub fn finish(self, meanwhile: impl Fn()) {
        drop(self.sender);
        while !self.writer.is_finished() {
            meanwhile();
            std::thread::sleep(WRITTEN_SOON);
        }
        let _ = self.writer.join();
    }
}

fn write_all(stream: UnixStream, records: &Receiver<Record>) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    while let Ok(record) = records.recv() {
        for record in std::iter::once(record).chain(records.try_iter()) {
            write_line(&mut out, record)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn write_line(out: &mut impl Write, mut record: Record) -> io::Result<()> {
    // Comparing a kernel's code with its file takes a while, and is done here so
    // that nobody waits for it.
    if let Record::Module { module, file } = &mut record {
        *file = module.image.as_deref().map(ImageFile::of);
    }
    serde_json::to_writer(&mut *out, &record)?;
    out.write_all(b"\n")
}

/// The end in front. A thread of its own reads, whatever keeps the front from listening: the
/// tracer ends, and lets go of the last threads, only when everything was read.
pub struct Listener {
    lines: Receiver<Vec<u8>>,
    patience: Duration,
}

/// What was heard.
pub enum Heard {
    /// A record.
    Record(Box<Record>),
    /// Nothing for a while.
    Nothing,
    /// The tracer is gone.
    Silence,
}

impl Listener {
    /// Waits no longer than `patience` for each record.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel();
        redhanded_sys::thread_builder()?.spawn(move || {
            // Nobody listens any more, or the tracer is gone.
            let _ = read_all(stream, &sender);
        })?;
        Ok(Self { lines, patience })
    }

    /// Waits for a record.
    pub fn hear(&mut self) -> Heard {
        match self.lines.recv_timeout(self.patience) {
            Ok(line) => serde_json::from_slice(&line)
                .map_or(Heard::Silence, |record| Heard::Record(Box::new(record))),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::Silence,
        }
    }
}

/// Hands on whole lines. A part of one is all that a tracer left which was killed.
fn read_all(stream: UnixStream, lines: &Sender<Vec<u8>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") || lines.send(line).is_err() {
            return Ok(());
        }
    }
}
