//! A tracer that is killed or hangs: the program lives on with its own code, and is
//! asked to end as it would have been.

use crate::interruption::{program, status_field};
use crate::place::{Outcome, Place, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// Few samples. A thread whose stop at a breakpoint the tracer has not heard of when it is
/// killed dies, and these tests are about all the others.
const SELDOM: &str = "--rate 2 --overhead 1%";
/// By then all code that runs has been sampled once.
const SETTLED: Duration = Duration::from_millis(500);

fn signal(to: u32, signal: Signal) {
    kill(Pid::from_raw(to.cast_signed()), signal).unwrap();
}

fn tracer_of(pid: u32) -> u32 {
    // A process that is gone has none.
    status_field(pid, "TracerPid").parse().unwrap_or(0)
}

/// Waits until nobody traces `pid`. Returns how long that took.
#[track_caller]
fn until_free(pid: u32) -> Duration {
    let start = Instant::now();
    while tracer_of(pid) != 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "it is held");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// A program can die of a breakpoint when a hanging tracer is ended, but not every time.
const TRIES: u32 = 4;

/// The program `handler` under the tool, and its tracer.
struct Observed {
    running: Running,
    program: u32,
    tracer: u32,
}

impl Observed {
    fn start(place: &Place) -> Self {
        let line = format!("run {SELDOM} --fail-on never -- ./handler");
        let mut running = place.start(place.redhanded(line.split(' ')));
        running.until_printed("ready");
        std::thread::sleep(SETTLED);
        let program = program(&running);
        let tracer = tracer_of(program);
        Self {
            running,
            program,
            tracer,
        }
    }

    /// With a tracer that does nothing more.
    fn hanging(place: &Place) -> Self {
        let observed = Self::start(place);
        signal(observed.tracer, Signal::SIGSTOP);
        observed
    }

    /// Waits for the end. The tracer must have been ended because it hung. Returns whether the
    /// program was asked by `signal` to end: it may have died of a breakpoint instead.
    #[track_caller]
    fn was_asked(self, number: i32) -> bool {
        let outcome = self.running.end();
        assert_eq!(outcome.status, 125, "{outcome:#?}");
        let last = outcome.stderr.lines().last().unwrap();
        let hung = last.starts_with("redhanded: the tracer hung and was ");
        assert!(hung, "{outcome:#?}");
        outcome.stdout().ends_with(&format!("asked by {number}\n"))
    }
}

#[track_caller]
fn ended_by(outcome: &Outcome, number: i32) {
    let asked = format!("asked by {number}\n");
    assert!(outcome.stdout().ends_with(&asked), "{outcome:#?}");
}

#[test]
fn a_program_that_nobody_may_open_outlives_its_tracer() {
    const KILLS: u64 = 8;
    let place = Place::with("handler");
    let tool = std::fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
    let tool = place.executable("redhanded", &tool);
    let mut died = 0;
    for round in 0..KILLS {
        let mut command = place.command(&tool);
        if geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let line = format!("run {SELDOM} --quiet --fail-on never -- ./handler undumpable");
        command.args(line.split(' '));
        let mut running = place.start(command);
        running.until_printed("ready");
        let program = program(&running);
        std::thread::sleep(SETTLED + Duration::from_millis(round * 37 % 100));
        signal(tracer_of(program), Signal::SIGKILL);
        until_free(program);
        // Code that has not run yet runs now, and with it every breakpoint that is left.
        let _ = kill(Pid::from_raw(program.cast_signed()), Signal::SIGTERM);
        let outcome = running.end();
        assert_eq!(outcome.status, 125, "{outcome:#?}");
        died += u64::from(!outcome.stdout().ends_with("asked by 15\n"));
    }
    // A thread may just have run into a breakpoint all the same.
    assert!(died <= KILLS / 2, "{died} of {KILLS} died");
}

#[test]
fn a_tracer_that_hangs_is_killed() {
    let place = Place::with("handler");
    let asked = (0..TRIES).any(|_| {
        let observed = Observed::hanging(&place);
        let held = until_free(observed.program);
        assert!(held > Duration::from_secs(6), "too soon: {held:?}");
        let _ = kill(
            Pid::from_raw(observed.program.cast_signed()),
            Signal::SIGTERM,
        );
        observed.was_asked(15)
    });
    assert!(asked, "it has died {TRIES} times");
}

#[test]
fn a_signal_is_passed_on_although_the_tracer_hangs() {
    let place = Place::with("handler");
    for (sent, number) in [(Signal::SIGTERM, 15), (Signal::SIGINT, 2)] {
        let asked = (0..TRIES).any(|_| {
            let observed = Observed::hanging(&place);
            signal(observed.running.child.id(), sent);
            let held = until_free(observed.program);
            assert!(held < Duration::from_secs(8), "{sent}: {held:?}");
            observed.was_asked(number)
        });
        assert!(asked, "{sent}: it has died {TRIES} times");
    }
}

#[test]
fn a_hanging_tracer_lets_go_although_the_tool_is_gone() {
    let place = Place::with("handler");
    let mut observed = Observed::hanging(&place);
    observed.running.child.kill().unwrap();
    let held = until_free(observed.program);
    assert!(held < Duration::from_secs(8), "{held:?}");
    // Whether it has survived is a matter of chance: docs/fidelity.md.
    let _ = kill(
        Pid::from_raw(observed.program.cast_signed()),
        Signal::SIGKILL,
    );
}

#[test]
fn a_tracer_that_is_stopped_for_three_seconds_goes_on() {
    let place = Place::with("handler");
    let observed = Observed::hanging(&place);
    std::thread::sleep(Duration::from_secs(3));
    signal(observed.tracer, Signal::SIGCONT);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(tracer_of(observed.program), observed.tracer);
    signal(observed.running.child.id(), Signal::SIGTERM);
    let outcome = observed.running.end();
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    ended_by(&outcome, 15);
}
