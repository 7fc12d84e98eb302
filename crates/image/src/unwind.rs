//! Whole stacks from registers, stack memory and the files' unwind tables.
//!
//! Takes modules as images with the bias they are loaded at, and memory as a
//! closure; does no I/O on the target. Works at any instruction the tables
//! cover (they describe prologues, epilogues and linkage stubs too), through
//! signal handlers, without frame pointers. All registers are followed, because
//! dynamic linkers and functions with aligned stacks find their frame by others
//! than rsp and rbp. Kernels and their modules have a table of their own kind
//! (`orc.rs`), which leads through interrupts and from their stacks to the
//! interrupted ones. Where there is no table it follows frame pointers.

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

/// No stack is told deeper than this.
const MAX_FRAMES: usize = 128;

/// Unwinds the stacks of one address space.
#[derive(Default)]
pub struct Unwinder {
    /// Sorted by where they start.
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
    /// One that knows no modules yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes known that `image` is loaded so that live addresses are stated
    /// addresses plus `bias` (wrapping). Reads headers only.
    pub fn add_module(&mut self, image: &Image, bias: u64) {
        let Some(range) = live(extent(image), bias) else {
            return;
        };
        // A file mapped again where it was replaces itself.
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

    /// Forgets the module which [`add_module`](Self::add_module) made known.
    pub fn remove_module(&mut self, image: &Image, bias: u64) {
        if let Some(range) = live(extent(image), bias) {
            self.modules
                .retain(|module| module.range.start != range.start);
        }
    }

    /// The stack of a task with these registers: first its pc, then return
    /// addresses, innermost first.
    ///
    /// What a return address belongs to is found by looking up the address
    /// minus one. That holds for every element but the first, also for a
    /// function that was interrupted by a signal: its pc is given plus one.
    /// `read` gives the eight bytes at an address, code too, or nothing.
    pub fn unwind(
        &mut self,
        registers: &Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut frame = FrameRegisters::new(registers, read);
        let mut frames = vec![registers.rip];
        // Of a return address the instruction before it counts.
        let mut back = 0;
        while frames.len() < MAX_FRAMES {
            let stack = frame.sp();
            let Some(step) = step(&self.modules, &mut self.context, &mut frame, back) else {
                break;
            };
            match step {
                // A call pushes, so its caller's stack ended higher: anything
                // else is a cycle or garbage.
                Step::Called if frame.sp() > stack => {
                    back = 1;
                    frames.push(frame.pc());
                }
                // A signal's handler, or what a kernel does for an interrupt, may
                // run on a stack of its own, above or below. What leads in a
                // circle is cut by the limit.
                Step::Switched => {
                    back = 1;
                    frames.push(frame.pc());
                }
                Step::Interrupted => {
                    back = 0;
                    frames.push(frame.pc().wrapping_add(1));
                }
                Step::Called | Step::Outermost => break,
            }
        }
        frames
    }
}

fn step(
    modules: &[Module],
    context: &mut UnwindContext<usize>,
    frame: &mut FrameRegisters<'_>,
    back: u64,
) -> Option<Step> {
    let at = frame.pc().wrapping_sub(back);
    let module = module_at(modules, at);
    // A kernel returns to no signal handler; looking for one would read memory,
    // which takes long where it is another machine's.
    if !module.is_some_and(|module| module.tables.is_kernel())
        && let Some(step) = frame.step_signal()
    {
        return Some(step);
    }
    if let Some(module) = module
        && let Some(step) = module
            .tables
            .step(at.wrapping_sub(module.bias), frame, context)
    {
        return Some(step);
    }
    // A function that called has touched the stack; an interrupted one may not
    // have.
    frame.step_guessing(back == 0, |pc| {
        module_at(modules, pc)
            .is_some_and(|module| module.code.iter().any(|code| code.contains(&pc)))
    })
}

fn module_at(modules: &[Module], at: u64) -> Option<&Module> {
    let after = modules.partition_point(|module| module.range.start <= at);
    modules
        .get(after.checked_sub(1)?)
        .filter(|module| module.range.contains(&at))
}

/// From the lowest to the highest stated address.
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
