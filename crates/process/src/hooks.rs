//! Places in a program where the tracer must act.
//!
//! A hook is a breakpoint that stays. It is never stepped over. Its instruction is
//! carried out in another way: a `ret` by setting two registers, a system call by a
//! `syscall` instruction elsewhere.
//!
//! - The dynamic linker calls an empty function, `_dl_debug_state`, when it has mapped
//!   or is about to unmap something. Debuggers stop there as well.
//! - The C library changes signal masks and signal actions by two system calls.
//!   Breakpoints work through SIGTRAP, and what the program wants of SIGTRAP must be
//!   kept.
//! - With [`Settings::allocations`](super::Settings), functions that allocate are seen
//!   where they begin and return.
//! - A child that `clone` hides from tracers (CLONE_UNTRACED) has our breakpoints in
//!   its text nevertheless.

use super::allocators::{Call, Entries};
use memchr::memmem;
use redhanded_image::{Flow, Image, Instruction};
use redhanded_model::{Avma, ModuleId, Svma};
use redhanded_target::Module;
use std::collections::HashSet;
use std::sync::Arc;

/// What a hook is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Libraries were loaded or will be unloaded.
    Linker,
    /// A thread is about to change its signal mask.
    Mask,
    /// A thread is about to change a signal's action.
    Action,
    /// A thread is about to call `clone`, perhaps with CLONE_UNTRACED.
    Clone,
    /// A function that allocates or frees is called.
    Allocator(Call),
    /// A function that allocates may be about to return.
    AllocatorReturns,
}

/// The numbers of the system calls that are hooked.
const RT_SIGPROCMASK: u8 = 14;
const RT_SIGACTION: u8 = 13;
const CLONE: u8 = 56;
/// How many bytes after loading its number a system call may come.
const NEAR: usize = 48;
/// The longest function that only wraps a system call.
const WRAPPER: u64 = 256;

/// The hooks of one space.
#[derive(Default)]
pub struct Hooks {
    standing: Vec<(u64, Hook)>,
    looked_at: HashSet<ModuleId>,
    /// Found, but not set before a site is armed: a program without breakpoints should
    /// run at full speed.
    later: Vec<(Avma, u8, Hook)>,
    /// Functions of allocators that cannot be hooked.
    pub refused: Vec<String>,
}

impl Hooks {
    /// The hook at `address`.
    pub fn at(&self, address: u64) -> Option<Hook> {
        let found = self.standing.iter().find(|(at, _)| *at == address);
        found.map(|(_, hook)| *hook)
    }

    /// Whether a hook tells of changes to the modules.
    pub fn hear_of_modules(&self) -> bool {
        self.standing.iter().any(|(_, hook)| *hook == Hook::Linker)
    }

    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.standing.iter().map(|(at, _)| *at)
    }

    /// Adds a hook whose breakpoint is set.
    pub fn add(&mut self, address: u64, hook: Hook) {
        self.standing.push((address, hook));
    }

    /// Looks for hooks in new modules, for those of `allocations` too if they are wanted, and
    /// forgets those of modules that are gone.
    pub fn look(&mut self, modules: &[Arc<Module>], allocations: bool) {
        self.standing
            .retain(|(at, _)| modules.iter().any(|m| m.contains(Avma(*at))));
        let here: HashSet<ModuleId> = modules.iter().map(|module| module.id).collect();
        self.looked_at.retain(|id| here.contains(id));
        self.later
            .retain(|(at, ..)| modules.iter().any(|m| m.contains(*at)));
        let program = modules.first().and_then(|module| module.image.clone());
        for module in modules {
            let Some(image) = &module.image else { continue };
            if !self.looked_at.insert(module.id) {
                continue;
            }
            let is_program = program.as_ref().is_some_and(|p| Arc::ptr_eq(p, image));
            let mut found = find(image, is_program, program.as_deref());
            if allocations {
                self.refused.extend(find_allocators(image, &mut found));
            }
            for (svma, hook) in found {
                if let Some([byte]) = image.bytes_at(svma, 1) {
                    self.later.push((module.avma(svma), *byte, hook));
                }
            }
        }
    }

    /// Takes the hooks that are to be set now, with the bytes that they replace: all of
    /// them, or only the linker's.
    pub fn wanted(&mut self, everything: bool) -> Vec<(Avma, u8, Hook)> {
        let now = |(_, _, hook): &mut (Avma, u8, Hook)| everything || *hook == Hook::Linker;
        self.later.extract_if(.., now).collect()
    }
}

