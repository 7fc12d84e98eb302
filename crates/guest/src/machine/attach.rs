//! From a gdbstub's address to a machine that can be driven, and back.

use super::downtime::Downtime;
use super::memory::BlockCache;
use super::{GuestMachine, PATIENCE, Vcpu};
use crate::KernelFiles;
use crate::gdb::{Address, Gdb, GdbError};
use crate::linux::Kernel;
use redhanded_image::{Image, Unwinder};
use redhanded_model::Losses;
use redhanded_target::images::Images;
use redhanded_target::{Signals, TargetError, VMLINUX};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it may take to find the kernel in the machine and to read its code.
const ATTACHES_WITHIN: Duration = Duration::from_secs(60);

impl GuestMachine {
    /// Connects `socket`, made by [`Address::socket`], to the gdbstub at `address`,
    /// and finds the kernel of `files` in the machine, which runs when this returns.
    ///
    /// # Errors
    /// When there is no usable stub, or another kernel.
    pub fn connect(
        address: &Address,
        socket: &OwnedFd,
        files: KernelFiles,
        images: Arc<Images>,
        signals: Arc<Signals>,
    ) -> Result<Self, TargetError> {
        let socket = socket.try_clone().map_err(|source| TargetError::System {
            action: format!("cannot use the connection to {address}"),
            source,
        })?;
        let heeded = Some(Arc::clone(&signals));
        let mut gdb = Gdb::connect(address, socket, PATIENCE, heeded).map_err(|error| {
            TargetError::Unsupported(match error {
                GdbError::Refused { .. } => error.to_string(),
                _ => format!("{address}: {error}"),
            })
        })?;
        gdb.end_at(Some(Instant::now() + ATTACHES_WITHIN));
        Self::attach(gdb, files, images, signals)
    }

    fn attach(
        mut gdb: Gdb,
        files: KernelFiles,
        images: Arc<Images>,
        signals: Arc<Signals>,
    ) -> Result<Self, TargetError> {
        let plain = images.open(&files.kernel).map_err(|unseen| {
            TargetError::Unsupported(format!("cannot use {}: {}", unseen.what, unseen.why))
        })?;
        let kernel = Kernel::find(&mut gdb, &plain)?;
        let text = kernel.read_text(&mut gdb)?;
        let image = Image::open(&files.kernel).map_err(|error| {
            TargetError::Unsupported(format!("cannot use the kernel's file: {error}"))
        })?;
        let image = images.adopt(image.with_live_text(&text));
        let mut unseen = BTreeMap::new();
        if !image.debug().available() {
            unseen.insert(
                "source lines; types and fields of variables that are not per-CPU".to_owned(),
                "the kernel's file has no debug information: give the vmlinux of its debug package \
                 with --vmlinux"
                    .to_owned(),
            );
        }
        let vcpus: BTreeMap<u32, Vcpu> = gdb
            .vcpus()
            .iter()
            .map(|number| (*number, Vcpu::default()))
            .collect();
        let mut machine = Self {
            view: vcpus.keys().next().copied().unwrap_or(1),
            gdb,
            started: Instant::now(),
            vcpus,
            breakpoints: BTreeSet::new(),
            inserted: BTreeSet::new(),
            watchpoints: Default::default(),
            deferred: Vec::new(),
            prefetches: Vec::new(),
            pending: VecDeque::new(),
            modules: Vec::new(),
            next_module: 0,
            files,
            images,
            unwinder: Unwinder::new(),
            running_code: Vec::new(),
            stalled: false,
            elapsed: 0,
            next_profile: Duration::ZERO,
            losses: Losses::default(),
            signals,
            unseen,
            broken: None,
            downtime: Downtime::default(),
            known_modules: Vec::new(),
            cache: BlockCache::default(),
            list_head: None,
            must_walk: false,
            next_walk: Duration::ZERO,
            kernel: Arc::new(kernel),
        };
        let (slide, from, to) = (
            machine.kernel.slide,
            machine.kernel.symbol("_text").unwrap_or(0),
            machine.kernel.symbol("_end").unwrap_or(0),
        );
        machine.add_module(image, VMLINUX.to_owned(), slide, from..to);
        machine.update_modules();
        machine.pending.clear();
        // Nothing is armed yet, and the caller has files to index.
        machine.resume_free();
        Ok(machine)
    }

    /// Starts the clock, for a session of this length. A stub that answers too slowly
    /// does not prolong it.
    pub fn begin(&mut self, length: Option<Duration>) {
        let end =
            length.and_then(|length| Instant::now().checked_add(length)?.checked_add(PATIENCE));
        self.gdb.end_at(end);
        self.started = Instant::now();
        self.next_profile = Duration::ZERO;
        self.next_walk = Duration::ZERO;
        self.downtime = Downtime::default();
    }

    /// Reserves a CPU of the host for the calling thread; see
    /// [`Gdb::reserve_host_cpu`].
    pub fn reserve_host_cpu(&mut self) {
        self.gdb.reserve_host_cpu();
    }

    /// Removes everything from the machine and lets it run.
    pub fn detach(mut self) {
        self.deferred.clear();
        self.gdb.end_at(None);
        if self.gdb.is_running() {
            let _ = self.gdb.interrupt(PATIENCE);
        }
        // If the machine is gone there is nothing left to do.
        let _ = self.gdb.detach();
    }
}
