//! One step from a frame to its caller's: computes the caller's registers from the rules of
//! an unwind table, a signal frame or a frame pointer.

use super::table::Slice;
use gimli::{
    BaseAddresses, CfaRule, Encoding, EvaluationResult, Expression, FrameDescriptionEntry,
    Location, Piece, RegisterRule, UnwindContext, UnwindSection, Value, X86_64,
};
use redhanded_model::{Register, Registers};

/// Longer expressions compute nothing useful.
const MAX_OPERATIONS: u32 = 1000;

/// `mov $15, %rax; syscall`, which a signal handler returns to. The kernel and all C
/// libraries use exactly these bytes, because debuggers look for them.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];

/// Where the interrupted registers are in the kernel's signal frame, to which the stack
/// pointer points once the handler has returned.
const SIGNAL_FRAME: [(Reg, u64); 17] = [
    (X86_64::R8, 40),
    (X86_64::R9, 48),
    (X86_64::R10, 56),
    (X86_64::R11, 64),
    (X86_64::R12, 72),
    (X86_64::R13, 80),
    (X86_64::R14, 88),
    (X86_64::R15, 96),
    (X86_64::RDI, 104),
    (X86_64::RSI, 112),
    (X86_64::RBP, 120),
    (X86_64::RBX, 128),
    (X86_64::RDX, 136),
    (X86_64::RAX, 144),
    (X86_64::RCX, 152),
    (X86_64::RSP, 160),
    (X86_64::RA, 168),
];

pub(super) type Reg = gimli::Register;

/// Where a step led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// To the caller; the pc is a return address.
    Called,
    /// To the caller, on another stack; the pc is a return address.
    Switched,
    /// To the code that a signal or interrupt interrupted; the pc is its next instruction.
    Interrupted,
    /// There is no caller.
    Outermost,
}

/// The known registers of a frame, and access to memory. Register 16 is the pc.
pub(super) struct FrameRegisters<'m> {
    registers: [Option<u64>; 17],
    read: &'m mut dyn FnMut(u64) -> Option<u64>,
}

impl<'m> FrameRegisters<'m> {
    pub(super) fn new(registers: &Registers, read: &'m mut dyn FnMut(u64) -> Option<u64>) -> Self {
        let mut known = [None; 17];
        for (slot, register) in known.iter_mut().zip(Register::BY_DWARF) {
            *slot = Some(registers.get(register));
        }
        let mut frame = Self {
            registers: known,
            read,
        };
        frame.set(X86_64::RA, Some(registers.rip));
        frame
    }

    pub(super) fn get(&self, register: Reg) -> Option<u64> {
        *self.registers.get(usize::from(register.0))?
    }

    pub(super) fn set(&mut self, register: Reg, value: Option<u64>) {
        if let Some(slot) = self.registers.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }

    /// Forgets the callee's registers.
    pub(super) fn forget(&mut self) {
        self.registers = [None; 17];
    }