fn find(image: &Image, is_program: bool, program: Option<&Image>) -> Vec<(Svma, Hook)> {
    let mut found = Vec::new();
    if !is_program && is_interpreter(image, program) {
        found.extend(linker_call(image).map(|at| (at, Hook::Linker)));
    }
    let is_static = is_program && image.interpreter().is_none();
    let mask = image.dynamic_symbol("pthread_sigmask");
    if is_static || mask.is_some() {
        let calls = system_calls(image, RT_SIGPROCMASK);
        // The library also blocks and unblocks signals for its own purposes. Only what
        // its callers ask for matters.
        let lasts = |at: &Svma| mask.is_none_or(|mask| (mask.0..mask.0 + WRAPPER).contains(&at.0));
        found.extend(calls.into_iter().filter(lasts).map(|at| (at, Hook::Mask)));
        let calls = system_calls(image, RT_SIGACTION);
        found.extend(calls.into_iter().map(|at| (at, Hook::Action)));
        if let Some(clone) = image.dynamic_symbol("clone") {
            let calls = system_calls(image, CLONE);
            let called = |at: &Svma| (clone.0..clone.0 + WRAPPER).contains(&at.0);
            found.extend(calls.into_iter().filter(called).map(|at| (at, Hook::Clone)));
        }
    }
    found
}

/// Adds the functions of an image that allocate. Returns those that cannot be hooked.
fn find_allocators(image: &Image, found: &mut Vec<(Svma, Hook)>) -> Vec<String> {
    let entries = Entries::of(image);
    let calls = entries.calls.into_iter();
    found.extend(calls.map(|(at, call)| (at, Hook::Allocator(call))));
    let returns = entries.returns.into_iter();
    found.extend(returns.map(|at| (at, Hook::AllocatorReturns)));
    entries.refused
}

fn is_interpreter(image: &Image, program: Option<&Image>) -> bool {
    let same = |wanted: &std::path::Path| {
        Some(wanted.canonicalize().ok()? == image.path().canonicalize().ok()?)
    };
    program
        .and_then(Image::interpreter)
        .and_then(same)
        .unwrap_or(false)
}

/// The `ret` of the function that the dynamic linker calls.
fn linker_call(linker: &Image) -> Option<Svma> {
    let mut at = linker.dynamic_symbol("_dl_debug_state")?;
    // With control-flow protection, `endbr64` comes first.
    for _ in 0..2 {
        let instruction = Instruction::decode(linker.bytes_at(at, 15)?, at.0)?;
        if instruction.flow() == Flow::Return {
            return Some(at);
        }
        at = Svma(instruction.next());
    }
    None
}

/// The `syscall` instructions of a system call: those shortly after its number is
/// loaded by `mov eax, number`.
fn system_calls(image: &Image, number: u8) -> Vec<Svma> {
    let load = [0xb8, number, 0, 0, 0];
    let mut found = Vec::new();
    for segment in image.segments().iter().filter(|s| s.executable) {
        let Some(text) = image.bytes_at(segment.svma, segment.file_size as usize) else {
            continue;
        };
        for at in memmem::find_iter(text, &load) {
            let after = at + load.len();
            let near = &text[after..text.len().min(after + NEAR)];
            let Some(call) = memmem::find(near, &SYSCALL) else {
                continue;
            };
            let svma = segment.svma.offset((after + call) as u64);
            // Only at the start of an instruction, as its function is decoded.
            let end = svma.offset(SYSCALL.len() as u64);
            if image.instruction_before(end) == Some(svma) && !found.contains(&svma) {
                found.push(svma);
            }
        }
    }
    found
}

/// The instruction.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_c_library_tells_of_masks_and_actions() {
        let own = std::process::id().cast_signed();
        let maps = redhanded_sys::mappings(own);
        let libc = maps
            .iter()
            .filter_map(|map| map.file(own, Path::new("/")))
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libc.so")
            })
            .expect("the tests are linked dynamically");
        let image = Image::open(Path::new(&libc)).unwrap();
        let found = find(&image, false, None);
        let of = |hook| found.iter().filter(|(_, h)| *h == hook).count();
        assert_eq!(of(Hook::Mask), 1, "{found:?}");
        assert!(of(Hook::Action) >= 1, "{found:?}");
        assert_eq!(of(Hook::Clone), 1, "{found:?}");
        for (at, _) in found {
            assert_eq!(image.bytes_at(at, 2), Some(&SYSCALL[..]));
        }
    }
}
