//! Ptrace: stops, registers and signals of a traced thread.

use super::{Tid, check};
use redhanded_model::{Registers, SavedVectors};
use std::ffi::{c_int, c_void};
use std::io;

fn ptrace(request: u32, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests made through this function take numbers, or pointers
    // to live buffers of the right size that the callers below own.
    check(unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) })
        .map(drop)
}

/// Starts tracing without stopping, with these `PTRACE_O_…` options.
pub fn seize(tid: Tid, options: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Resumes a stopped thread, and delivers `signal` if it is not zero.
pub fn resume(tid: Tid, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Leaves a thread in its group stop, so that its end is reported.
pub fn listen(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Asks a running thread to stop.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Stops tracing a stopped thread, and delivers `signal` if it is not zero.
pub fn detach(tid: Tid, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// The number that comes with a ptrace event, such as a new thread's tid.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let at = (&raw mut message) as usize;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, at)?;
    Ok(message)
}

/// The registers of a stopped thread.
pub fn registers(tid: Tid) -> io::Result<Registers> {
    Ok(from_user_regs(&user_regs(tid)?))
}

fn user_regs(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: the struct is plain numbers, for which zero is a value.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let at = (&raw mut regs) as usize;
    ptrace(libc::PTRACE_GETREGS, tid, 0, at)?;
    Ok(regs)
}

fn from_user_regs(r: &libc::user_regs_struct) -> Registers {
    Registers {
        gpr: [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ],
        rip: r.rip,
        rflags: r.eflags,
        fs_base: r.fs_base,
        gs_base: r.gs_base,
        system_call: r.orig_rax.cast_signed(),
    }
}

/// Sets the pc of a stopped thread and nothing else.
pub fn move_to(tid: Tid, rip: u64) -> io::Result<()> {
    set_register(tid, std::mem::offset_of!(libc::user_regs_struct, rip), rip)
}

/// Performs a `ret` for a stopped thread.
pub fn return_to(tid: Tid, rip: u64, rsp: u64) -> io::Result<()> {
    set_register(tid, std::mem::offset_of!(libc::user_regs_struct, rsp), rsp)?;
    move_to(tid, rip)?;
    pop_shadow_stack(tid)
}

/// Takes a return address off a stopped thread's shadow stack, if it has one.
pub fn pop_shadow_stack(tid: Tid) -> io::Result<()> {
    const NT_X86_SHSTK: usize = 0x204;
    let mut top = 0u64;
    let mut vector = libc::iovec {
        iov_base: (&raw mut top).cast(),
        iov_len: size_of::<u64>(),
    };
    let at = (&raw mut vector) as usize;
    if ptrace(libc::PTRACE_GETREGSET, tid, NT_X86_SHSTK, at).is_err() {
        return Ok(());
    }
    top += size_of::<u64>() as u64;
    let mut vector = libc::iovec {
        iov_base: (&raw mut top).cast(),
        iov_len: size_of::<u64>(),
    };
    let at = (&raw mut vector) as usize;
    ptrace(libc::PTRACE_SETREGSET, tid, NT_X86_SHSTK, at)
}

/// Sets the general-purpose registers, the pc and the flags of a stopped thread, all at once.
pub fn set_registers(tid: Tid, to: &Registers) -> io::Result<()> {
    let mut regs = user_regs(tid)?;
    [
        regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi, regs.r8,
        regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
    ] = to.gpr;
    regs.rip = to.rip;
    regs.eflags = to.rflags;
    set_raw_registers(tid, &regs)
}

fn set_register(tid: Tid, offset: usize, value: u64) -> io::Result<()> {
    ptrace(libc::PTRACE_POKEUSER, tid, offset, value as usize)
}

/// Why a thread is in a signal stop.
#[derive(Clone, Copy, Debug)]
pub struct SignalInfo {
    /// `si_code`.
    pub code: c_int,
    /// The address a perf event carries.
    pub address: u64,
    /// The `sig_data` a perf event carries.
    pub data: u64,
    /// Whether the thread blocked SIGTRAP when a perf event fired, so that the signal
    /// was pending for a while.
    pub late: bool,
}

/// The siginfo of a signal stop.
pub fn signal_info(tid: Tid) -> io::Result<SignalInfo> {
    // The layout of the kernel's siginfo for SIGTRAP: three ints and a padding
    // word, then si_addr, then (for perf) data, type and flags.
    let mut raw = [0u64; 16];
    let at = raw.as_mut_ptr() as usize;
    ptrace(libc::PTRACE_GETSIGINFO, tid, 0, at)?;
    Ok(SignalInfo {
        code: (raw[1] & 0xffff_ffff) as u32 as c_int,
        address: raw[2],
        data: raw[3],
        late: raw[4] >> 32 & 1 != 0,
    })
}

/// Resumes a stopped thread until it enters or leaves a system call.
pub fn resume_to_system_call(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_SYSCALL, tid, 0, 0)
}

/// All general registers of a stopped thread, in the kernel's layout.
pub fn raw_registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    user_regs(tid)
}

/// Sets all of them.
pub fn set_raw_registers(tid: Tid, regs: &libc::user_regs_struct) -> io::Result<()> {
    let at = std::ptr::from_ref(regs) as usize;
    ptrace(libc::PTRACE_SETREGS, tid, 0, at)
}

/// The signals a stopped thread blocks.
pub fn signal_mask(tid: Tid) -> io::Result<u64> {
    let mut mask = 0u64;
    let at = (&raw mut mask) as usize;
    ptrace(PTRACE_GETSIGMASK, tid, size_of::<u64>(), at)?;
    Ok(mask)
}

/// Sets the signals a stopped thread blocks.
pub fn set_signal_mask(tid: Tid, mask: u64) -> io::Result<()> {
    let at = (&raw const mask) as usize;
    ptrace(PTRACE_SETSIGMASK, tid, size_of::<u64>(), at)
}

const PTRACE_GETSIGMASK: u32 = 0x420a;
const PTRACE_SETSIGMASK: u32 = 0x420b;

/// A debug register of a stopped thread.
pub fn debug_register(tid: Tid, number: usize) -> io::Result<u64> {
    let mut value = 0u64;
    // The raw system call stores the word; the C library's wrapper returns it.
    // SAFETY: the word is live.
    let done = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::PTRACE_PEEKUSER,
            tid,
            debug_register_offset(number),
            &raw mut value,
        )
    };
    check(done)?;
    Ok(value)
}

