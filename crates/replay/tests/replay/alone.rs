//! One thread alone, with what it read from a log.

use crate::assemble::{CODE, DATA, assemble};
use redhanded_replay::{End, Goal, Snapshot, State, Stretch, Word};

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

/// Code, and two pages of zeros.
fn memory(source: &str) -> Snapshot {
    let mut memory = Snapshot::new(false);
    memory.write(CODE[0], &assemble(CODE[0], source));
    memory.write(DATA, &[0; 8192]);
    memory
}

fn from(start: Option<State>, count: u64, goal: Goal) -> Stretch {
    Stretch {
        start,
        fresh: false,
        count,
        words: Vec::new(),
        goal,
        listed: (0, 0),
    }
}

fn at_the_start() -> Option<State> {
    Some(State {
        ip: CODE[0],
        flags: 0x202,
        ..State::default()
    })
}

fn word(count: u64, value: u64) -> Word {
    Word {
        count,
        address: DATA,
        value,
    }
}

#[test]
fn a_thread_reads_what_was_logged_and_what_it_wrote_itself() {
    let source = "mov rax, [data]\nmov rbx, [data]\nmfence\nadd [data], rbx\nlock inc qword ptr \
                  [data]\nmov rcx, [data]\nmov rdx, [data]\nmov rdx, [data]";
    let mut memory = memory(source);
    let mut worker = crate::worker();
    let mut alone = worker.alone(&mut memory).expect("begins");
    let ran = alone
        .run(Stretch {
            words: vec![word(10, 5), word(11, 7)],
            listed: (13, 14),
            ..from(at_the_start(), 10, Goal::Count(16))
        })
        .expect("runs");
    assert_eq!((ran.count, &ran.end), (16, &None));
    let general = ran.state.general;
    assert_eq!((general[RAX], general[RBX], general[RCX]), (5, 7, 15));
    assert_eq!(ran.steps.len(), 1, "{:?}", ran.steps);
    let wrote = (DATA, true, 14_u64.to_le_bytes().to_vec());
    assert_eq!(ran.steps[0].count, 13);
    assert!(ran.steps[0].accesses.contains(&wrote), "{:?}", ran.steps);

    // It goes on with what it has.
    let ran = alone.run(from(None, 16, Goal::Count(17))).expect("runs");
    assert_eq!(ran.state.general[RDX], 15);
    // Where everything is logged anew, nothing is left of what it wrote.
    let fresh = Stretch {
        fresh: true,
        ..from(Some(ran.state), 17, Goal::Count(18))
    };
    let ran = alone.run(fresh).expect("runs");
    assert_eq!(ran.state.general[RDX], 0);
    alone.leave().expect("ends");

    let mut again = worker.alone(&mut memory).expect("begins again");
    let ran = again.run(from(at_the_start(), 0, Goal::Count(1)));
    assert_eq!(ran.expect("runs").count, 1);
}

#[test]
fn a_repeated_instruction_counts_once() {
    let mut memory = memory("lea rdi, [data]\nmov ecx, 5000\nrep stosb\nnop");
    let mut worker = crate::worker();
    let mut alone = worker.alone(&mut memory).expect("begins");
    let ran = alone.run(from(at_the_start(), 0, Goal::Count(3)));
    let ran = ran.expect("runs");
    assert_eq!((ran.count, &ran.end), (3, &None));
    assert_eq!(ran.state.general[RCX], 0);
}

#[test]
fn a_thread_that_was_interrupted_is_where_its_registers_are() {
    let mut memory = memory("inc eax\ninc eax\ninc eax\njmp 1f\n1: inc eax\nnop");
    let mut worker = crate::worker();
    let mut alone = worker.alone(&mut memory).expect("begins");
    let mut general = [0; 16];
    general[RAX] = 2;
    let goal = |most| Goal::Registers {
        from: 1,
        most,
        ip: CODE[0] + 4,
        general,
    };
    let ran = alone.run(from(at_the_start(), 0, goal(5))).expect("runs");
    assert_eq!((ran.count, ran.end), (2, None));
    general[RAX] = 9;
    let never = Goal::Registers {
        from: 1,
        most: 2,
        ip: CODE[0],
        general,
    };
    let ran = alone.run(from(at_the_start(), 0, never)).expect("runs");
    assert_eq!((ran.count, ran.end), (3, Some(End::Bound)));
}

#[test]
fn code_that_the_thread_writes_is_run_as_it_is_then() {
    // `inc eax` becomes `dec eax`.
    let source = "1: inc eax\nmov byte ptr [rip + 1b + 1], 0xc8\nloop 1b\nnop";
    let mut memory = memory(source);
    let mut worker = crate::worker();
    let mut alone = worker.alone(&mut memory).expect("begins");
    let mut start = at_the_start().expect("a state");
    start.general[RCX] = 3;
    let ran = alone.run(from(Some(start), 0, Goal::Count(9)));
    let ran = ran.expect("runs");
    assert_eq!(ran.end, None);
    assert_eq!(ran.state.general[RAX] as u32, u32::MAX);
}

/// Instructions run on copies of pages in place, and some fault unless their operand is aligned.
#[test]
fn an_operand_is_aligned_as_it_is_in_the_program() {
    if !std::arch::is_x86_feature_detected!("avx") {
        eprintln!("skipped: this processor has no AVX");
        return;
    }
    let pages = 16;
    let source: String = (0..pages)
        .map(|n| format!("vmovdqa ymm0, [data + {}]\n", n * 4096 + 32))
        .collect();
    let mut memory = memory(&source);
    memory.write(DATA, &vec![0; pages * 4096]);
    let mut worker = crate::worker();
    let mut alone = worker.alone(&mut memory).expect("begins");
    let ran = alone.run(from(at_the_start(), 0, Goal::Count(pages as u64)));
    assert_eq!(ran.expect("runs").end, None);
}
