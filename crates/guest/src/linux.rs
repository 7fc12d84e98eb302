//! A Linux kernel as its memory shows it: where it was loaded, its code as it is
//! now, and the variables through which the rest is found.

mod forged;
mod modules;
mod offsets;
mod regions;
mod tasks;

pub use forged::explore_forged;
pub(crate) use modules::LoadedModule;
pub(crate) use tasks::per_cpu_base;

use crate::Source;
use offsets::Offsets;
use redhanded_image::Image;
use redhanded_model::Svma;
use redhanded_target::{TargetError, VMLINUX};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;
use thiserror::Error;

/// User memory is below.
pub(crate) const USER_END: u64 = 1 << 56;
/// KASLR moves a kernel by a multiple of this, within a gigabyte.
const SLIDE_STEP: u64 = 0x20_0000;
const SLIDES: u64 = 512;
/// How often every CPU is tried for the kernel, and how long they run in between.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How many bytes of the version string tell one kernel from another.
const BANNER_LEN: usize = 64;
/// How much code is read before the machine runs again; somebody may be using it.
const TEXT_PIECE: usize = 1 << 20;
/// How long it runs then.
const TEXT_PAUSE: Duration = Duration::from_millis(10);
/// How often a piece is tried.
const TEXT_TRIES: usize = 200;

const SYMBOLS: &[&str] = &[
    "linux_banner",
    "_stext",
    "_etext",
    "_text",
    "_end",
    "modules",
    "current_task",
    "__preempt_count",
    "pcpu_hot",
    "page_offset_base",
    "vmalloc_base",
    "vmemmap_base",
    "__per_cpu_start",
    "__per_cpu_end",
];

/// Why the memory of a machine is not that of the kernel in the file.
#[derive(Debug, Error)]
pub enum NotAKernel {
    /// The file lacks what every kernel has.
    #[error(
        "{0} has no symbol linux_banner: give the kernel's vmlinux with --vmlinux, or its vmlinuz \
         with --kernel"
    )]
    NoSymbols(String),
    /// The file has no description of its types.
    #[error("{0} has no type information (.BTF section), without which tasks cannot be told apart")]
    NoTypes(String),
    /// It is not in memory.
    #[error(
        "the machine does not run the kernel {0}: its version string is nowhere in memory. Give the \
         file of the very kernel that runs, and wait until it has booted"
    )]
    Other(String),
    /// Its code is not there.
    #[error(
        "the kernel's code at {0:#x} cannot be read from the machine: give the file of the very \
         kernel that runs"
    )]
    Unreadable(u64),
}

impl From<NotAKernel> for TargetError {
    fn from(why: NotAKernel) -> Self {
        Self::Unsupported(why.to_string())
    }
}

/// The per-CPU variables of a file.
#[derive(Clone)]
pub(crate) struct PerCpu {
    pub module: String,
    /// Their range in the data of a CPU.
    pub within: Range<u64>,
    /// Their address in the file.
    pub svma: Svma,
}

/// What is known of the kernel in a guest.
#[derive(Clone)]
pub(crate) struct Kernel {
    /// How far KASLR moved it: live addresses are those of the file plus this.
    pub slide: u64,
    symbols: HashMap<String, u64>,
    offsets: Offsets,
    /// The starts of the direct map, of the vmalloc area and of the page structures.
    areas: Option<[u64; 3]>,
    /// The per-CPU variables of the kernel and of its modules.
    pub per_cpu: Vec<PerCpu>,
}

