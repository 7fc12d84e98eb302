//! One address space: its memory, text, modules, breakpoints and watches. Usually it
//! belongs to one process; a vforked child shares its parent's.

use super::guard;
use super::hooks::Hooks;
use super::maps;
use super::text::Breakpoints;
use super::trap::TrapState;
use super::watches::{PerfWatches, Watches};
use redhanded_image::{Image, Unwinder};
use redhanded_model::{Avma, ModuleId, Region, SpaceId};
use redhanded_sys::{self as sys, Ledger, Mapping, Tid};
use redhanded_target::images::Images;
use redhanded_target::{Armed, Module, TargetError};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the list of shared mappings is used before it is read again.
const MAPS_FRESH_FOR: Duration = Duration::from_millis(10);

/// An address space under observation.
pub struct Space {
    pub id: SpaceId,
    /// A process that runs in it.
    pub pid: Tid,
    pub memory: File,
    pub breakpoints: Breakpoints,
    pub watches: Watches,
    pub modules: Vec<Arc<Module>>,
    pub unwinder: Unwinder,
    pub hooks: Hooks,
    pub trap: TrapState,
    /// When to read the maps again, if no hook tells of changes.
    pub next_scan: Duration,
    /// Whether it is sampled. A child that is alone in its memory has nobody to collide
    /// with and is not sampled until that changes.
    pub awake: bool,
    /// A copy of its parent's space; the process has not run exec.
    pub forked: bool,
    pub had_company: bool,
    /// Whether a signal is about to kill it.
    pub doomed: bool,
    /// Whether a breakpoint byte was ever written for a site.
    pub armed: bool,
    /// The executable mappings of files, by start, offset and file.
    mapped: HashMap<(u64, u64, (String, u64)), MappedCode>,
    /// The shared mappings, and when they were read.
    shared: Option<(Duration, Vec<Mapping>)>,
}

/// Bias, range and file of a module.
type MappedCode = (u64, Range<u64>, Arc<Image>);

/// What reading the maps found.
#[derive(Default)]
pub struct Found {
    pub changed: bool,
    /// What cannot be sampled, and why.
    pub unseen: Vec<(String, String)>,
}

impl Space {
    /// The space of process `pid`, not sampled yet.
    pub fn new(id: SpaceId, pid: Tid, ledger: Option<Ledger>) -> Result<Self, TargetError> {
        // The list must name every process, so that it is looked after if we are
        // killed.
        if let Some(ledger) = ledger {
            guard::note(ledger, pid, guard::Entry::AllGone);
        }
        Ok(Self {
            id,
            pid,
            memory: open_memory(pid)?,
            breakpoints: Breakpoints::new(pid, ledger),
            watches: Watches::Refused(String::new()),
            modules: Vec::new(),
            mapped: HashMap::new(),
            unwinder: Unwinder::new(),
            hooks: Hooks::default(),
            trap: TrapState::default(),
            next_scan: Duration::ZERO,
            awake: false,
            forked: false,
            had_company: false,
            armed: false,
            doomed: false,
            shared: None,
        })
    }

    pub fn module_at(&self, address: Avma) -> Option<&Arc<Module>> {
        self.modules.iter().find(|module| module.contains(address))
    }

