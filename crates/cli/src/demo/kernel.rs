//! `redhanded demo kernel`: a stock kernel in a virtual machine, with a module that
//! races in four ways.

use super::{Variable, conclude, found_all, shown, tell};
use crate::arguments::{Documents, Select};
use crate::exit::Failure;
use crate::kernel::{KernelSubject, options, subject};
use crate::memory::Memory;
use crate::observe::{Display, Observation, OnRace, Subject, observe};
use crate::run::clock;
use crate::screen;
use crate::select::Selecting;
use redhanded_guest::KernelFiles;
use redhanded_process::Settings;
use redhanded_provision::{
    Added, Archive, VmOptions, Wanted, build_module, own_cache_folder, provide,
};
use redhanded_report::Writer;
use redhanded_target::Signals;
use redhanded_verdict::Annotations;
use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The demo looks no longer than this. It takes half a minute, and longer on a busy machine.
const LONGEST: Duration = Duration::from_secs(180);
/// The longest a CPU is held.
const DELAY: Duration = Duration::from_millis(10);

/// The module, with the paths that its sources have to each other.
const SOURCES: &[(&str, &str)] = &[
    (
        "demo/redhanded_demo.c",
        include_str!("../../../../corpus/kernel/demo/redhanded_demo.c"),
    ),
    (
        "lib/crew.h",
        include_str!("../../../../corpus/kernel/lib/crew.h"),
    ),
];

const SEEDED: &[Variable] = &[
    Variable {
        variable: "engine",
        story: "bit-fields of one word, changed by a thread and by a timer",
    },
    Variable {
        variable: "statistics",
        story: "a statistics counter nobody guards",
    },
    Variable {
        variable: "route",
        story: "looked up under its lock, changed without it",
    },
    Variable {
        variable: "newest_packet",
        story: "a pointer published by a plain store",
    },
];

const NEIGHBOURS: &[Variable] = &[
    Variable {
        variable: "guarded_bytes",
        story: "counted under a spinlock",
    },
    Variable {
        variable: "packets_in_flight",
        story: "an atomic_t",
    },
    Variable {
        variable: "next_sequence",
        story: "one for each CPU",
    },
];

/// Shows every seeded race being caught; fails if one is not, or if a neighbour
/// is.
pub fn demo(documents: &Documents) -> Result<ExitCode, Failure> {
    let signals = Signals::hold();
    screen::say(&format!(
        "Redhanded boots Debian's kernel as it is in a virtual machine and loads a module\n\
         with {} data races beside {} neighbours that do it right.\n",
        SEEDED.len(),
        NEIGHBOURS.len()
    ));
    let display = shown();
    let observation = Observation {
        subject: Subject::Kernel(Box::new(prepare()?)),
        selecting: Selecting::new(
            &Select {
                module: vec!["redhanded_demo.ko".to_owned()],
                ..Select::default()
            },
            &display,
        )?,
        rights: None,
        signals,
        options: options(DELAY),
        settings: Settings::default(),
        seed: clock(),
        until: Some(LONGEST),
        each: None,
        repeat: None,
        kill: true,
        max_windows: None,
        max_races: None,
        stop_on_race: false,
        replay: true,
        scenarios: None,
        core: None,
        log: None,
        events: None,
        memory: Memory::default(),
        on_race: Some(found_with_both_sides()),
        annotations: Annotations::default(),
        suspects: Vec::new(),
    };
    show(observation, &display, documents)
}

/// Says when all have been caught. One of which only the bytes changed has little to show: its
/// other side comes sooner or later.
fn found_with_both_sides() -> OnRace {
    let mut all = found_all(SEEDED);
    Box::new(move |race| !race.unknown_origin() && all(race))
}

fn show(
    observation: Observation,
    display: &Arc<Display>,
    documents: &Documents,
) -> Result<ExitCode, Failure> {
    let observed = observe(observation, display)?;
    let mut text = Vec::new();
    display.terminal.write(&observed.report, &mut text)?;
    let caught = conclude(&mut text, &observed.report, SEEDED, NEIGHBOURS)?;
    write!(
        text,
        "
The kernel was not rebuilt and nothing was installed in it: a CPU was held for a
moment at randomly chosen instructions, and whichever other CPU touched the same
bytes was caught.

What to do next
  redhanded kernel --kernel VMLINUZ --vmlinux VMLINUX --add your.ko -- ./your-test
  redhanded kernel --gdb unix:SOCKET --vmlinux VMLINUX      a machine that runs already
  redhanded kernel --help                                   everything else
"
    )?;
    tell(&text, observed, documents, display, caught)
}

/// Fetches what is missing and builds the module.
fn prepare() -> Result<KernelSubject, Failure> {
    let cache = own_cache_folder()?;
    let wanted = Wanted {
        archive: Archive::Release,
        debug: true,
        headers: true,
    };
    let mut say = |what: &str| screen::say(&format!("redhanded: {what}"));
    let provision = provide(&cache, &wanted, &mut say)?;
    let place = cache.join("demo");
    for (name, text) in SOURCES {
        let path = place.join("source").join(name);
        #[expect(
            clippy::disallowed_methods,
            reason = "the cache folder is nobody else's to change"
        )]
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text));
        written?;
    }
    say(&format!(
        "building a module for Linux {}",
        provision.release
    ));
    let module = build_module(
        &provision,
        &place.join("source/demo"),
        &place.join(&provision.release),
    )?;
    let vmlinux = provision.vmlinux.clone().unwrap_or_default();
    let files = KernelFiles::new(vmlinux.clone(), vmlinux, vec![module.clone()], cache);
    let workload = ["sleep", "1000"].map(Into::into).to_vec();
    let options = VmOptions {
        added: vec![Added::module(&module)],
        stopped: false,
        waits: true,
        ..VmOptions::new(&provision.tools, provision.kernel.clone(), workload)
    };
    subject(options, files)
}
