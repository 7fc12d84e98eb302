//! A virtual machine that somebody else started, as far as the tool knows.

use crate::place::Outcome;
use redhanded_provision::{
    Accel, Added, Archive, Output, Provision, VirtualMachine, VmOptions, VmState, Wanted,
    build_modules, find,
};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Emulated, on a machine that does other things as well.
const BOOTS_WITHIN: Duration = Duration::from_secs(180);
/// Far more than a machine that runs needs for a few lines.
const STANDS_AFTER: Duration = Duration::from_secs(120);

/// Counts aloud, so that it can be heard whether the machine runs.
const COUNTS: &str = "i=0; while :; do i=$((i+1)); echo $i; usleep 20000; done";

/// Two machines at once are too much for two processors.
static TURN: Mutex<()> = Mutex::new(());

/// What the tests are made from.
pub struct Kernels {
    /// QEMU, a kernel and its debug information.
    pub provision: Provision,
    _turn: MutexGuard<'static, ()>,
}

impl Kernels {
    /// Waits for its turn; `None`, with the reason printed, where there is nothing
    /// to test with.
    pub fn get() -> Option<Self> {
        let Some(folder) = std::env::var_os("REDHANDED_KERNELS") else {
            eprintln!("skipped: REDHANDED_KERNELS names no folder with a kernel");
            return None;
        };
        let wanted = Wanted {
            archive: Archive::Release,
            debug: true,
            headers: true,
        };
        let found = find(Path::new(&folder), &wanted);
        Some(Self {
            provision: found.expect("the folder that REDHANDED_KERNELS names lacks something"),
            // Another test that failed has ended its machine all the same.
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// The kernel as boot loaders take it.
    pub fn kernel(&self) -> &str {
        self.provision.kernel.to_str().unwrap()
    }

    /// The kernel with its debug information.
    pub fn vmlinux(&self) -> &str {
        self.provision.vmlinux.as_ref().unwrap().to_str().unwrap()
    }

    /// The module of the demo, whose threads race as soon as it is loaded.
    pub fn module(&self, folder: &Path) -> PathBuf {
        let demo = fs::read_to_string(corpus().join("demo/redhanded_demo.c")).unwrap();
        let mut built = self.modules(folder, &[("redhanded_demo", &demo)]);
        built.pop().unwrap()
    }

    /// Modules of these names and sources, which may include `../lib/crew.h`.
    pub fn modules(&self, folder: &Path, sources: &[(&str, &str)]) -> Vec<PathBuf> {
        let (source, lib) = (folder.join("source/demo"), folder.join("source/lib"));
        for folder in [&source, &lib] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::copy(corpus().join("lib/crew.h"), lib.join("crew.h")).unwrap();
        for (name, text) in sources {
            fs::write(source.join(format!("{name}.c")), text).unwrap();
        }
        build_modules(&self.provision, &source, &folder.join("built")).unwrap()
    }

    /// A machine with the module in it that counts.
    pub fn boot(&self, module: &Path) -> Machine {
        let counts = ["sh", "-c", COUNTS].map(Into::into).to_vec();
        let options = VmOptions {
            accel: Accel::Tcg,
            stopped: false,
            added: vec![Added::module(module)],
            ..VmOptions::new(&self.provision.tools, self.provision.kernel.clone(), counts)
        };
        let said = Said::default();
        let output = Output {
            stdout: Box::new(said.clone()),
            stderr: Box::new(io::sink()),
        };
        let vm = VirtualMachine::launch(&options, output).unwrap();
        let state = vm.wait_beyond(&VmState::Booting, BOOTS_WITHIN);
        assert_eq!(state, VmState::Running, "{:#?}", vm.log());
        Machine { vm, said }
    }
}

/// The sources of the modules that are tested.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/kernel")
}

/// A running machine.
pub struct Machine {
    vm: VirtualMachine,
    said: Said,
}

impl Machine {
    /// Its gdbstub, as the tool takes it.
    pub fn gdb(&self) -> String {
        format!("unix:{}", self.vm.gdb().display())
    }

    /// Holds it to running on: at every instruction that was armed it would stand
    /// for good if the breakpoint were still there, for nobody would let it go.
    #[track_caller]
    pub fn runs_on(&self) {
        let start = Instant::now();
        let before = self.said.lines();
        while self.said.lines() < before + 50 {
            assert!(
                start.elapsed() < STANDS_AFTER,
                "the machine stands: {:#?}",
                self.vm.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(
            self.vm.troubles(),
            [""; 0],
            "the kernel has noticed nothing"
        );
    }
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<usize>>);

impl Said {
    fn lines(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.0.lock().unwrap() += bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Processes with this word on their command line.
pub fn processes_with(word: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(word)).collect()
}

/// A report that was written.
#[track_caller]
pub fn report(path: &Path, outcome: &Outcome) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
    serde_json::from_slice(&text).unwrap()
}

/// The race on this variable between these functions, in either order.
pub fn race_on<'a>(report: &'a Value, name: &str, functions: [&str; 2]) -> Option<&'a Value> {
    report["races"].as_array()?.iter().find(|race| {
        let mut seen: Vec<&str> = race["accesses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|access| access["function"].as_str())
            .collect();
        seen.sort_unstable();
        let mut wanted = functions.to_vec();
        wanted.sort_unstable();
        race["class"] == "race" && race["what"]["name"] == name && seen == wanted
    })
}
