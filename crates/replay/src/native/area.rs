//! The memory that stubs are in, the registers they work on, and the way in and out.
#![expect(
    unsafe_code,
    reason = "generated code is called, and its faults are caught"
)]

use crate::state::{State, Vectors, flag};
use std::arch::asm;
use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The guest's registers as stubs find them, and what a stub needs to return. Offsets into
/// it are part of the generated code.
#[repr(C, align(64))]
pub(crate) struct File {
    pub general: [u64; 16],
    /// The guest's flags.
    pub flags: u64,
    /// Flags that a stub loads, and those it leaves. Only arithmetic ones are loaded: the
    /// guest's trap, direction and alignment flags would reach into Rust's code.
    pub flags_in: u64,
    pub flags_out: u64,
    pub mxcsr: u32,
    pub host_mxcsr: u32,
    /// Where to go on, and with which stack, after a stub that used `rsp` or faulted.
    pub host_ip: u64,
    pub host_sp: u64,
    /// The signal that a stub raised.
    raised: u64,
    pub masks: [u64; 8],
    pub zmm: [[u8; 64]; 32],
    /// As FXSAVE has it; only the x87 part is used.
    pub x87: [u8; 512],
    /// Room for an operand that crosses a page, at its own alignment.
    pub scratch: [u8; 192],
}

/// A piece of code in the area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stub(u32);

/// Why a stub did not finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raised {
    Arithmetic,
    Protection,
    /// This processor does not know the instruction.
    Invalid,
}

const AREA: usize = 16 << 20;

/// The file that a stub is working on at this moment.
static ACTIVE: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

pub(crate) struct Native {
    area: *mut u8,
    used: usize,
    pub file: Box<File>,
}

