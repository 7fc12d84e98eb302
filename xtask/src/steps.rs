//! The steps of a long task: how each went, how long it took and how much it computed.

use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::results::Tally;

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

    /// Adds a step that was run beside others.
    pub fn add(&mut self, name: &str, result: Result<Tally>, took: Duration) {
        println!("\n== {name} ==");
        self.take(name, result, took, None);
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

    /// Whether a step has failed.
    pub fn any_failed(&self) -> bool {
        self.done.iter().any(|step| step.tally.failed > 0)
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
        assert!(steps.any_failed() && !steps.print_result());
        assert!(steps.done[0].line().starts_with("first "));
        assert!(steps.done[0].line().contains("FAILED"));
        assert!(steps.done[1].line().contains(" ok "));
        assert_eq!(steps.done[1].tally.passed, 3);
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
