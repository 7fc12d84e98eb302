//! What each access of a recording is, as the namer says.

use super::modules::Modules;
use super::shared::Shared;
use redhanded_analysis::{Atomicity, Ordering, Place};
use redhanded_detect::{Sorted, Touch};
use redhanded_model::{AccessKind, Avma, Bytes, ModuleId, Sort};
use redhanded_recording::Process;
use redhanded_recording::translate::{Judge, is_call, parts};
use redhanded_session::{Answer, Asker, Question};
use std::collections::HashMap;

/// How many return addresses the namer is told, to know a function that has no name.
const CALLERS: usize = 2;

/// Asks the namer about each site once.
pub struct Sorting<'a> {
    process: &'a Process,
    modules: &'a Modules<'a>,
    ids: Vec<ModuleId>,
    shared: &'a Shared,
    asker: &'a mut Asker,
    runtime: HashMap<u32, bool>,
    /// Whether the caller of a context is the program.
    called: HashMap<u32, bool>,
    /// By site, and by whether the program calls it.
    known: HashMap<(u32, bool), Sorted>,
    /// Where the program had the kernel access its memory, and by which system call.
    calls: HashMap<Place, &'static str>,
    /// Where it gave memory back, and by which function.
    frees: HashMap<Place, &'static str>,
}

impl<'a> Sorting<'a> {
    /// Knows nothing yet.
    pub fn new(
        process: &'a Process,
        modules: &'a Modules<'a>,
        shared: &'a Shared,
        asker: &'a mut Asker,
    ) -> Self {
        Self {
            process,
            modules,
            ids: modules.ids(),
            shared,
            asker,
            runtime: HashMap::new(),
            called: HashMap::new(),
            known: HashMap::new(),
            calls: HashMap::new(),
            frees: HashMap::new(),
        }
    }

    /// The instruction of a place.
    pub fn instruction(&self, place: Place) -> u64 {
        self.process.site(parts(place).0).unwrap_or(0)
    }

    /// Whether an access is the program's: made by its code, or by a function like `memcpy` or
    /// `free` that it calls.
    pub fn is_own(&mut self, place: Place) -> bool {
        let (site, context) = parts(place);
        if is_call(place) {
            return !self.is_runtime(site);
        }
        if !self.is_runtime(site) || self.calls.contains_key(&place) {
            return true;
        }
        let by_program = self.is_called_by_program(context);
        let known = self.known.get(&(site, by_program));
        by_program && known.is_some_and(|known| known.is_memory_function)
    }

    /// Whether the program asked for all bytes that an access touches, so that a race can be
    /// claimed from it.
    pub fn is_asked_for(&mut self, place: Place) -> bool {
        let (site, context) = parts(place);
        let by_program = self.is_runtime(site) && self.is_called_by_program(context);
        let known = self.known.get(&(site, by_program)).copied();
        let known = known.filter(|_| !is_call(place));
        self.is_own(place) && known.is_none_or(|known| !known.may_over_read)
    }

    /// The system call that an access was made for, if the kernel made it.
    pub fn call(&self, place: Place) -> Option<&'static str> {
        self.calls.get(&place).copied()
    }

    /// The function by which memory was given back, if that is what the place is about.
    pub fn freed_by(&self, place: Place) -> Option<&'static str> {
        self.frees.get(&place).copied()
    }

    fn is_called_by_program(&mut self, context: u32) -> bool {
        let (process, modules) = (self.process, self.modules);
        *self.called.entry(context).or_insert_with(|| {
            let caller = process.stack(context).first().copied();
            // A return address belongs to the call before it.
            caller.is_some_and(|back| !modules.is_runtime(back.wrapping_sub(1)))
        })
    }

    fn sorted(&mut self, place: Place, kind: AccessKind, bytes: Bytes) -> Sorted {
        let (site, context) = parts(place);
        let is_runtime = self.is_runtime(site);
        let by_program = is_runtime && self.is_called_by_program(context);
        if let Some(known) = self.known.get(&(site, by_program)) {
            return *known;
        }
        let doubtful = Sorted {
            sort: Sort::Doubtful,
            is_memory_function: false,
            may_over_read: false,
        };
        let sorted = if is_runtime && !by_program {
            // How a runtime synchronises within is its own business.
            doubtful
        } else {
            let stack: Vec<Avma> = stack(self.process, place).into_iter().map(Avma).collect();
            let touch = Touch {
                pc: stack[0],
                kind,
                bytes,
                stack: stack.into_iter().take(1 + CALLERS).collect(),
            };
            let question = Question::Sorts {
                modules: self.ids.clone(),
                touches: vec![touch],
            };
            match self.asker.ask(&question, || {}) {
                Some(Answer::Sorts(sorts)) => sorts.first().copied().unwrap_or(doubtful),
                _ => doubtful,
            }
        };
        self.known.insert((site, by_program), sorted);
        sorted
    }
}

/// The instruction of a place, and the return addresses behind it. Of a call that is its last byte.
pub fn stack(process: &Process, place: Place) -> Vec<u64> {
    let (site, context) = parts(place);
    let at = process.site(site).unwrap_or(0);
    let mut stack = vec![at.saturating_sub(is_call(place).into())];
    stack.extend(process.stack(context));
    stack
}

impl Judge for Sorting<'_> {
    fn tells_free(&mut self, place: Place, function: &'static str, bytes: Bytes) -> bool {
        let is_told = self.shared.has(bytes);
        if is_told {
            self.frees.insert(place, function);
        }
        is_told
    }

    fn tells_kernel(&mut self, place: Place, call: &'static str, bytes: Bytes) -> bool {
        let (site, context) = parts(place);
        let is_asked_for = !self.is_runtime(site) || self.is_called_by_program(context);
        let is_told = is_asked_for && self.shared.has(bytes);
        if is_told {
            self.calls.insert(place, call);
        }
        is_told
    }

    fn is_runtime(&mut self, site: u32) -> bool {
        let (process, modules) = (self.process, self.modules);
        *self.runtime.entry(site).or_insert_with(|| {
            let pc = process.site(site);
            pc.is_some_and(|pc| modules.is_runtime(pc))
        })
    }

    fn atomicity(&mut self, place: Place, kind: AccessKind, bytes: Bytes) -> Option<Atomicity> {
        if !self.shared.has(bytes) {
            return None;
        }
        // The dynamic linker fills in tables that every call reads. Nobody's data is ordered by
        // that: whoever loads a library holds a lock.
        let pc = self.process.site(parts(place).0);
        if pc.is_some_and(|pc| self.modules.is_linker(pc)) {
            return None;
        }
        let sorted = self.sorted(place, kind, bytes);
        let is_own = self.is_own(place);
        Some(match sorted.sort {
            Sort::Plain if is_own => Atomicity::Plain,
            Sort::Atomic => Atomicity::Atomic(Ordering::AcquireRelease),
            Sort::Plain | Sort::Doubtful => Atomicity::Doubtful,
        })
    }
}
