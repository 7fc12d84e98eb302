//! The notes of a core, in the kernel's order.
//!
//! The order matters to debuggers: the floating-point registers belong to the thread of
//! the `NT_PRSTATUS` before them, and the first thread is the current one.

use super::CoreThread;
use super::facts::{Facts, Stat};
use super::fields::Fields;
use super::layout::PAGE;
use super::mappings::Mapping;

const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_X86_XSTATE: u32 = 0x202;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_FILE: u32 = 0x4649_4c45;

/// All of them.
pub fn all(threads: &[CoreThread], facts: &Facts, mappings: &[Mapping]) -> Vec<u8> {
    let mut out = Fields::default();
    for (number, (thread, stat)) in threads.iter().zip(&facts.threads).enumerate() {
        note(&mut out, b"CORE", NT_PRSTATUS, &status(thread, stat));
        if number == 0 {
            note(&mut out, b"CORE", NT_PRPSINFO, &process(facts));
            note(&mut out, b"CORE", NT_SIGINFO, &signal(thread));
            note(&mut out, b"CORE", NT_AUXV, &facts.auxv);
            note(&mut out, b"CORE", NT_FILE, &files(mappings));
        }
        if !thread.floating.is_empty() {
            note(&mut out, b"CORE", NT_FPREGSET, &thread.floating);
        }
        if !thread.xstate.is_empty() {
            note(&mut out, b"LINUX", NT_X86_XSTATE, &thread.xstate);
        }
    }
    out.0
}

fn note(out: &mut Fields, owner: &[u8], kind: u32, content: &[u8]) {
    // The notes come from the kernel, which keeps its own below a few megabytes.
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    out.u32(length(owner.len() + 1));
    out.u32(length(content.len()));
    out.u32(kind);
    out.0.extend_from_slice(owner);
    out.u8(0);
    out.align(4);
    out.0.extend_from_slice(content);
    out.align(4);
}

/// `struct elf_prstatus`.
fn status(thread: &CoreThread, stat: &Stat) -> Vec<u8> {
    let mut out = Fields::default();
    out.i32(thread.signal); // si_signo, si_code, si_errno
    out.zeros(8);
    out.u16(u16::try_from(thread.signal).unwrap_or(0));
    out.align(8);
    out.u64(stat.pending);
    out.u64(stat.blocked);
    for id in [thread.tid, stat.parent, stat.group, stat.session] {
        out.i32(id);
    }
    for time in stat.times {
        out.u64(time / 100);
        out.u64(time % 100 * 10_000);
    }
    for register in thread.registers {
        out.u64(register);
    }
    out.i32(i32::from(!thread.floating.is_empty()));
    out.align(8);
    out.0
}

/// `struct elf_prpsinfo`.
fn process(facts: &Facts) -> Vec<u8> {
    const STATES: &[u8] = b"RSDTZW";
    let stat = &facts.process;
    let place = STATES.iter().position(|state| *state == stat.state);
    let mut out = Fields::default();
    out.u8(place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(0));
    out.u8(stat.state);
    out.u8(u8::from(stat.state == b'Z'));
    out.u8(stat.nice.cast_unsigned());
    out.align(8);
    out.u64(stat.flags);
    out.u32(facts.uid);
    out.u32(facts.gid);
    for id in [facts.pid, stat.parent, stat.group, stat.session] {
        out.i32(id);
    }
    out.text(&stat.name, 16);
    out.text(&facts.arguments, 80);
    out.0
}

/// `siginfo_t`, of which only the signal's number is known.
fn signal(thread: &CoreThread) -> Vec<u8> {
    let mut out = Fields::default();
    out.i32(thread.signal);
    out.align(128);
    out.0
}

/// Which file is mapped where, so that a debugger finds what is not stored.
fn files(mappings: &[Mapping]) -> Vec<u8> {
    let files: Vec<_> = mappings.iter().filter(|map| map.has_file()).collect();
    let mut out = Fields::default();
    out.u64(files.len() as u64);
    out.u64(PAGE);
    for file in &files {
        out.u64(file.start);
        out.u64(file.end);
        out.u64(file.offset / PAGE);
    }
    for file in &files {
        out.0.extend_from_slice(&file.name);
        out.u8(0);
    }
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels() {
        let thread = CoreThread {
            tid: 0x0102_0304,
            registers: std::array::from_fn(|number| number as u64),
            floating: vec![0; 512],
            xstate: Vec::new(),
            signal: 5,
        };
        let stat = Stat {
            times: [250, 0, 0, 0],
            ..Stat::default()
        };
        let bytes = status(&thread, &stat);
        assert_eq!(bytes.len(), 336);
        assert_eq!(bytes[12], 5);
        assert_eq!(bytes[32..36], [4, 3, 2, 1]);
        assert_eq!(bytes[48], 2);
        assert_eq!(bytes[56..60], 500_000u32.to_le_bytes());
        assert_eq!(bytes[112 + 16 * 8], 16);
        assert_eq!(bytes[328], 1);
        assert_eq!(signal(&thread).len(), 128);

        let facts = Facts {
            pid: 7,
            process: Stat {
                name: b"a name that is too long".to_vec(),
                state: b'T',
                ..Stat::default()
            },
            threads: vec![stat],
            uid: 0x0a0b,
            gid: 2,
            arguments: vec![b'x'; 200],
            auxv: Vec::new(),
        };
        let bytes = process(&facts);
        assert_eq!(bytes.len(), 136);
        assert_eq!(bytes[0..2], [3, b'T']);
        assert_eq!(bytes[16..18], [0x0b, 0x0a]);
        assert_eq!(bytes[24], 7);
        assert_eq!(&bytes[40..56], b"a name that is \0");
        assert_eq!((bytes[134], bytes[135]), (b'x', 0));
    }
}