    pub fn byte_at(&self, address: u64) -> Option<u8> {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, address).ok()?;
        Some(byte[0])
    }

    pub fn word_at(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_le_bytes(word))
    }

    /// Sets the hooks that are needed now.
    pub fn set_hooks(&mut self) {
        for (at, byte, hook) in self.hooks.wanted(self.armed) {
            if self.breakpoints.set(&self.memory, &[(at, byte)]) == [Armed::Yes] {
                self.hooks.add(at.0, hook);
            }
        }
    }

    /// The perf events, if sites are armed with debug registers.
    pub fn register_sites(&mut self, safe: bool) -> Option<&mut PerfWatches> {
        match &mut self.watches {
            Watches::Perf(watches) if safe => Some(watches),
            _ => None,
        }
    }

    /// Removes the breakpoint that a thread just executed. Returns whether there was
    /// one.
    pub fn remove_breakpoint(&mut self, address: u64) -> bool {
        self.breakpoints.remove(&self.memory, address)
    }

    /// Compares the maps with the known modules.
    pub fn scan_modules(&mut self, images: &Images, next_module: &mut u32) -> Found {
        let mut result = Found::default();
        let mut found: Vec<MappedCode> = Vec::new();
        let before = std::mem::take(&mut self.mapped);
        for map in sys::mappings(self.pid).iter().filter(|map| map.executable) {
            let key = (map.start, map.offset, map.file_id.clone());
            // Breakpoints stand in it even if its file was touched or removed since.
            let code = match before.get(&key) {
                Some(known) => Ok(Some(known.clone())),
                None => self.scan_one(map, images),
            };
            match code {
                Ok(Some(code)) => {
                    if !found.iter().any(|(bias, ..)| *bias == code.0) {
                        found.push(code.clone());
                    }
                    self.mapped.insert(key, code);
                }
                Ok(None) => {}
                Err(unseen) => result.unseen.push(unseen),
            }
        }
        let same = |module: &Module, bias: u64, image: &Arc<Image>| {
            module.bias == bias && module.image.as_ref().is_some_and(|i| Arc::ptr_eq(i, image))
        };
        let is_found = |module: &Module| {
            let mut found = found.iter();
            found.any(|(bias, _, image)| same(module, *bias, image))
        };
        let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.modules)
            .into_iter()
            .partition(|module| is_found(module));
        self.modules = stay;
        for module in gone {
            self.breakpoints.forget(&module.range);
            if let Some(image) = &module.image {
                self.unwinder.remove_module(image, module.bias);
            }
            result.changed = true;
        }
        for (bias, range, image) in found {
            if self.modules.iter().any(|module| same(module, bias, &image)) {
                continue;
            }
            self.unwinder.add_module(&image, bias);
            self.modules.push(Arc::new(Module {
                id: ModuleId(*next_module),
                space: self.id,
                name: image.name(),
                bias,
                range,
                image: Some(image),
            }));
            *next_module += 1;
            result.changed = true;
        }
        result
    }

    fn scan_one(
        &self,
        map: &Mapping,
        images: &Images,
    ) -> Result<Option<MappedCode>, (String, String)> {
        if map.name.starts_with(b"[v") {
            return Ok(None);
        }
        if map.name.is_empty() || map.writable {
            // The program may change it under a breakpoint.
            let why = "generated or writable code; never patched";
            return Err(("generated code".to_owned(), why.to_owned()));
        }
        let Some(path) = map.file(self.pid, &self.root()) else {
            let why = "its file is gone or no file; its code is not sampled";
            return Err((name_of(map), why.to_owned()));
        };
        let image = images
            .open(&path)
            .map_err(|unseen| (unseen.what, unseen.why))?;
        let segment = image
            .segments()
            .iter()
            .find(|segment| segment.executable && segment.file_offset & !0xfff == map.offset);
        Ok(segment.map(|segment| {
            let bias = map.start.wrapping_sub(segment.svma.0 & !0xfff);
            (bias, module_range(&image, bias), Arc::clone(&image))
        }))
    }

    /// The folder below which we find the files of the process. In a container its
    /// paths are not ours.
    fn root(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.pid);
        let link = |path: &str| std::fs::read_link(path).ok();
        let elsewhere = link(&root).is_some_and(|to| to.as_os_str() != "/")
            || link(&format!("/proc/{}/ns/mnt", self.pid)) != link("/proc/self/ns/mnt");
        PathBuf::from(if elsewhere { &root } else { "/" })
    }

    /// Whether the memory at `address` is shared with other processes, or mapped a
    /// second time.
    pub fn is_shared(&mut self, address: u64, now: Duration) -> bool {
        let fresh = |(at, _): &(Duration, Vec<Mapping>)| now < *at + MAPS_FRESH_FOR;
        if !self.shared.as_ref().is_some_and(fresh) {
            self.shared = Some((now, maps::shared(self.pid)));
        }
        let mut shared = self.shared.iter().flat_map(|(_, maps)| maps);
        shared.any(|map| map.contains(address))
    }

    /// What is at an address. `stack_of` tells whose stack a mapping is.
    pub fn region(&self, address: Avma, stack_of: impl Fn(&Mapping) -> Option<Region>) -> Region {
        if let Some(module) = self.module_at(address) {
            return Region::Global {
                module: module.name.clone(),
            };
        }
        let maps = sys::mappings(self.pid);
        let Some(map) = maps.into_iter().find(|m| m.contains(address.0)) else {
            return Region::Unknown;
        };
        if map.name == b"[heap]" {
            return Region::Heap;
        }
        if !map.shared
            && let Some(stack) = stack_of(&map)
        {
            return stack;
        }
        Region::Mapping {
            name: if map.name.is_empty() {
                "anonymous".to_owned()
            } else {
                name_of(&map)
            },
            shared: map.shared,
        }
    }
}

fn name_of(map: &Mapping) -> String {
    String::from_utf8_lossy(&map.name).into_owned()
}

fn module_range(image: &Image, bias: u64) -> Range<u64> {
    let segments = image.segments().iter();
    let low = segments.clone().map(|s| s.svma.0).min();
    let high = segments.map(|s| s.svma.0.saturating_add(s.mem_size)).max();
    low.unwrap_or(0).wrapping_add(bias)..high.unwrap_or(0).wrapping_add(bias)
}

/// Opens a process's memory.
pub fn open_memory(pid: Tid) -> Result<File, TargetError> {
    let path = format!("/proc/{pid}/mem");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|source| TargetError::System {
            action: format!("cannot open {path}"),
            source,
        })
}
