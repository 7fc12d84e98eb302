//! Nothing that is asked may hurt the parent, nor the worker do anything but compute.

use crate::assemble::{CODE, DATA, Race};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redhanded_replay::{
    Call, End, Fetched, Limits, Memory, Mode, Scene, Snapshot, Start, State, Worker, WorkerError,
};
use std::cell::RefCell;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_worker_is_locked_down() {
    let worker = crate::worker();
    let pid = worker.id().expect("started here");
    let of = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("read");
    let status = of("status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1))
            .map(str::to_owned)
    };
    assert_eq!(field("Seccomp:").as_deref(), Some("2"));
    assert_eq!(field("NoNewPrivs:").as_deref(), Some("1"));
    let limits = of("limits");
    let address_space = limits.lines().find(|l| l.starts_with("Max address space"));
    assert!(
        address_space.expect("limit").contains("1073741824"),
        "{limits}"
    );
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("files");
    assert_eq!(files.count(), 1, "nothing but its socket");
}

#[test]
fn a_program_that_is_no_worker_is_an_error() {
    let started = Worker::start(Command::new("true"), Duration::from_secs(120));
    assert!(
        matches!(started, Err(WorkerError::Failed(_))),
        "{started:?}"
    );
}

#[test]
fn an_answer_that_takes_too_long_is_an_error() {
    struct Slow;
    impl Memory for Slow {
        fn fetch(&mut self, _: u64) -> Fetched {
            std::thread::sleep(Duration::from_millis(300));
            Fetched::Unknown
        }
    }
    let command = Command::new(env!("CARGO_BIN_EXE_redhanded-replay-worker"));
    let mut worker = Worker::start(command, Duration::from_millis(200)).expect("worker");
    let start = State::default();
    let ran = worker.run(Mode::User, &start, &mut Slow, 1, false);
    assert!(matches!(ran, Err(WorkerError::Timeout(_))), "{ran:?}");
    let again = worker.run(Mode::User, &start, &mut Slow, 1, false);
    assert!(again.is_err(), "it was ended");
}

#[test]
fn a_stack_pointer_that_leads_nowhere_survives_a_fault() {
    // The real processor runs these with that stack pointer.
    let judgement = Race::new(
        "mov eax, [data]; xor esp, esp; div rsp; mfence",
        "mov ebx, [data]; mfence",
        &[0],
    )
    .judge();
    assert!(matches!(judgement.outcomes[0].ended[0].end, End::Fault(_)));
}

#[test]
fn long_repetitions_and_endless_loops_end() {
    let begun = Instant::now();
    let judgement = Race::new(
        "mov eax, [data]; mov rcx, -1; lea rdi, [data]; mov rsi, rdi; rep lodsb; mfence",
        "mov ebx, [data]; 1: jmp 1b",
        &[0],
    )
    .judge();
    assert!(
        matches!(judgement.call, Call::ReplayFailure(_)),
        "{judgement:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// Any bytes as code, any registers: there is an answer, from the same worker each time.
#[test]
fn any_scene_has_an_answer() {
    let worker = RefCell::new(crate::worker());
    let state = (
        prop::array::uniform16(prop_oneof![
            Just(DATA),
            Just(CODE[0]),
            Just(u64::MAX - 7),
            any::<u64>()
        ]),
        any::<u64>(),
    )
        .prop_map(|(general, flags)| State {
            general,
            flags,
            ..State::default()
        });
    let bytes = prop::collection::vec(any::<u8>(), 64);
    let strategy = (
        [state.clone(), state],
        bytes.clone(),
        bytes,
        0..64_u64,
        any::<bool>(),
    );
    let mut runner = TestRunner::new(Config {
        cases: 2000,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&strategy, |([a, b], code, more, offset, kernel)| {
            let mut memory = Snapshot::new(true);
            memory.write(CODE[0], &code);
            memory.write(CODE[1], &more);
            memory.write(DATA, &more);
            let at = |state: &State, ip| State {
                ip,
                ..state.clone()
            };
            let scene = Scene {
                mode: if kernel { Mode::Kernel } else { Mode::User },
                threads: [
                    Start::Before(at(&a, CODE[0])),
                    Start::After {
                        state: at(&b, CODE[1] + offset),
                        ip: CODE[1],
                        address: DATA + offset,
                        from: DATA + offset % 7,
                        before: code[..(offset % 20) as usize].to_vec(),
                    },
                ],
                race: vec![(DATA, DATA + 8), (u64::MAX - 1, u64::MAX)],
                handled: 0,
            };
            let limits = Limits {
                steps: 300,
                splits: 3,
                delays: 2,
            };
            let judged = worker.borrow_mut().judge(&scene, &mut memory, limits);
            prop_assert!(judged.is_ok(), "{judged:?}");
            Ok(())
        })
        .expect("an answer to everything");
}