impl Kernel {
    /// Finds the kernel of `image` in a guest.
    pub fn find(source: &mut dyn Source, image: &Image) -> Result<Self, TargetError> {
        let name = || image.path().display().to_string();
        let symbols: HashMap<String, u64> = image
            .symbols_named(SYMBOLS)
            .into_iter()
            .map(|(name, svma)| (name, svma.0))
            .collect();
        let btf = image.types().ok_or_else(|| NotAKernel::NoTypes(name()))?;
        let banner = symbols.get("linux_banner").copied();
        let banner = banner.and_then(|at| Some((at, image.bytes_at(Svma(at), BANNER_LEN)?)));
        let (banner, expected) = banner.ok_or_else(|| NotAKernel::NoSymbols(name()))?;
        let slide =
            find_slide(source, banner, expected)?.ok_or_else(|| NotAKernel::Other(name()))?;
        // Up to 6.14 the file has per-CPU variables at their offset in the data of a
        // CPU; in later ones they are moved with the kernel, like all others.
        let start = symbols.get("__per_cpu_start").copied().unwrap_or(0);
        let end = symbols.get("__per_cpu_end").copied().unwrap_or(start);
        let moved = if start == 0 { 0 } else { slide };
        let within = |svma: u64| svma.wrapping_add(moved);
        let mut kernel = Self {
            slide,
            offsets: Offsets::new(&btf, &symbols, within),
            areas: None,
            per_cpu: vec![PerCpu {
                module: VMLINUX.to_owned(),
                within: within(start)..within(end),
                svma: Svma(start),
            }],
            symbols,
        };
        kernel.areas = kernel.read_areas(source);
        Ok(kernel)
    }

    /// The live address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        Some(self.symbols.get(name)?.wrapping_add(self.slide))
    }

    fn read_areas(&self, source: &mut dyn Source) -> Option<[u64; 3]> {
        let names = ["page_offset_base", "vmalloc_base", "vmemmap_base"];
        let at = names.map(|name| self.symbol(name));
        let at: Option<Vec<u64>> = at.into_iter().collect();
        let ranges: Vec<(u64, usize)> = at?.into_iter().map(|at| (at, 8)).collect();
        let words = source.read_many(None, &ranges).ok()?.into_iter();
        let words: Option<Vec<u64>> = words
            .map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
            .collect();
        words?.try_into().ok()
    }

    /// The kernel's code as it is in memory, after it has patched itself.
    pub fn read_text(&self, source: &mut dyn Source) -> Result<Vec<(Svma, Vec<u8>)>, TargetError> {
        let (Some(from), Some(to)) = (self.symbol("_stext"), self.symbol("_etext")) else {
            return Ok(Vec::new());
        };
        let cpus = source.cpus();
        let mut text = Vec::new();
        let mut failed = 0;
        while from + (text.len() as u64) < to {
            let at = from + text.len() as u64;
            let len = TEXT_PIECE.min((to - at) as usize);
            // A CPU in user mode may not have the kernel mapped.
            let cpu = cpus.get(failed % cpus.len().max(1)).copied();
            let piece = source.read_many(cpu, &[(at, len)])?.pop();
            let piece = piece.filter(|piece| piece.len() == len);
            failed = if piece.is_some() { 0 } else { failed + 1 };
            text.extend(piece.unwrap_or_default());
            let runs = source.run_for(TEXT_PAUSE)?;
            if failed > if runs { TEXT_TRIES } else { cpus.len() } {
                return Err(NotAKernel::Unreadable(at).into());
            }
        }
        Ok(vec![(Svma(from.wrapping_sub(self.slide)), text)])
    }
}

/// How far the kernel was moved, by where its version string is. A CPU in user mode
/// may not have the kernel mapped, so all of them are tried for a while.
fn find_slide(
    source: &mut dyn Source,
    banner: u64,
    expected: &[u8],
) -> Result<Option<u64>, TargetError> {
    let candidates = (0..SLIDES).map(|step| banner.wrapping_add(step * SLIDE_STEP));
    let ranges: Vec<(u64, usize)> = candidates.map(|at| (at, expected.len())).collect();
    for _ in 0..TRIES {
        for cpu in source.cpus() {
            let read = source.read_many(Some(cpu), &ranges)?;
            if let Some(step) = read.iter().position(|bytes| bytes == expected) {
                return Ok(Some(step as u64 * SLIDE_STEP));
            }
        }
        if !source.run_for(BETWEEN_TRIES)? {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
