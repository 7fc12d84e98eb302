//! Unwinds stacks from registers, stack memory and the files' unwind tables.
//!
//! Modules are images with a load bias, and memory is a closure: the unwinder does no I/O on
//! the target. It works at every instruction that a table covers (including prologues,
//! epilogues and PLT stubs), through signal handlers, and without frame pointers. It tracks
//! all registers, because dynamic linkers and functions with aligned stacks keep their frame
//! in registers other than rsp and rbp. Kernels and their modules have their own kind of
//! table (`orc.rs`), which also leads through interrupts to the interrupted stack. Code
//! without a table is unwound by frame pointers.

mod orc;
mod step;
mod table;

pub(crate) use orc::Orc;
pub(crate) use orc::sort as sort_orc;

use crate::Image;
use gimli::UnwindContext;
use redhanded_model::Registers;
use std::ops::Range;
use step::{FrameRegisters, Step};
use table::Tables;

/// Deeper stacks are cut.
const MAX_FRAMES: usize = 128;

/// Unwinds the stacks of one address space.
#[derive(Default)]
pub struct Unwinder {
    /// Sorted by start address.
    modules: Vec<Module>,
    context: UnwindContext<usize>,
}

struct Module {
    range: Range<u64>,
    bias: u64,
    /// Live ranges of code.
    code: Vec<Range<u64>>,
    tables: Tables,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder")
            .field("modules", &self.modules.len())
            .finish_non_exhaustive()
    }
}

impl Unwinder {
    /// An unwinder without modules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module: `image`, loaded with `bias`, which is added to its addresses
    /// (wrapping). Reads only headers.
    pub fn add_module(&mut self, image: &Image, bias: u64) {
        let Some(range) = live(extent(image), bias) else {
            return;
        };
        // A file that is mapped again at the same address replaces itself.
        self.modules
            .retain(|module| module.range.start != range.start);
        let code = image
            .segments()
            .iter()
            .filter(|segment| segment.executable)
            .filter_map(|s| live(Some(s.svma.0..s.svma.0.saturating_add(s.mem_size)), bias))
            .collect();
        let at = self
            .modules
            .partition_point(|module| module.range.start < range.start);
        self.modules.insert(
            at,
            Module {
                range,
                bias,
                code,
                tables: Tables::of(image),
            },
        );
    }

    /// Removes a module that was added by [`add_module`](Self::add_module).
    pub fn remove_module(&mut self, image: &Image, bias: u64) {
        if let Some(range) = live(extent(image), bias) {
            self.modules
                .retain(|module| module.range.start != range.start);
        }
    }

    /// The stack of a task with these registers: first its pc, then return
    /// addresses, innermost first.
    ///
    /// To find the code of a return address, look up the address minus one. This is true for
    /// every element but the first, even for a function that was interrupted by a signal:
    /// its pc is returned plus one. `read` returns the eight bytes at an address of code or
    /// data, if they can be read.
    pub fn unwind(
        &mut self,
        registers: &Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut frames = vec![registers.rip];
        self.walk(registers, read, &mut |caller| {
            frames.push(caller.pc);
            frames.len() < MAX_FRAMES
        });
        frames
    }

    /// An instruction of the function whose frame on the stack of a task with these registers
    /// has `address`. `None` unless tables lead there.
    pub fn frame_at(
        &mut self,
        registers: &Registers,
        address: u64,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut found = None;
        let mut deeper = 0;
        self.walk(registers, read, &mut |caller| {
            if caller.by_table && caller.frame.contains(&address) {
                found = Some(caller.of);
            }
            deeper += 1;
            caller.by_table && found.is_none() && deeper < MAX_FRAMES
        });
        found
    }

    /// Goes from caller to caller for as long as `visit` wants to.
    fn walk(
        &mut self,
        registers: &Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
        visit: &mut dyn FnMut(&Caller) -> bool,
    ) {
        let mut frame = FrameRegisters::new(registers, read);
        // A return address stands for the instruction before it.
        let mut back = 0;
        loop {
            let stack = frame.sp();
            let of = frame.pc().wrapping_sub(back);
            let Some((step, by_table)) = step(&self.modules, &mut self.context, &mut frame, back)
            else {
                break;
            };
            let mut caller = Caller {
                pc: frame.pc(),
                of,
                frame: 0..0,
                by_table,
            };
            match step {
                // A call pushes, so the caller's stack pointer is higher. Anything else
                // is a cycle or garbage.
                Step::Called if frame.sp() > stack => {
                    back = 1;
                    caller.frame = stack..frame.sp();
                }
                // A signal handler or an interrupt may run on its own stack, above or
                // below. A cycle is ended by the limit.
                Step::Switched => back = 1,
                Step::Interrupted => {
                    back = 0;
                    caller.pc = caller.pc.wrapping_add(1);
                }
                Step::Called | Step::Outermost => break,
            }
            if !visit(&caller) {
                break;
            }
        }
    }
}

/// A caller, and what the step to it tells of who was called.
struct Caller {
    /// As in a stack.
    pc: u64,
    /// An instruction of who was called.
    of: u64,
    /// What that one has of the stack, if both are on the same.
    frame: Range<u64>,
    /// Whether a table led here, and no guess.
    by_table: bool,
}

/// A step, and whether a table led there.
fn step(
    modules: &[Module],
    context: &mut UnwindContext<usize>,
    frame: &mut FrameRegisters<'_>,
    back: u64,
) -> Option<(Step, bool)> {
    let at = frame.pc().wrapping_sub(back);
    let module = module_at(modules, at);
    // There are no signal frames in a kernel. Looking for one would read memory, which is
    // slow if it is another machine's.
    if !module.is_some_and(|module| module.tables.is_kernel())
        && let Some(step) = frame.step_signal()
    {
        return Some((step, true));
    }
    if let Some(module) = module
        && let Some(step) = module
            .tables
            .step(at.wrapping_sub(module.bias), frame, context)
    {
        return Some((step, true));
    }
    // A function that made a call has used the stack. An interrupted one may not have.
    let guessed = frame.step_guessing(back == 0, |pc| {
        module_at(modules, pc)
            .is_some_and(|module| module.code.iter().any(|code| code.contains(&pc)))
    });
    Some((guessed?, false))
}

fn module_at(modules: &[Module], at: u64) -> Option<&Module> {
    let after = modules.partition_point(|module| module.range.start <= at);
    modules
        .get(after.checked_sub(1)?)
        .filter(|module| module.range.contains(&at))
}

/// The range from the lowest to the highest address in the file.
fn extent(image: &Image) -> Option<Range<u64>> {
    let segments = || image.segments().iter().filter(|s| s.mem_size > 0);
    let start = segments().map(|s| s.svma.0).min()?;
    let end = segments()
        .map(|s| s.svma.0.saturating_add(s.mem_size))
        .max()?;
    (start < end).then_some(start..end)
}

fn live(stated: Option<Range<u64>>, bias: u64) -> Option<Range<u64>> {
    let stated = stated?;
    let start = stated.start.wrapping_add(bias);
    Some(start..start.checked_add(stated.end - stated.start)?)
}
