//! Turns assembly into a scene: two threads, their stacks and some data.

use redhanded_replay::{Judgement, Limits, Mode, Scene, Snapshot, Start, State};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the code of the two threads is.
pub const CODE: [u64; 2] = [0x40_0000, 0x40_1000];
/// Where the data is that they share.
pub const DATA: u64 = 0x60_0000;
/// The tops of their stacks.
pub const STACKS: [u64; 2] = [0x70_8000, 0x71_8000];

/// Machine code of Intel-syntax assembly that is placed at this address. `data` stands for
/// the shared data.
pub fn assemble(at: u64, source: &str) -> Vec<u8> {
    let path = new_path("code");
    let mut gcc = Command::new("gcc")
        .args(["-x", "assembler", "-", "-nostdlib", "-static", "-o"])
        .arg(&path)
        .arg(format!(
            "-Wl,--oformat=binary,-N,-e,0,--build-id=none,-Ttext={at:#x}"
        ))
        .stdin(Stdio::piped())
        .spawn()
        .expect("gcc runs");
    let text = format!(".intel_syntax noprefix\n.set data, {DATA:#x}\n{source}\n");
    let mut input = gcc.stdin.take().expect("stdin");
    input.write_all(text.as_bytes()).expect("gcc reads");
    drop(input);
    assert!(gcc.wait().expect("gcc ends").success(), "{source}");
    let code = std::fs::read(&path).expect("code");
    let _ = std::fs::remove_file(path);
    code
}

/// A path that no other test uses.
pub fn new_path(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}-{}-{number}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Two threads over one memory.
pub struct Race {
    pub scene: Scene,
    pub memory: Snapshot,
}

impl Race {
    /// Both stand at the start of their code. The first eight bytes of the data are what
    /// they race for.
    pub fn new(a: &str, b: &str, data: &[u64]) -> Self {
        let mut memory = Snapshot::new(true);
        for (at, source) in CODE.into_iter().zip([a, b]) {
            memory.write(at, &assemble(at, source));
            memory.page(at).writable = false;
        }
        memory.page(DATA);
        for (at, value) in (DATA..).step_by(8).zip(data) {
            memory.write(at, &value.to_le_bytes());
        }
        for top in STACKS {
            memory.page(top - 4096);
            memory.page(top);
        }
        let start = |n: usize| {
            let mut state = State {
                ip: CODE[n],
                flags: 0x202,
                ..State::default()
            };
            state.general[4] = STACKS[n];
            Start::Before(state)
        };
        Self {
            scene: Scene {
                mode: Mode::User,
                threads: [start(0), start(1)],
                race: vec![(DATA, DATA + 8)],
                handled: 0,
            },
            memory,
        }
    }

    pub fn judge(mut self) -> Judgement {
        self.judge_within(Limits::default())
    }

    pub fn judge_within(&mut self, limits: Limits) -> Judgement {
        let judged = crate::worker().judge(&self.scene, &mut self.memory, limits);
        judged.expect("worker answers")
    }
}
