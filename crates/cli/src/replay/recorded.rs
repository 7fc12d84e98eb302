//! A recording: each of its threads is run again, alone, and compared with what it was.

mod compare;
mod memory;
mod steps;

use crate::arguments;
use crate::exit::{ASTRAY, Failure};
use crate::replayer::start_worker;
use crate::screen;
use compare::{difference, state_of};
use memory::CodeMemory;
use redhanded_recording::{self as recording, Process, Recording, Thread, Until};
use redhanded_replay::{End, Goal, Stretch, Stretched, Trap, Word, Worker, WorkerError};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// How long one stretch may take. A recording may come from anybody.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of a thread.
#[derive(Default)]
struct Tally {
    instructions: u64,
    exact: u64,
    /// How often something else came out, by what it was, and where it did first: the thread and
    /// the number of the sequencer before it.
    astray: BTreeMap<String, (u64, (u32, u64))>,
    /// Why the rest could not be read.
    damage: Option<String>,
    /// The steps that were asked for.
    listing: Option<String>,
}

impl Tally {
    fn strayed(&self) -> u64 {
        self.astray.values().map(|(count, _)| count).sum()
    }
}

/// Replays the threads of a recording, and says what came of it.
pub fn replay(arguments: &arguments::Replay) -> Result<ExitCode, Failure> {
    let path = &arguments.file;
    let refused = |why: String| Failure::Usage(format!("cannot replay {}: {why}", path.display()));
    // Before anything foreign is read.
    let stream = start_worker()?;
    let recording = Recording::open(path)?;
    let mut worker = Worker::over(stream, PATIENCE).map_err(|error| refused(error.to_string()))?;
    let mut text = String::new();
    let mut all = Tally::default();
    let mut found = false;
    let heading = [
        "process",
        "thread",
        "instructions",
        "stretches",
        "exact",
        "astray",
    ];
    let [process, thread, instructions, stretches, exact, astray] = heading;
    let _ = writeln!(
        text,
        "{process:>8} {thread:>8} {instructions:>14} {stretches:>10} {exact:>10} {astray:>8}"
    );
    for process in recording.processes() {
        for thread in process.threads() {
            if arguments.thread.is_some_and(|wanted| wanted != thread.id()) {
                continue;
            }
            found = true;
            let again = Again {
                recording: &recording,
                process,
                thread,
                at: arguments.at,
                all: arguments.all,
            };
            let tally = again
                .run(&mut worker)
                .map_err(|error| refused(error.to_string()))?;
            let _ = writeln!(
                text,
                "{:>8} {:>8} {:>14} {:>10} {:>10} {:>8}  {}",
                process.hello().process,
                thread.id(),
                tally.instructions,
                tally.exact + tally.strayed(),
                tally.exact,
                tally.strayed(),
                redhanded_report::clean(thread.name().unwrap_or_default(), true)
            );
            all.instructions += tally.instructions;
            all.exact += tally.exact;
            for (why, (count, first)) in tally.astray {
                all.astray.entry(why).or_insert((0, first)).0 += count;
            }
            all.damage = all.damage.or(tally.damage);
            all.listing = all.listing.or(tally.listing);
        }
    }
    if !found {
        return Err(refused(match arguments.thread {
            Some(thread) => format!("it has no thread {thread}"),
            None => "it has no threads".to_owned(),
        }));
    }
    if all.exact + all.strayed() == 0 {
        let why = all.damage.unwrap_or_else(|| {
            "it has no values; record the program again with `redhanded record --values`".to_owned()
        });
        return Err(refused(why));
    }
    conclude(&mut text, &all, arguments.at, recording.cut_short());
    screen::print(text.as_bytes())?;
    Ok(match all.strayed() {
        0 => ExitCode::SUCCESS,
        _ => ASTRAY.into(),
    })
}

