//! One address space: its memory, text, modules, breakpoints and watches. Usually it
//! belongs to one process; a vforked child shares its parent's.

use super::allocations::Allocations;
use super::guard::{Entrusted, Lifelines};
use super::hooks::Hooks;
use super::sharing;
use super::text::Breakpoints;
use super::trap::TrapState;
use super::watches::{PerfWatches, Watches};
use redhanded_image::{Image, Instruction, Unwinder};
use redhanded_model::{Avma, ModuleId, Region, SpaceId};
use redhanded_sys::{self as sys, Mapping, Tid};
use redhanded_target::images::Images;
use redhanded_target::{Armed, Holds, Module, TargetError};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The system chooses addresses above this one when a program does not ask for one.
const CHOSEN_BY_SYSTEM: u64 = 0x7000_0000_0000;
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
    pub allocations: Allocations,
    pub trap: TrapState,
    /// When to read the maps again, if no thread waits for it.
    pub next_scan: Duration,
    /// How often the dynamic linker told of modules that were not looked at yet.
    pub passed_over: usize,
    /// Whether the libraries that the program begins with are there.
    pub is_linked: bool,
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
    /// The space of process `pid`, not sampled yet. Those at the other end of the
    /// lifelines look after it if we are killed.
    pub fn new(
        id: SpaceId,
        pid: Tid,
        lifelines: Option<&Arc<Lifelines>>,
    ) -> Result<Self, TargetError> {
        let memory = open_memory(pid)?;
        let entrusted = lifelines.map(|lines| Entrusted::new(Arc::clone(lines), pid));
        Ok(Self {
            id,
            pid,
            memory,
            breakpoints: Breakpoints::new(entrusted),
            watches: Watches::Refused(String::new()),
            modules: Vec::new(),
            mapped: HashMap::new(),
            unwinder: Unwinder::new(),
            hooks: Hooks::default(),
            allocations: Allocations::default(),
            trap: TrapState::default(),
            next_scan: Duration::ZERO,
            passed_over: 0,
            is_linked: false,
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

    /// Stores a word for a thread that is about to do it itself.
    pub fn set_word(&self, address: u64, word: u64) -> bool {
        let bytes = word.to_le_bytes();
        self.memory.write_all_at(&bytes, address).is_ok()
    }

    /// The instruction at an address, without our breakpoints.
    pub fn instruction_at(&self, address: u64) -> Option<Instruction> {
        let mut code = [0; 15];
        let readable = (1..=code.len()).rev().find(|len| {
            let code = &mut code[..*len];
            self.memory.read_exact_at(code, address).is_ok()
        });
        let code = &mut code[..readable?];
        self.breakpoints.hide(address, code);
        Instruction::decode(code, address)
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

    /// Whether the maps should be read now, although no thread waits for it: no hook tells
    /// of changes, or one did that was passed over.
    pub fn is_scan_due(&self, now: Duration) -> bool {
        let unheard = !self.hooks.hear_of_modules() || self.passed_over > 0;
        self.awake && unheard && now >= self.next_scan
    }

    /// Compares the maps with the known modules.
    pub fn scan_modules(&mut self, images: &Images, next_module: &mut u32) -> Found {
        let mut result = Found::default();
        let maps = sys::mappings(self.pid);
        if maps.is_empty() {
            // Its modules and our breakpoints are still there.
            let forbidden = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
            if File::open(format!("/proc/{}/maps", self.pid)).is_err_and(forbidden) {
                let why = "the program has made itself undumpable; run redhanded as root";
                let what = "libraries that were loaded later";
                result.unseen.push((what.to_owned(), why.to_owned()));
            }
            return result;
        }
        let mut found: Vec<MappedCode> = Vec::new();
        let mut biases = HashSet::new();
        let before = std::mem::take(&mut self.mapped);
        for map in maps.iter().filter(|map| map.executable) {
            let key = (map.start, map.offset, map.file_id.clone());
            // Breakpoints stand in it even if its file was touched or removed since.
            let code = match before.get(&key) {
                Some(known) => Ok(Some(known.clone())),
                None => self.scan_one(map, images),
            };
            match code {
                Ok(Some(code)) => {
                    if biases.insert(code.0) {
                        found.push(code.clone());
                    }
                    self.mapped.insert(key, code);
                }
                Ok(None) => {}
                Err(unseen) => result.unseen.push(unseen),
            }
        }
        // A program may have thousands of modules, so none is searched for one by one.
        let key = |bias: u64, image: &Arc<Image>| (bias, Arc::as_ptr(image));
        let key_of = |module: &Module| Some(key(module.bias, module.image.as_ref()?));
        let here: HashSet<_> = found
            .iter()
            .map(|(bias, _, image)| key(*bias, image))
            .collect();
        let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.modules)
            .into_iter()
            .partition(|module| key_of(module).is_some_and(|key| here.contains(&key)));
        let known: HashSet<_> = stay.iter().filter_map(|module| key_of(module)).collect();
        self.modules = stay;
        for module in gone {
            self.breakpoints.forget(&module.range);
            if let Some(image) = &module.image {
                self.unwinder.remove_module(image, module.bias);
            }
            result.changed = true;
        }
        for (bias, range, image) in found {
            if known.contains(&key(bias, &image)) {
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
            self.shared = Some((now, sharing::shared(self.pid)));
        }
        let mut shared = self.shared.iter().flat_map(|(_, maps)| maps);
        shared.any(|map| map.contains(address))
    }

    /// Whether the program is written in Go, or contains its runtime.
    fn is_go(&self) -> bool {
        let mut images = self
            .modules
            .iter()
            .filter_map(|module| module.image.as_ref());
        images.any(|image| image.is_go())
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
        if map.name == b"[heap]" || (self.is_go() && is_go_heap(&map)) {
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

/// Whether a mapping of a Go program is part of its heap. Go asks for it at low addresses, far
/// below those that the system chooses. The stacks of goroutines are in it, and those of most
/// threads, so that it says nothing whose stack is there.
fn is_go_heap(map: &Mapping) -> bool {
    map.start < CHOSEN_BY_SYSTEM && !map.shared && map.file_id.1 == 0 && map.name != b"[stack]"
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

/// What is mapped in a process, for whoever replays it.
pub fn mappings(pid: Tid) -> Vec<redhanded_target::Mapping> {
    let mapping = |map: Mapping| redhanded_target::Mapping {
        range: map.start..map.end,
        writable: map.writable,
        executable: map.executable,
        holds: holds(&map),
    };
    sys::mappings(pid).into_iter().map(mapping).collect()
}

fn holds(map: &Mapping) -> Holds {
    // Shared memory without a name is a file of this folder too.
    let is_device = map.name.starts_with(b"/dev/")
        && !map.name.starts_with(b"/dev/shm/")
        && !map.name.starts_with(b"/dev/zero");
    if map.name.starts_with(b"[vvar") {
        Holds::Clock
    } else if is_device || map.name == b"[vsyscall]" {
        Holds::Unknown
    } else if !map.readable && !map.writable && !map.executable {
        Holds::Nothing
    } else if map.name == b"[stack]" {
        Holds::Stack
    } else {
        Holds::Bytes
    }
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
