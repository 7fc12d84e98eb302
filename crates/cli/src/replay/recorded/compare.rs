//! Registers as a recording has them, and as a replay does.

use redhanded_recording::wire::register;
use redhanded_recording::{Registers, Stretch};
use redhanded_replay::{State, Stretched, flag};

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// Flags that the program's own code sets.
const FLAGS: u64 = flag::STATUS | flag::DF;

/// The registers of a thread, if its program counter is known.
pub fn state_of(registers: &Registers) -> Option<State> {
    let values = &registers.values;
    let mut state = State {
        ip: registers.ip?,
        flags: values[register::FLAGS],
        fs_base: values[register::FS],
        gs_base: values[register::FS + 1],
        ..State::default()
    };
    state.general.copy_from_slice(&values[..16]);
    let vectors = &mut *state.vectors;
    vectors.mxcsr = values[register::MXCSR] as u32;
    let x87 = values[register::X87];
    vectors.x87_control = x87 as u16;
    vectors.x87_status = (x87 >> 16) as u16;
    vectors.x87_tags = (x87 >> 32) as u8;
    vectors
        .masks
        .copy_from_slice(&values[register::MASK..][..8]);
    let into = |bytes: &mut [u8], first: usize| {
        for (bytes, value) in bytes.chunks_exact_mut(8).zip(&values[first..]) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    };
    into(&mut vectors.x87.0, register::ST);
    into(&mut vectors.zmm.0, register::VECTOR);
    Some(state)
}

/// The first register that is another one than when the program ran.
pub fn difference(stretch: &Stretch, ran: &Stretched) -> Option<String> {
    let now = &ran.state;
    let end = &stretch.end;
    if end.ip.is_some_and(|ip| ip != now.ip) {
        return Some("the program counter".to_owned());
    }
    let whole = Registers {
        ip: Some(now.ip),
        values: end.values.clone(),
    };
    let then = state_of(&whole)?;
    let general = then.general.iter().zip(&now.general).zip(NAMES);
    for ((then, now), name) in general {
        if then != now {
            return Some(name.to_owned());
        }
    }
    if stretch.knows_flags && (then.flags ^ now.flags) & FLAGS & !ran.undefined != 0 {
        return Some("the flags".to_owned());
    }
    if stretch.only_integers {
        return None;
    }
    if (then.fs_base, then.gs_base) != (now.fs_base, now.gs_base) {
        return Some("a segment's base".to_owned());
    }
    let (then, now) = (&*then.vectors, &*now.vectors);
    for (number, (then, now)) in then.zmm.0.chunks(64).zip(now.zmm.0.chunks(64)).enumerate() {
        if then != now {
            return Some(format!("zmm{number}"));
        }
    }
    if then.masks != now.masks {
        return Some("a mask".to_owned());
    }
    if then.mxcsr != now.mxcsr {
        return Some("mxcsr".to_owned());
    }
    let x87 = |it: &redhanded_replay::Vectors| (it.x87_control, it.x87_status, it.x87_tags);
    if x87(then) != x87(now) {
        return Some("the state of x87".to_owned());
    }
    // A register that is not in use may hold anything. The tags are by the registers' own numbers,
    // and the registers are stored from the top of the stack on.
    let top = usize::from(now.x87_status >> 11 & 7);
    for (number, (then, now_bytes)) in then.x87.0.chunks(16).zip(now.x87.0.chunks(16)).enumerate() {
        let in_use = now.x87_tags >> ((top + number) % 8) & 1 != 0;
        if in_use && then[..10] != now_bytes[..10] {
            return Some(format!("st{number}"));
        }
    }
    None
}
