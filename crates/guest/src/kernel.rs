//! Making the kernel of a virtual machine known: its file, its code as it is in
//! memory, its modules.

use super::gdb::{Gdb, Request};
use super::guest::{Guest, NotAKernel};
use super::{SPACE, Vcpu, Vm};
use redhanded_image::{Image, Unwinder};
use redhanded_model::{Losses, ModuleId, Svma};
use redhanded_target::Signals;
use redhanded_target::VMLINUX;
use redhanded_target::images::Images;
use redhanded_target::{Module, TargetError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much code is read between two moments in which the machine runs: somebody
/// may be using it.
const TEXT_PIECE: usize = 1 << 20;
/// How long it runs then.
const TEXT_PAUSE: Duration = Duration::from_millis(10);

/// How often it is tried to read a piece.
const MOST_FAILED: usize = 200;

/// The files of a kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelFiles {
    /// An ELF file with symbols: a vmlinux, or what was made from a vmlinuz.
    pub kernel: PathBuf,
    /// Files of modules (`.ko`), and folders that are searched for them.
    pub modules: Vec<PathBuf>,
    /// A folder for files that are made from them.
    pub cache: PathBuf,
}

impl From<NotAKernel> for TargetError {
    fn from(why: NotAKernel) -> Self {
        Self::Unsupported(why.to_string())
    }
}

impl Vm {
    /// Drives the machine behind `gdb`, which stands and runs the kernel of
    /// `files`. It runs when this returns.
    ///
    /// # Errors
    /// When it runs another kernel, or cannot be asked.
    pub fn attach(
        mut gdb: Gdb,
        files: KernelFiles,
        images: Arc<Images>,
        signals: Arc<Signals>,
    ) -> Result<Self, TargetError> {
        let plain = images.open(&files.kernel).map_err(|unseen| {
            TargetError::Unsupported(format!("cannot use {}: {}", unseen.what, unseen.why))
        })?;
        let guest = Guest::find(&mut gdb, &plain)?;
        let text = read_text(&mut gdb, &guest)?;
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
        let mut vm = Self {
            view: vcpus.keys().next().copied().unwrap_or(1),
            gdb,
            started: Instant::now(),
            vcpus,
            breakpoints: BTreeSet::new(),
            standing: BTreeSet::new(),
            sets: Default::default(),
            orders: Vec::new(),
            along: Vec::new(),
            pending: VecDeque::new(),
            modules: Vec::new(),
            next_module: 0,
            files,
            images,
            unwinder: Unwinder::new(),
            lively: Vec::new(),
            stalled: false,
            elapsed: 0,
            next_look: Duration::ZERO,
            losses: Losses::default(),
            signals,
            unseen,
            broken: None,
            stood: Default::default(),
            known_list: Vec::new(),
            peeked: Default::default(),
            list_ends: None,
            must_walk: false,
            next_walk: Duration::ZERO,
            guest,
        };
        let (slide, from, to) = (
            vm.guest.slide,
            vm.guest.symbol("_text").unwrap_or(0),
            vm.guest.symbol("_end").unwrap_or(0),
        );
        vm.add_module(image, VMLINUX.to_owned(), slide, from..to);
        vm.modules_may_have_changed();
        vm.pending.clear();
        // Indexing takes a while, and nothing is armed yet.
        vm.let_go();
        Ok(vm)
    }

    pub(super) fn add_module(
        &mut self,
        image: Arc<Image>,
        name: String,
        bias: u64,
        range: std::ops::Range<u64>,
    ) {
        self.unwinder.add_module(&image, bias);
        self.modules.push(Arc::new(Module {
            id: ModuleId(self.next_module),
            space: SPACE,
            name,
            bias,
            range,
            image: Some(image),
        }));
        self.next_module += 1;
    }
}

/// The kernel's code as it is in memory: alternatives and the like are in place.
fn read_text(gdb: &mut Gdb, guest: &Guest) -> Result<Vec<(Svma, Vec<u8>)>, TargetError> {
    let broken = |error| TargetError::from(NotAKernel::Gdb(error));
    let (Some(from), Some(to)) = (guest.symbol("_stext"), guest.symbol("_etext")) else {
        return Ok(Vec::new());
    };
    let mut text = Vec::new();
    let mut at = from;
    let mut failed = 0;
    let vcpus = gdb.vcpus().to_vec();
    while at < to {
        let len = TEXT_PIECE.min((to - at) as usize);
        // A CPU that runs a user's program may not see the kernel.
        let requests = [
            Request::Select(vcpus[failed % vcpus.len()]),
            Request::Read { address: at, len },
        ];
        let piece = gdb.ask(&requests).map_err(broken)?.pop();
        if let Some(piece) = piece.and_then(super::Answer::memory) {
            text.extend_from_slice(&piece);
            at += len as u64;
            failed = 0;
        } else if failed >= MOST_FAILED {
            return Err(NotAKernel::Unreadable(at).into());
        } else {
            failed += 1;
        }
        gdb.resume(None).map_err(broken)?;
        if gdb.wait(TEXT_PAUSE).map_err(broken)?.is_none() {
            gdb.interrupt(super::PATIENCE).map_err(broken)?;
        }
    }
    Ok(vec![(Svma(from.wrapping_sub(guest.slide)), text)])
}