impl Native {
    /// Maps the area and catches the signals that stubs may raise. To be called once, before
    /// the process is locked down: then nothing more can be made executable.
    pub fn install() -> io::Result<Self> {
        // SAFETY: a new mapping, which nothing else knows of.
        let area = unsafe {
            libc::mmap(
                ptr::null_mut(),
                AREA,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if area == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        catch_signals()?;
        // SAFETY: all fields are numbers, for which zero is a value.
        let file = unsafe { Box::<File>::new_zeroed().assume_init() };
        Ok(Self {
            area: area.cast(),
            used: 0,
            file,
        })
    }

    /// Copies code into the area. None if it is full: then [`Self::clear`] it and forget
    /// all stubs.
    pub(super) fn add(&mut self, code: &[u8]) -> Option<Stub> {
        let at = self.used.next_multiple_of(16);
        if at + code.len() > AREA {
            return None;
        }
        // SAFETY: within the mapping, which is writable, and `code` is elsewhere.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), self.area.add(at), code.len()) };
        self.used = at + code.len();
        Some(Stub(at as u32))
    }

    /// Makes room. All stubs are gone.
    pub const fn clear(&mut self) {
        self.used = 0;
    }

    /// Takes over a thread's registers.
    pub fn load(&mut self, state: &State) {
        let file = &mut *self.file;
        let vectors = &state.vectors;
        file.general = state.general;
        file.flags = state.flags;
        file.mxcsr = vectors.mxcsr & 0xffff;
        file.masks = vectors.masks;
        file.zmm.as_flattened_mut().copy_from_slice(&vectors.zmm.0);
        file.x87 = [0; 512];
        file.x87[0..2].copy_from_slice(&vectors.x87_control.to_le_bytes());
        file.x87[2..4].copy_from_slice(&vectors.x87_status.to_le_bytes());
        file.x87[4] = vectors.x87_tags;
        file.x87[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
        file.x87[32..160].copy_from_slice(&vectors.x87.0);
        for register in file.x87[32..160].chunks_exact_mut(16) {
            register[10..].fill(0);
        }
    }

    /// Gives the registers back.
    pub fn store(&self, state: &mut State) {
        let file = &*self.file;
        state.general = file.general;
        state.flags = file.flags;
        let vectors: &mut Vectors = &mut state.vectors;
        vectors.mxcsr = file.mxcsr;
        vectors.masks = file.masks;
        vectors.zmm.0.copy_from_slice(file.zmm.as_flattened());
        vectors.x87_control = u16::from_le_bytes([file.x87[0], file.x87[1]]);
        vectors.x87_status = u16::from_le_bytes([file.x87[2], file.x87[3]]);
        vectors.x87_tags = file.x87[4];
        vectors.x87.0.copy_from_slice(&file.x87[32..160]);
    }

    /// A place in the scratch area with the same alignment as `address`.
    pub fn scratch(&mut self, address: u64) -> &mut [u8] {
        let offset = (address % 64) as usize;
        &mut self.file.scratch[offset..offset + 64]
    }

    /// Runs a stub. `operand` points to its memory operand, as many bytes as it accesses.
    #[inline]
    pub fn run(&mut self, stub: Stub, operand: *mut u8) -> Result<(), Raised> {
        self.file.flags_in = self.file.flags & flag::STATUS;
        let file: *mut File = &raw mut *self.file;
        ACTIVE.store(file, Ordering::Relaxed);
        // SAFETY: the area holds only what `stub::build` made. It loads and stores registers
        // in the file and runs one instruction of the allow-list, whose memory operand is
        // `operand`. It may change every register, all of which are saved here or declared,
        // and returns to label 2 in every case: by `ret`, by jumping to `host_ip`, or
        // through the signal handler.
        unsafe {
            let code = self.area.add(stub.0 as usize);
            asm!(
                "push rbp",
                "push rbx",
                "lea rax, [rip + 2f]",
                "mov [rdi + {ip}], rax",
                "mov [rdi + {sp}], rsp",
                "call rdx",
                "2:",
                "pop rbx",
                "pop rbp",
                ip = const std::mem::offset_of!(File, host_ip),
                sp = const std::mem::offset_of!(File, host_sp),
                inout("rdi") file => _,
                inout("rsi") operand => _,
                inout("rdx") code => _,
                out("r12") _,
                out("r13") _,
                out("r14") _,
                out("r15") _,
                clobber_abi("sysv64"),
            );
        }
        ACTIVE.store(ptr::null_mut(), Ordering::Relaxed);
        if self.file.raised == 0 {
            return Ok(());
        }
        Err(self.recover())
    }

    #[cold]
    fn recover(&mut self) -> Raised {
        let usual: u32 = 0x1f80;
        // SAFETY: gives floating point the state that Rust expects.
        unsafe {
            asm!("fninit", "ldmxcsr [{}]", in(reg) &raw const usual, options(nostack));
        }
        match std::mem::take(&mut self.file.raised) as c_int {
            libc::SIGFPE => Raised::Arithmetic,
            libc::SIGILL => Raised::Invalid,
            _ => Raised::Protection,
        }
    }
}

/// Signals that an instruction can raise.
const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

fn catch_signals() -> io::Result<()> {
    const STACK: usize = 64 << 10;
    let stack = Box::leak(vec![0_u8; STACK].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: STACK,
    };
    // SAFETY: the stack is never freed, and the handler has the type that SA_SIGINFO asks for.
    unsafe {
        if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in SIGNALS {
            if libc::sigaction(signal, &raw const action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Leaves the stub that raised the signal. Outside of stubs the process ends: its parent
/// sees that.
extern "C" fn handler(signal: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let file = ACTIVE.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the kernel passes a context of this type. A file that is active is borrowed by
    // `run`, which is what was interrupted.
    unsafe {
        if file.is_null() {
            libc::_exit(1);
        }
        let context = &mut *context.cast::<libc::ucontext_t>();
        let registers = &mut context.uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = (*file).host_ip.cast_signed();
        registers[libc::REG_RSP as usize] = (*file).host_sp.cast_signed();
        registers[libc::REG_EFL as usize] = 0x202;
        (*file).raised = signal as u64;
    }
}
