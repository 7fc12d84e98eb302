//! Random instructions, one at a time, on the virtual and on the real processor.

use crate::tracee::Tracee;
use nix::sys::signal::Signal;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use redhanded_replay::{End, Fault, Memory, Mode, PAGE, State, digest, page_of};
use std::cell::{Cell, RefCell};

/// Whether this processor has vectors of 64 bytes and masks.
fn has_wide_vectors() -> bool {
    is_x86_feature_detected!("avx512bw")
}

/// The beginnings of instructions: legacy ones, those of SSE, VEX and EVEX. Without AVX-512 the
/// last are invalid, and the virtual processor says so or gives up.
fn instructions() -> impl Strategy<Value = Vec<u8>> {
    let prefix = prop_oneof![
        3 => Just(vec![]),
        1 => Just(vec![0x66]),
        1 => Just(vec![0xf2]),
        1 => Just(vec![0xf3]),
    ];
    let rex = prop_oneof![2 => Just(vec![]), 3 => (0x40..=0x4f_u8).prop_map(|b| vec![b])];
    let opcode = prop_oneof![
        3 => any::<u8>().prop_map(|b| vec![b]),
        4 => any::<u8>().prop_map(|b| vec![0x0f, b]),
        2 => any::<u8>().prop_map(|b| vec![0x0f, 0x38, b]),
        1 => any::<u8>().prop_map(|b| vec![0x0f, 0x3a, b]),
    ];
    let legacy = (prefix, rex, opcode).prop_map(|(a, b, c)| [a, b, c].concat());
    let vex = (1..=3_u8, any::<[u8; 3]>())
        .prop_map(|(map, [a, b, op])| vec![0xc4, a & 0xe0 | map, b, op]);
    let evex = (1..=3_u8, any::<[u8; 4]>())
        .prop_map(|(map, [a, b, c, op])| vec![0x62, a & 0xf0 | map, b | 4, c, op]);
    let start = prop_oneof![4 => legacy, 3 => vex, 4 => evex];
    // What follows is ModRM, SIB, displacement and immediates: mostly small.
    let small = prop_oneof![3 => Just(0_u8), 1 => 0..64_u8];
    let rest = (any::<u8>(), any::<u8>(), prop::collection::vec(small, 10));
    (start, rest).prop_map(|(start, (modrm, sib, more))| {
        let mut bytes = [start, vec![modrm, sib], more].concat();
        bytes.truncate(15);
        bytes
    })
}

struct Bench {
    tracee: Tracee,
    worker: redhanded_replay::Worker,
    code: u64,
    data: u64,
}

impl Bench {
    fn new() -> Self {
        let tracee = Tracee::start(&["true"]);
        let code = page_of(tracee.state().ip) + 64;
        // Not the stack: the kernel lets that grow when an address below it is touched.
        let data = tracee.memory.data();
        let mut bench = Self {
            tracee,
            worker: crate::worker(),
            code,
            data,
        };
        bench.fill_vectors();
        bench
    }

    /// Loads all vectors and masks with something, by code of its own.
    fn fill_vectors(&mut self) {
        for n in 0..PAGE {
            let byte = (n.wrapping_mul(0x9e37_79b9) >> 11) as u8;
            self.tracee.memory.write(self.data + n, &[byte]);
        }
        let (code, last) = if has_wide_vectors() {
            (load_wide_vectors(), 31)
        } else {
            (load_narrow_vectors(), 15)
        };
        self.tracee.memory.write(self.code, &code.concat());
        self.set(&[self.data; 16], 0x202);
        for _ in code {
            assert_eq!(self.tracee.step(None), Some(Signal::SIGTRAP));
        }
        let vectors = self.tracee.state().vectors;
        assert!(
            vectors.register(last, 16).iter().any(|b| *b != 0),
            "they are filled"
        );
    }