fn conclude(text: &mut String, all: &Tally, at: Option<u64>, cut_short: Option<&str>) {
    if all.strayed() > 0 {
        let _ = writeln!(text, "\nWhy stretches went astray:");
        let mut reasons: Vec<_> = all.astray.iter().collect();
        reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (why, (count, (thread, number))) in reasons {
            let why = redhanded_report::clean(why, true);
            let _ = writeln!(
                text,
                "{count:>8}  {why} (first: --thread {thread} --at {number})"
            );
        }
    }
    if let Some(why) = all.damage.as_deref().or(cut_short) {
        let why = redhanded_report::clean(why, true);
        let _ = writeln!(text, "\nThe recording is not whole: {why}");
    }
    match (&all.listing, at) {
        (Some(listing), _) => {
            text.push('\n');
            text.push_str(listing);
        }
        (None, Some(at)) => {
            let _ = writeln!(text, "\nNothing was replayed after sequencer {at}.");
        }
        (None, None) => {}
    }
}

/// A thread that is to be run again.
struct Again<'a> {
    recording: &'a Recording,
    process: &'a Process,
    thread: &'a Thread,
    /// The sequencer after which the steps are listed.
    at: Option<u64>,
    /// Whether all of them are.
    all: bool,
}

impl Again<'_> {
    fn run(&self, worker: &mut Worker) -> Result<Tally, WorkerError> {
        let mut tally = Tally::default();
        let mut memory = CodeMemory(self.process.code());
        let mut alone = worker.alone(&mut memory)?;
        // Where a stretch is not replayed, the next one begins as it would have.
        let mut fresh = false;
        for stretch in self.recording.stretches(self.thread) {
            let stretch = match stretch {
                Ok(stretch) => stretch,
                Err(why) => {
                    tally.damage = Some(why);
                    break;
                }
            };
            fresh |= stretch.fresh;
            let (Some(start), false) = (state_of(&stretch.start), stretch.opaque) else {
                continue;
            };
            let is_behind = |at| stretch.number.is_some_and(|number| number >= at);
            let listed = tally.listing.is_none() && self.at.is_some_and(is_behind);
            let words = stretch.loads.iter().map(|load| Word {
                count: load.count,
                address: load.address,
                value: load.value,
            });
            let asked = Stretch {
                start: Some(start),
                fresh: std::mem::take(&mut fresh),
                count: stretch.count,
                words: words.collect(),
                goal: goal(&stretch),
                listed: if listed { (0, u64::MAX) } else { (0, 0) },
            };
            let ran = alone.run(asked)?;
            tally.instructions += ran.count.saturating_sub(stretch.count);
            match self.compared(&stretch, &ran) {
                None => tally.exact += 1,
                Some(why) => {
                    let first = (self.thread.id(), stretch.number.unwrap_or_default());
                    tally.astray.entry(why).or_insert((0, first)).0 += 1;
                }
            }
            if listed && !ran.steps.is_empty() {
                tally.listing = Some(steps::list(
                    self.process,
                    self.thread,
                    &stretch,
                    &ran,
                    self.all,
                ));
            }
        }
        alone.leave()?;
        Ok(tally)
    }

    /// What is not as it was, if anything.
    fn compared(&self, stretch: &recording::Stretch, ran: &Stretched) -> Option<String> {
        let at = self.process.code().at(ran.state.ip);
        match &ran.end {
            Some(End::Trap(Trap::Breakpoint)) if at.is_none() => {
                Some("came to code that is not in the recording".to_owned())
            }
            Some(End::Trap(Trap::Breakpoint)) if at.is_some_and(|code| code.changed) => {
                Some("came to code that was changed while the program ran".to_owned())
            }
            Some(End::Bound) => Some("has other registers, or needs too much memory".to_owned()),
            Some(end) => Some(end.to_string()),
            None => difference(stretch, ran)
                .map(|register| format!("has another value in {register} at its end")),
        }
    }
}

fn goal(stretch: &recording::Stretch) -> Goal {
    match stretch.until {
        Until::Count(count) => Goal::Count(count),
        Until::Within { from, length } => {
            let mut general = [0; 16];
            general.copy_from_slice(&stretch.end.values[..16]);
            Goal::Registers {
                from,
                most: length,
                ip: stretch.end.ip.unwrap_or(0),
                general,
            }
        }
    }
}
