//! `redhanded kernel`: a kernel in a virtual machine that is started for it, or in
//! one that runs already.

pub mod machine;

use crate::arguments::Kernel;
use crate::exit::Failure;
use crate::observe::{Observation, Subject, observe};
use crate::screen;
use redhanded_detect::{Budget, Options, Start};
use redhanded_guest::{Address, KernelFiles};
use redhanded_image::kernel_file::{KernelFileError, prepare};
use redhanded_model::Delays;
use redhanded_provision::{Added, VmOptions, host_kernel, own_cache_folder, provide_tools};
use redhanded_target::{Signals, TargetError};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The longest a CPU is held, unless told otherwise: what the paper found best.
const DELAY: Duration = Duration::from_millis(15);

/// The machine whose kernel is observed.
pub enum Vm {
    /// One that is started for it.
    Launched(Box<VmOptions>),
    /// One that runs already.
    Running(Address),
}

/// A kernel to observe.
pub struct KernelSubject {
    pub vm: Vm,
    pub files: KernelFiles,
    /// Not connected yet, and open in both processes: when the one that drives
    /// the machine is killed, the other can let the machine go.
    pub socket: OwnedFd,
    pub name: Vec<String>,
}

/// Observes a kernel; the exit status.
pub fn kernel(arguments: &Kernel) -> Result<ExitCode, Failure> {
    let signals = Signals::hold();
    let watch = &arguments.watch;
    watch.check()?;
    let subject = match &arguments.gdb {
        Some(address) => running(arguments, address)?,
        None => launched(arguments)?,
    };
    if watch.overhead == Some(0.0) {
        return machine::unobserved(subject.vm, &signals);
    }
    // What a workload prints comes out on our own streams.
    let display = watch.display(arguments.gdb.is_none());
    let delays = Delays {
        task: watch.delay.unwrap_or(DELAY),
        atomic: arguments.atomic_delay,
        interrupt: arguments.interrupt_delay,
    };
    let mut observation = Observation {
        until: arguments.until,
        ..watch.observation(Subject::Kernel(Box::new(subject)), signals, &display)?
    };
    observation.options.delay = delays;
    observation.options.budget = budget(watch.overhead);
    observation.options.start = Start::Gently;
    watch.tell(observe(observation, &display)?, &display)
}

/// A virtual machine is there to be looked at: unless told otherwise it may be held
/// as much as it takes.
pub fn budget(overhead: Option<f64>) -> Budget {
    Budget {
        overhead: overhead.unwrap_or(1.0),
        credit: Duration::from_secs(1),
    }
}

fn running(arguments: &Kernel, address: &str) -> Result<KernelSubject, Failure> {
    let address: Address = address
        .parse()
        .map_err(|error| Failure::Usage(format!("{error}")))?;
    if !address.is_local() && !arguments.remote {
        return Err(Failure::Usage(format!(
            "{address} is another host, and nothing protects a connection to a gdbstub: whoever \
             can reach it owns the virtual machine. --remote allows it"
        )));
    }
    let Some(vmlinux) = &arguments.vmlinux else {
        return Err(Failure::Usage(
            "--gdb needs --vmlinux: the kernel that the machine runs, with its debug \
             information, or its vmlinuz"
                .to_owned(),
        ));
    };
    let cache = own_cache_folder()?;
    Ok(KernelSubject {
        socket: address.socket()?,
        name: vec![format!("the kernel at {address}")],
        files: files(vmlinux, &arguments.modules, &cache)?,
        vm: Vm::Running(address),
    })
}

fn launched(arguments: &Kernel) -> Result<KernelSubject, Failure> {
    if arguments.workload.is_empty() {
        return Err(Failure::Usage(
            "a workload is needed, which makes the kernel do something: redhanded kernel … -- \
             COMMAND; or --gdb for a virtual machine that has its own"
                .to_owned(),
        ));
    }
    let cache = own_cache_folder()?;
    let kernel = match &arguments.kernel {
        Some(kernel) => kernel.clone(),
        None => host_kernel()?,
    };
    let tools = provide_tools(&cache, &mut |what| {
        screen::say(&format!("redhanded: {what}"));
    })?;
    let mut options = VmOptions {
        initrd: arguments.initrd.clone(),
        append: arguments.append.clone(),
        smp: arguments.smp,
        memory: arguments.memory,
        accel: arguments.accel.into(),
        qemu_args: arguments.qemu_arg.clone(),
        stopped: false,
        waits: true,
        ..VmOptions::new(&tools, kernel.clone(), arguments.workload.clone())
    };
    let mut modules = arguments.modules.clone();
    for added in &arguments.add {
        let added = Added::parse(added)?;
        if added.load {
            modules.push(added.from.clone());
        }
        options.added.push(added);
    }
    let symbols = arguments.vmlinux.as_ref().unwrap_or(&kernel);
    let files = files(symbols, &modules, &cache)?;
    subject(options, files)
}

/// A kernel in a machine that is still to be started.
pub fn subject(options: VmOptions, files: KernelFiles) -> Result<KernelSubject, Failure> {
    let name = std::iter::once(options.kernel.display().to_string())
        .chain(
            options
                .workload
                .iter()
                .map(|w| w.to_string_lossy().into_owned()),
        )
        .collect();
    Ok(KernelSubject {
        socket: Address::Unix(PathBuf::new()).socket()?,
        vm: Vm::Launched(Box::new(options)),
        files,
        name,
    })
}

/// The files of a kernel: of a vmlinuz an ELF file with symbols is made first.
pub fn files(kernel: &Path, modules: &[PathBuf], cache: &Path) -> Result<KernelFiles, Failure> {
    let prepared = prepare(kernel, &cache.join("unpacked"), &mut |_| {});
    let elf = prepared.map_err(|error| {
        // Of a file that cannot even be read it says which.
        TargetError::Unsupported(match error {
            KernelFileError::File { .. } => error.to_string(),
            _ => format!("{}: {error}", kernel.display()),
        })
    })?;
    for place in modules {
        if !place.exists() {
            return Err(Failure::Usage(format!(
                "there are no modules in {}: no such file or folder",
                place.display()
            )));
        }
    }
    Ok(KernelFiles::new(
        elf,
        kernel.to_owned(),
        modules.to_vec(),
        cache.to_owned(),
    ))
}

/// Options that every observation of a kernel has.
pub fn options(delay: Duration) -> Options {
    Options {
        rate: 1000.0,
        delay: Delays {
            task: delay,
            atomic: Duration::from_millis(1),
            interrupt: Duration::ZERO,
        },
        budget: budget(None),
        strategy: redhanded_model::Strategy::Both,
        until: None,
        max_windows: None,
        start: Start::Gently,
    }
}