    /// The word at `address`.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        (self.read)(address)
    }

    pub(super) fn pc(&self) -> u64 {
        self.get(X86_64::RA).unwrap_or(0)
    }

    pub(super) fn sp(&self) -> u64 {
        self.get(X86_64::RSP).unwrap_or(0)
    }

    /// Steps by the entry's rules at `svma`.
    pub(super) fn step<'d, S: UnwindSection<Slice<'d>>>(
        &mut self,
        section: &S,
        entry: &FrameDescriptionEntry<Slice<'d>>,
        bases: &BaseAddresses,
        svma: u64,
        context: &mut UnwindContext<usize>,
    ) -> Option<Step> {
        let row = entry
            .unwind_info_for_address(section, bases, context, svma)
            .ok()?;
        let encoding = entry.cie().encoding();
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.get(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => {
                self.evaluate(expression.get(section).ok()?, encoding, None)?
            }
        };
        let mut caller = [None; 17];
        for (number, slot) in (0u16..).zip(&mut caller) {
            let register = gimli::Register(number);
            *slot = match row.register(register) {
                None if is_preserved(register) => self.get(register),
                Some(RegisterRule::SameValue) => self.get(register),
                Some(RegisterRule::Offset(offset)) => {
                    (self.read)(frame.wrapping_add_signed(offset))
                }
                Some(RegisterRule::ValOffset(offset)) => Some(frame.wrapping_add_signed(offset)),
                Some(RegisterRule::Register(other)) => self.get(other),
                Some(RegisterRule::Expression(expression)) => {
                    let expression = expression.get(section).ok()?;
                    self.evaluate(expression, encoding, Some(frame))
                        .and_then(|at| (self.read)(at))
                }
                Some(RegisterRule::ValExpression(expression)) => {
                    let expression = expression.get(section).ok()?;
                    self.evaluate(expression, encoding, Some(frame))
                }
                _ => None,
            };
        }
        let ends = matches!(
            row.register(X86_64::RA),
            None | Some(RegisterRule::Undefined)
        );
        // The CFA is the caller's stack pointer, unless a signal frame has another rule.
        let stack = row.register(X86_64::RSP).is_none().then_some(frame);
        self.registers = caller;
        if let Some(stack) = stack {
            self.set(X86_64::RSP, Some(stack));
        }
        if ends || self.get(X86_64::RA).is_none_or(|pc| pc == 0) {
            return Some(Step::Outermost);
        }
        Some(if entry.is_signal_trampoline() {
            Step::Interrupted
        } else {
            Step::Called
        })
    }

    fn evaluate(
        &mut self,
        expression: Expression<Slice<'_>>,
        encoding: Encoding,
        initial: Option<u64>,
    ) -> Option<u64> {
        let mut evaluation = expression.evaluation(encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = (self.read)(address)?;
                    let value = match size {
                        8.. => word,
                        size => word & ((1u64 << (u32::from(size) * 8)) - 1),
                    };
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.get(register)?;
                    evaluation
                        .resume_with_register(Value::Generic(value))
                        .ok()?
                }
                _ => return None,
            };
        }
        match evaluation.result().as_slice() {
            [
                Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => Some(*address),
            _ => None,
        }
    }

    /// Steps out of a signal handler if the pc is at its return trampoline.
    pub(super) fn step_signal(&mut self) -> Option<Step> {
        let pc = self.pc();
        let word = |bytes: &[u8]| {
            let shifted = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
            bytes.iter().rev().fold(0u64, shifted)
        };
        let returns = (self.read)(pc)? == word(&SIGNAL_RETURN[..8])
            && (self.read)(pc.wrapping_add(1))? == word(&SIGNAL_RETURN[1..]);
        if !returns {
            return None;
        }
        let frame = self.sp();
        for (register, offset) in SIGNAL_FRAME {
            let value = (self.read)(frame.wrapping_add(offset));
            self.set(register, value);
        }
        Some(Step::Interrupted)
    }

    /// Guesses a step where no table covers the code. Either the function has not used the
    /// stack yet, which is possible only if it was stopped and did not make a call, or it
    /// has a frame pointer. `plausible` tells whether a value may be a return address.
    pub(super) fn step_guessing(
        &mut self,
        stopped: bool,
        plausible: impl Fn(u64) -> bool,
    ) -> Option<Step> {
        let stack = self.sp();
        if stopped && let Some(caller) = (self.read)(stack).filter(|pc| plausible(*pc)) {
            self.set(X86_64::RSP, Some(stack.wrapping_add(8)));
            self.set(X86_64::RA, Some(caller));
            return Some(Step::Called);
        }
        let base = self.get(X86_64::RBP).filter(|base| *base >= stack)?;
        let caller = (self.read)(base.wrapping_add(8)).filter(|pc| plausible(*pc))?;
        let above = (self.read)(base)?;
        self.forget();
        self.set(X86_64::RBP, Some(above));
        self.set(X86_64::RSP, Some(base.wrapping_add(16)));
        self.set(X86_64::RA, Some(caller));
        Some(Step::Called)
    }
}

/// Whether this register is callee-saved.
const fn is_preserved(register: Reg) -> bool {
    matches!(
        register,
        X86_64::RBX | X86_64::RBP | X86_64::R12 | X86_64::R13 | X86_64::R14 | X86_64::R15
    )
}