/// Sets a debug register of a stopped thread.
pub fn set_debug_register(tid: Tid, number: usize, value: u64) -> io::Result<()> {
    set_register(tid, debug_register_offset(number), value)
}

fn debug_register_offset(number: usize) -> usize {
    std::mem::offset_of!(libc::user, u_debugreg) + number * size_of::<u64>()
}

/// The set with the vector registers, in the standard form of `xsave`.
pub const XSTATE: c_int = 0x202;

/// Where this processor saves its vector registers in that set.
#[must_use]
pub fn saved_vectors() -> SavedVectors {
    // Leaf 0xd says of each part how long it is and where it is saved. A part of length 0
    // does not exist.
    let place = |part| {
        let told = std::arch::x86_64::__cpuid_count(0xd, part);
        (told.eax > 0).then_some(told.ebx as usize)
    };
    SavedVectors {
        ymm_high: place(2),
        masks: place(5),
        zmm_high: place(6),
        zmm_upper: place(7),
    }
}

/// A set of registers of a stopped thread (`NT_…`), as a core file holds it.
pub fn register_set(tid: Tid, which: c_int) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; 16 * 1024];
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let at = (&raw mut vector) as usize;
    ptrace(libc::PTRACE_GETREGSET, tid, which as usize, at)?;
    buffer.truncate(vector.iov_len);
    Ok(buffer)
}
