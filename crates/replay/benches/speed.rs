//! How fast the virtual processor is: instructions a second, and one question of two threads,
//! two orders and 10,000 instructions each.

use redhanded_replay::{Limits, Mode, Scene, Snapshot, Start, State, Worker};
use std::process::Command;
use std::time::{Duration, Instant};

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x60_0000;

/// A loop of thirteen instructions: loads, stores, arithmetic, a vector, a call and a return.
const LOOP: [u8; 48] = [
    0x8b, 0x07, // mov eax, [rdi]
    0x01, 0xd8, // add eax, ebx
    0x89, 0x47, 0x08, // mov [rdi+8], eax
    0x48, 0x8d, 0x57, 0x10, // lea rdx, [rdi+16]
    0xc5, 0xfe, 0x6f, 0x0a, // vmovdqu ymm1, [rdx]
    0xc5, 0xf5, 0xfe, 0xc9, // vpaddd ymm1, ymm1, ymm1
    0xe8, 0x07, 0x00, 0x00, 0x00, // call +7
    0xff, 0xc3, // inc ebx
    0x39, 0xcb, // cmp ebx, ecx
    0x75, 0xe2, // jne back
    0xf4, // hlt
    0x48, 0x83, 0xec, 0x08, // sub rsp, 8
    0x48, 0x83, 0xc4, 0x08, // add rsp, 8
    0xc3, // ret
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
];

fn state(stack: u64) -> State {
    let mut state = State {
        ip: CODE,
        flags: 0x202,
        ..State::default()
    };
    state.general[7] = DATA;
    state.general[1] = u64::MAX;
    state.general[4] = stack;
    state
}

fn best(times: usize, mut run: impl FnMut()) -> Duration {
    let mut once = || {
        let begun = Instant::now();
        run();
        begun.elapsed()
    };
    (0..times).map(|_| once()).min().unwrap_or_default()
}

fn main() {
    let command = Command::new(env!("CARGO_BIN_EXE_redhanded-replay-worker"));
    let mut worker = Worker::start(command, Duration::from_secs(60)).expect("worker");
    let mut memory = Snapshot::new(true);
    memory.write(CODE, &LOOP);
    memory.page(DATA);
    for stack in [0x70_8000_u64, 0x71_8000] {
        memory.page(stack - 8);
    }
    let steps = 3_000_000;
    let one = best(5, || {
        let ran = worker.run(Mode::User, &state(0x70_8000), &mut memory, steps, false);
        assert_eq!(ran.expect("answer").steps, steps);
    });
    let rate = steps as f64 / one.as_secs_f64() / 1e6;
    println!("one thread: {rate:.1} M instructions/s");
    let scene = Scene {
        mode: Mode::User,
        threads: [0x70_8000, 0x71_8000].map(|stack| Start::Before(state(stack))),
        race: vec![(DATA, DATA + 4)],
        handled: 0,
    };
    for splits in [0, 8] {
        let limits = Limits {
            steps: 10_000,
            splits,
            ..Limits::default()
        };
        let mut orders = 0;
        let time = best(20, || {
            let judged = worker.judge(&scene, &mut memory, limits).expect("answer");
            orders = judged.outcomes.len();
        });
        println!("two threads, {orders} orders, 10,000 instructions each: {time:.1?}");
    }
}
