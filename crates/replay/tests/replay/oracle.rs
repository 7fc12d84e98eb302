//! Real programs, step by step: the virtual processor runs ahead, then the real one does
//! the same, and all registers are compared after each instruction, written memory after
//! each piece.
//!
//! This takes ten seconds, and as long as `LEAST` instructions need. `REDHANDED_REPLAY_STEPS`
//! sets how many instructions to compare instead, and `REDHANDED_REPLAY_PROGRAM` another program
//! to run than the one here.

use crate::assemble::new_path;
use crate::tracee::Tracee;
use nix::sys::signal::Signal;
use redhanded_replay::{End, Mode, Worker, digest};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sorting, formatting, strings, floating point of all kinds.
const PROGRAM: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    static int numbers[300];
    static char text[4000], more[4000];
    static float f[64];
    unsigned seed = 1;
    long double sum = 0;
    double angle = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 300; i++) numbers[i] = (seed = seed * 1103515245 + 12345) >> 7;
        qsort(numbers, 300, sizeof *numbers, compare);
        for (int i = 0; i < 40; i++) {
            snprintf(text + i * 90, 90, "%d %.12g %s %x %La", numbers[i], sin(angle), "word", seed, sum);
            angle += exp(sin(i)) / 3 + fmod(angle, 1.7);
            sum += sqrtl(i) * 1.1L;
        }
        for (int i = 0; i < 64; i++) f[i] = f[(i * 7) % 64] * 0.5f + i + numbers[i] % 10;
        memcpy(more, text, 3600 - round);
        memset(text + 3600, round, 300);
        more[3599 - round] = 0;
        seed += strlen(more) + strspn(more, "0123456789") + (memchr(more, 'w', 3000) != 0);
        seed += strstr(more, "word ff") != 0, seed += strcmp(more, text) + (unsigned)f[5];
    }
    printf("%u %f %Lf\n", seed, angle, sum);
    return 0;
}
"#;

/// So many instructions are compared however slow the machine is.
const LEAST: u64 = 500;

/// What the runs of one oracle came to.
#[derive(Default)]
struct Tally {
    compared: u64,
    /// Why the virtual processor stopped, and how often.
    ends: BTreeMap<String, u64>,
}

/// Compares so many steps of a program, or, without a number, what ten seconds allow and at
/// least [`LEAST`].
fn compare(program: &[&str], steps: Option<u64>) -> Tally {
    let begun = Instant::now();
    let mut worker: Worker = crate::worker();
    let mut tracee = Tracee::start(program);
    let mut tally = Tally::default();
    let mut signal = None;
    let goes_on = |compared| match steps {
        Some(steps) => compared < steps,
        None => compared < LEAST || begun.elapsed() < Duration::from_secs(10),
    };
    while goes_on(tally.compared) {
        let start = tracee.state();
        let ran = worker
            .run(Mode::User, &start, &mut tracee.memory, 500, true)
            .expect("worker answers");
        for (n, expected) in ran.digests.iter().enumerate() {
            let before = tracee.state().ip;
            loop {
                // Any other stop would be seen again and again.
                let stopped = tracee.step(signal.take());
                assert_eq!(stopped, Some(Signal::SIGTRAP), "at {before:#x}");
                let state = tracee.state();
                if digest(&state) == *expected {
                    break;
                }
                // The real processor stops within repeated string instructions.
                if state.ip == before {
                    continue;
                }
                let ours = worker.run(Mode::User, &start, &mut tracee.memory, n as u64 + 1, false);
                let ours = ours.expect("worker answers").state;
                let mut code = [0; 15];
                tracee.memory.read(before, &mut code);
                panic!("after {before:#x} {code:02x?}\nours {ours:x?}\nreal {state:x?}");
            }
            tally.compared += 1;
        }
        for (page, bytes) in &ran.written {
            let mut real = [0; 4096];
            assert!(tracee.memory.read(*page, &mut real));
            assert!(real == bytes.0, "page {page:#x} differs");
        }
        if let Some(end) = ran.end {
            *tally.ends.entry(format!("{end:?}")).or_default() += 1;
            if end == End::Locked && ran.steps > 0 {
                continue;
            }
            let before = tracee.state().ip;
            let Some(stopped) = tracee.step(signal.take()) else {
                break;
            };
            if stopped != Signal::SIGTRAP {
                assert_eq!(tracee.state().ip, before, "it faulted");
                signal = Some(stopped);
            }
            tracee.memory.refresh();
        }
    }
    tally
}

#[test]
fn a_real_program_runs_as_on_the_real_processor() {
    let steps = std::env::var("REDHANDED_REPLAY_STEPS").ok();
    let steps = steps.map(|n| n.parse().expect("a number"));
    let other = std::env::var("REDHANDED_REPLAY_PROGRAM").ok();
    let path = new_path("program");
    let source = path.with_added_extension("c");
    std::fs::write(&source, PROGRAM).expect("source");
    let built = Command::new("gcc")
        .args(["-O2", "-march=native", "-fno-builtin-printf", "-o"])
        .args([&path, &source])
        .arg("-lm")
        .status();
    assert!(built.expect("gcc runs").success());
    let own = path.to_string_lossy().into_owned();
    let program: Vec<&str> = match &other {
        Some(command) => command.split_whitespace().collect(),
        None => vec![&own],
    };
    let tally = compare(&program, steps);
    println!("{} steps compared, ends: {:#?}", tally.compared, tally.ends);
    let least = steps.unwrap_or(LEAST);
    assert!(
        other.is_some() || tally.compared >= least,
        "the program ended early"
    );
}
