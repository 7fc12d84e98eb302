//! A small fuzzer for the parsers of foreign bytes: ELF, symbol tables, unwind
//! tables, DWARF, instructions, kernels with their own symbols and types, and what a
//! gdbstub sends.
//!
//! It damages real files, mostly in the parts that parsers trust, and asks about each
//! mutant everything that the detector would ask. A case number names an input: on the
//! same machine it always gives the same mutant. The input of a panic, a hang or a
//! crash stays in `target/fuzz`. Overflow checks are needed; the `dev` profile has them.

mod kernel;
mod mutation;
mod protocol;
mod questions;
mod seeds;

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::paths;
use mutation::Random;
use seeds::Seed;

/// A case that takes longer counts as a hang. Generous, because other work may share
/// the processors.
const LIMIT: Duration = Duration::from_secs(20);

/// Fuzzes for some seconds; an error names the case that failed and its file.
///
/// With `REDHANDED_FUZZ_CASE=N` in the environment it runs only case N.
///
/// # Errors
/// When a case panics or hangs, or the seeds cannot be made.
pub fn run(seconds: u64) -> Result<()> {
    let folder = paths::target().join("fuzz");
    fs::create_dir_all(&folder).with_context(|| format!("no folder {}", folder.display()))?;
    let seeds = seeds::gather(&folder)?;
    let names: Vec<&str> = seeds.iter().map(|seed| seed.name.as_str()).collect();
    println!("fuzzing for {seconds} s from {}", names.join(", "));
    let mut worker = Worker::start();
    if let Ok(number) = std::env::var("REDHANDED_FUZZ_CASE") {
        let number = number.parse().context("REDHANDED_FUZZ_CASE is no number")?;
        return worker.case(number, &seeds, &folder);
    }
    // Mutants mean something only if the seeds pass.
    for (number, seed) in seeds.iter().enumerate() {
        worker.ask(&format!("seed {number}"), &seed.bytes, &folder)?;
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut number = 0;
    while Instant::now() < end {
        worker.case(number, &seeds, &folder)?;
        number += 1;
    }
    println!("{number} cases, no panic and no hang");
    Ok(())
}

/// The thread that runs what may panic or hang.
struct Worker {
    inputs: Sender<PathBuf>,
    outcomes: Receiver<Result<(), String>>,
}

impl Worker {
    fn start() -> Self {
        let (inputs, to_do) = mpsc::channel::<PathBuf>();
        let (report, outcomes) = mpsc::channel();
        thread::spawn(move || {
            for path in to_do {
                let outcome = panic::catch_unwind(|| questions::ask(&path)).map_err(message);
                if report.send(outcome).is_err() {
                    break;
                }
            }
        });
        Self { inputs, outcomes }
    }

    /// Makes case `number` and runs it.
    fn case(&mut self, number: u64, seeds: &[Seed], folder: &Path) -> Result<()> {
        let mut random = Random::new(number);
        let pure = AssertUnwindSafe(|| {
            questions::decode(&mut random);
            // These take little time compared with a file.
            for _ in 0..32 {
                protocol::converse(&mut random);
            }
        });
        panic::catch_unwind(pure)
            .map_err(|payload| anyhow!("case {number} panics: {}", message(payload)))?;
        let bytes = mutation::mutant(seeds, &mut random);
        self.ask(&format!("case {number}"), &bytes, folder)
    }

    /// Runs one input, which stays in `folder` if it fails.
    fn ask(&mut self, name: &str, bytes: &[u8], folder: &Path) -> Result<()> {
        let path = folder.join(name.replace(' ', "-"));
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        self.inputs
            .send(path.clone())
            .context("the worker is gone")?;
        let shown = path.display();
        match self.outcomes.recv_timeout(LIMIT) {
            Ok(Ok(())) => fs::remove_file(&path).context("cannot remove a passed case"),
            Ok(Err(message)) => bail!("{name} panics: {message}; its input is {shown}"),
            Err(RecvTimeoutError::Timeout) => {
                bail!(
                    "{name} hangs for {} s; its input is {shown}",
                    LIMIT.as_secs()
                )
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("{name} ended the worker; its input is {shown}")
            }
        }
    }
}

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
        })
        .unwrap_or_else(|| "without a message".to_owned())
}