    fn set(&mut self, general: &[u64; 16], flags: u64) {
        let pid = self.tracee.pid();
        let mut r = redhanded_sys::raw_registers(pid).expect("registers");
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ] = *general;
        r.rip = self.code;
        r.eflags = flags;
        // Not within a system call that could be restarted.
        r.orig_rax = u64::MAX;
        redhanded_sys::set_raw_registers(pid, &r).expect("registers");
    }

    /// Runs one instruction on both. Whether it was compared.
    fn check(
        &mut self,
        code: &[u8],
        general: &[u64; 16],
        flags: u64,
    ) -> Result<bool, TestCaseError> {
        self.tracee.memory.write(self.code, code);
        self.set(general, flags);
        let start = self.tracee.state();
        let memory: &mut dyn Memory = &mut self.tracee.memory;
        let ran = self.worker.run(Mode::User, &start, memory, 1, false);
        // The worker may be gone now, so a smaller case cannot be looked for: say it here.
        let ran = ran.unwrap_or_else(|error| panic!("{error} at {code:02x?} {general:x?}"));
        match &ran.end {
            None => {}
            Some(End::Fault(
                Fault::Unmapped { .. } | Fault::ReadOnly { .. } | Fault::Arithmetic,
            )) => {
                let stopped = self.tracee.step(None);
                if is_changed_by_stepping(code) {
                    return Ok(false);
                }
                prop_assert!(
                    matches!(
                        stopped,
                        Some(Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGFPE | Signal::SIGILL)
                    ),
                    "we say {:?}, the processor {stopped:?}",
                    ran.end
                );
                return Ok(true);
            }
            // Not to be run, or of no matter.
            Some(_) => return Ok(false),
        }
        let stopped = self.tracee.step(None);
        let real = self.tracee.state();
        prop_assert_eq!(
            stopped,
            Some(Signal::SIGTRAP),
            "we say all is well: {:?}",
            ran.state.ip
        );
        if is_changed_by_stepping(code) {
            return Ok(false);
        }
        if digest(&real) != digest(&ran.state) {
            return Err(TestCaseError::fail(difference(&ran.state, &real)));
        }
        for (page, bytes) in &ran.written {
            let mut memory = [0; 4096];
            self.tracee.memory.read(*page, &mut memory);
            prop_assert!(memory == bytes.0, "page {page:#x} differs");
        }
        Ok(true)
    }
}

/// Loads all vectors of AVX-512 and its masks from where `rax` points to.
fn load_wide_vectors() -> Vec<Vec<u8>> {
    let vector = |n: u8| {
        // vmovdqu64 zmm<n>, [rax + n*64]: the displacement is counted in 64 bytes.
        let high = if n & 8 == 0 { 0x80 } else { 0 } | if n & 16 == 0 { 0x10 } else { 0 };
        let low = 0x40 | (n & 7) << 3;
        vec![0x62, high | 0x61, 0xfe, 0x48, 0x6f, low, n]
    };
    // kmovq k<n>, [rax + n*8]
    let mask = |n: u8| vec![0xc4, 0xe1, 0xf8, 0x90, 0x40 | n << 3, n * 8];
    (0..32).map(vector).chain((1..8).map(mask)).collect()
}

/// Loads the sixteen vectors of AVX from where `rax` points to.
fn load_narrow_vectors() -> Vec<Vec<u8>> {
    // vmovdqu ymm<n>, [rax + n*32]
    let vector = |n: u8| {
        let high = if n & 8 == 0 { 0xfe } else { 0x7e };
        let at = (u32::from(n) * 32).to_le_bytes();
        [&[0xc5, high, 0x6f, 0x80 | (n & 7) << 3][..], &at].concat()
    };
    (0..16).map(vector).collect()
}

/// Whether stepping changes what it does: a repeated string instruction stops within, and
/// `pushf` shows the trap flag.
fn is_changed_by_stepping(code: &[u8]) -> bool {
    let is_prefix = |b: &&u8| {
        matches!(
            b,
            0x66 | 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65
        )
    };
    let mut opcode = code.iter().filter(|b| !is_prefix(b));
    match opcode.next() {
        // Before 0x0f it is a part of the opcode.
        Some(0xf2 | 0xf3) => opcode.next() != Some(&0x0f),
        first => first == Some(&0x9c),
    }
}

