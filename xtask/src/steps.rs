//! The steps of a long task: how each went, how long it took and how much it computed.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::results::Tally;

/// A step to be run: its name, and what it does.
pub type Planned = (&'static str, fn() -> Result<Tally>);

/// Steps that were run.
pub struct Steps {
    start: Instant,
    done: Vec<Step>,
}

struct Step {
    name: String,
    tally: Tally,
    took: Duration,
    /// CPU time of all processes, if it ran alone. Less than `took` means waiting.
    computed: Option<Duration>,
}

impl Steps {
    /// None yet.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            done: Vec::new(),
        }
    }

    /// Runs a step. An error is printed and counts as one failed case.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Result<Tally>) {
        println!("\n== {name} ==");
        let (start, before) = (Instant::now(), cpu_time());
        let result = step();
        self.take(name, result, start.elapsed(), Some(cpu_time() - before));
    }

    /// Runs lanes of steps side by side, the steps of each lane one after the other. Their
    /// output is mixed. CPU time is only known for all of them together.
    pub fn side_by_side(&mut self, lanes: &[&[Planned]]) {
        let (start, before) = (Instant::now(), cpu_time());
        let done: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = lanes
                .iter()
                .map(|lane| scope.spawn(move || lane.iter().map(run_beside).collect::<Vec<_>>()))
                .collect();
            running
                .into_iter()
                .zip(lanes)
                .flat_map(|(lane, planned)| {
                    lane.join().unwrap_or_else(|_| {
                        let name = planned.first().map_or("", |(name, _)| name);
                        vec![(name, Err(anyhow!("it panicked")), start.elapsed())]
                    })
                })
                .collect()
        });
        let (took, computed) = (start.elapsed(), cpu_time() - before);
        println!();
        for (name, result, took) in done {
            self.take(name, result, took, None);
        }
        self.take(
            "all of these together",
            Ok(Tally::default()),
            took,
            Some(computed),
        );
    }

    fn take(&mut self, name: &str, result: Result<Tally>, took: Duration, cpu: Option<Duration>) {
        let tally = result.unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally::FAILED
        });
        let step = Step {
            name: name.to_owned(),
            tally,
            took,
            computed: cpu,
        };
        println!("{}", step.line());
        self.done.push(step);
    }

    /// Whether the step of this name has passed.
    pub fn passed(&self, name: &str) -> bool {
        let step = self.done.iter().find(|step| step.name == name);
        step.is_some_and(|step| step.tally.failed == 0)
    }

    /// Prints a table of all steps; true if none failed.
    pub fn print_result(&self) -> bool {
        println!("\n== result ==");
        let mut total = Tally::default();
        for step in &self.done {
            println!("{}", step.line());
            total += step.tally;
        }
        let failed = self.done.iter().filter(|step| step.tally.failed > 0);
        let failed: Vec<_> = failed.map(|step| step.name.as_str()).collect();
        if failed.is_empty() {
            let seconds = self.start.elapsed().as_secs_f64();
            println!("all steps passed in {seconds:.0} s");
        } else {
            println!("failed: {}", failed.join(", "));
        }
        println!("{total}");
        failed.is_empty()
    }
}

impl Step {
    fn line(&self) -> String {
        let cpu = self.computed.map_or(String::new(), |cpu| {
            format!("{:>7.1} s of CPU time", cpu.as_secs_f64())
        });
        format!(
            "{:<42} {:<7} {:>7.1} s {cpu}",
            self.name,
            if self.tally.failed > 0 {
                "FAILED"
            } else {
                "ok"
            },
            self.took.as_secs_f64(),
        )
    }
}

/// Runs one step of a lane.
fn run_beside((name, step): &Planned) -> (&'static str, Result<Tally>, Duration) {
    println!("\n== {name}, beside others ==");
    let start = Instant::now();
    let result = step();
    let took = start.elapsed();
    let how = if result.is_ok() { "ended" } else { "FAILED" };
    println!("== {name} {how} after {:.1} s ==", took.as_secs_f64());
    (name, result, took)
}

/// The CPU time of this process and of all its children that have ended.
fn cpu_time() -> Duration {
    let of = |who| {
        getrusage(who).map_or(Duration::ZERO, |usage| {
            duration(usage.user_time()) + duration(usage.system_time())
        })
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

fn duration(time: TimeVal) -> Duration {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec())) + Duration::from_micros(part(time.tv_usec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_failed_step_does_not_stop_the_others_but_fails_the_whole() {
        let mut steps = Steps::new();
        steps.run("first", || bail!("broken"));
        steps.run("second", || {
            Ok(Tally {
                passed: 3,
                failed: 0,
            })
        });
        assert!(!steps.passed("first") && steps.passed("second") && !steps.passed("third"));
        assert!(!steps.print_result());
        assert!(steps.done[0].line().starts_with("first "));
        assert!(steps.done[0].line().contains("FAILED"));
        assert!(steps.done[1].line().contains(" ok "));
        assert_eq!(steps.done[1].tally.passed, 3);
    }

    #[test]
    fn lanes_run_side_by_side_and_their_steps_in_order() {
        static MET: Barrier = Barrier::new(2);
        static FIRST_DONE: AtomicBool = AtomicBool::new(false);
        // Neither gets beyond this without the other.
        let meet: Planned = ("meet", || {
            MET.wait();
            FIRST_DONE.store(true, Ordering::SeqCst);
            Ok(Tally::PASSED)
        });
        let after: Planned = ("after", || match FIRST_DONE.load(Ordering::SeqCst) {
            true => bail!("broken"),
            false => Ok(Tally::PASSED),
        });
        let mut steps = Steps::new();
        steps.side_by_side(&[&[meet], &[meet, after]]);
        let names: Vec<_> = steps.done.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["meet", "meet", "after", "all of these together"]);
        assert!(!steps.passed("after") && !steps.print_result());
    }

    #[test]
    fn computing_counts_and_waiting_does_not() {
        let mut steps = Steps::new();
        steps.run("spins", || {
            let start = cpu_time();
            while cpu_time() - start < Duration::from_millis(50) {}
            Ok(Tally::PASSED)
        });
        let step = &steps.done[0];
        assert!(
            step.computed
                .is_some_and(|cpu| cpu >= Duration::from_millis(50))
        );
    }
}