fn difference(ours: &State, real: &State) -> String {
    let zmm = |s: &State, n: usize| format!("{:02x?}", s.vectors.register(n, 64));
    let vectors: Vec<_> = (0..32)
        .filter(|n| zmm(ours, *n) != zmm(real, *n))
        .map(|n| format!("zmm{n}: ours {} real {}", zmm(ours, n), zmm(real, n)))
        .collect();
    let (a, b) = (&ours.vectors, &real.vectors);
    format!(
        "ours {:x?} ip {:x} flags {:x} mxcsr {:x} k {:x?} x87 {:x} {:x} {:x} {:?}\n\
         real {:x?} ip {:x} flags {:x} mxcsr {:x} k {:x?} x87 {:x} {:x} {:x} {:?}\n{}",
        ours.general,
        ours.ip,
        ours.flags,
        a.mxcsr,
        a.masks,
        a.x87_control,
        a.x87_status,
        a.x87_tags,
        a.x87,
        real.general,
        real.ip,
        real.flags,
        b.mxcsr,
        b.masks,
        b.x87_control,
        b.x87_status,
        b.x87_tags,
        b.x87,
        vectors.join("\n")
    )
}

#[test]
fn random_instructions_do_as_on_the_real_processor() {
    let cases = std::env::var("REDHANDED_REPLAY_CASES").ok();
    let cases = cases.map_or(4000, |n| n.parse().expect("a number"));
    let bench = RefCell::new(Bench::new());
    let compared = Cell::new(0);
    let data = bench.borrow().data;
    let register = prop_oneof![
        2 => (0..PAGE - 256).prop_map(move |n| data + n),
        1 => 0..64_u64,
        1 => any::<u64>(),
    ];
    let flags = any::<u64>().prop_map(|n| n & flag_mask() | 0x202);
    let strategy = (instructions(), prop::array::uniform16(register), flags);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    // The same instructions each time; more cases are others.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&strategy, |(code, general, flags)| {
        if bench.borrow_mut().check(&code, &general, flags)? {
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    println!("{} of {cases} instructions compared", compared.get());
    assert!(compared.get() > cases / 10, "{} compared", compared.get());
}

/// Found by a longer run of the test above.
#[test]
fn a_mask_does_not_prevent_every_fault() {
    if !has_wide_vectors() {
        println!("skipped: this processor has no AVX-512");
        return;
    }
    let mut bench = Bench::new();
    let mut general = [bench.data; 16];
    // Where nothing is mapped.
    general[8] = 0;
    // vshufpd ymm27{k5}{z}, ymm17, [r8], 0: faults even for elements that are masked out
    let code = [0x62, 0x01, 0xf5, 0xad, 0xc6, 0x18, 0x00];
    let checked = bench.check(&code, &general, 0x202);
    assert!(checked.is_ok(), "{checked:?}");
}

/// Found by a longer run, too.
#[test]
fn input_that_is_repeated_no_times_is_refused_all_the_same() {
    let mut bench = Bench::new();
    let mut general = [bench.data; 16];
    general[1] = 0;
    // repne insb, rep outsb
    for code in [[0xf2, 0x6c], [0xf3, 0x6e]] {
        let checked = bench.check(&code, &general, 0x202);
        assert!(checked.is_ok(), "{checked:?}");
    }
}

/// Found by a longer run, too.
#[test]
fn a_rotation_by_as_much_as_there_is_changes_flags() {
    let mut bench = Bench::new();
    let mut general = [bench.data; 16];
    general[2] = 0;
    // rcl dx, 0xf1: by 17 of 17 bits
    let code = [0x66, 0xc1, 0xd2, 0xf1];
    for flags in [0xe06, 0x202] {
        let checked = bench.check(&code, &general, flags);
        assert!(matches!(checked, Ok(true)), "{checked:?}");
    }
}

/// Found by a longer run, too.
#[test]
fn a_conversion_to_a_general_register_obeys_the_control_register() {
    let mut bench = Bench::new();
    let general = [bench.data; 16];
    // Invalid operations raise an exception, and numbers are rounded down.
    let control = 0x3f00_u32.to_le_bytes();
    bench.tracee.memory.write(bench.data, &control);
    // ldmxcsr [rbx]; then cvtsd2si eax, [rbx] of a number that fits, and of one that does not
    let mut check = |code: &[u8]| bench.check(code, &general, 0x202);
    assert!(matches!(check(&[0x0f, 0xae, 0x13]), Ok(true)));
    for number in [-1.5_f64, 1e300] {
        bench.tracee.memory.write(bench.data, &number.to_le_bytes());
        let checked = bench.check(&[0xf2, 0x0f, 0x2d, 0x03], &general, 0x202);
        assert!(matches!(checked, Ok(true)), "{number}: {checked:?}");
    }
}

const fn flag_mask() -> u64 {
    redhanded_replay::flag::STATUS | redhanded_replay::flag::DF
}
