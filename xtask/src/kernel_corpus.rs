//! `cargo xtask kernel-corpus`: loads every module of the kernel corpus into a kernel
//! under Redhanded and judges the reports.
//!
//! One machine is booted and the modules are loaded into it one after the other.
//! Redhanded attaches to its gdbstub again for every round. So a module costs a few
//! seconds, a report is about one module, and the machine has to survive a hundred
//! detachments. After a failure the machine is replaced.

mod case;
mod guest;
mod module;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_provision::{Archive, Provision, Wanted, cache_folder, provide};

use crate::corpus::matcher;
use crate::redhanded::Redhanded;
use crate::results::{self, Tally};
use crate::trial::{Demands, State, Trial, TrialResult};
use crate::{command, paths};
use case::ModuleCase;
use guest::Guest;
use module::Module;

/// More than building all modules takes.
const BUILT_WITHIN: Duration = Duration::from_secs(900);

/// Options of `cargo xtask kernel-corpus`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only modules whose list and name fit, e.g. 'never/*' or 'seqlock*'
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How many seeds an expected module is tried with
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// In how many windows a never module must stay silent and its twin be found
    #[arg(long, value_name = "N", default_value_t = 400)]
    windows: u64,
    /// In how many seconds an expected race must be found
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 20)]
    within: u64,
    /// Use the newer kernel of the distribution's backports
    #[arg(long)]
    backports: bool,
    /// Leave out the twins
    #[arg(long)]
    no_twins: bool,
    /// List the modules and stop
    #[arg(long)]
    list: bool,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
}

impl Options {
    /// The short form, as in `cargo xtask test`.
    pub const fn short() -> Self {
        Self {
            filter: None,
            seeds: 1,
            windows: 400,
            // One seed alone may not miss a race by chance.
            within: 180,
            backports: false,
            no_twins: false,
            list: false,
            redhanded: None,
        }
    }

    /// The same on the newer kernel. What differs here is the kernel, and the expected modules
    /// show that races are caught in it. A twin shows that its module has something to guard,
    /// which the first kernel has shown already.
    pub fn on_second_kernel() -> Self {
        Self {
            backports: true,
            no_twins: true,
            ..Self::short()
        }
    }

    const fn archive(&self) -> Archive {
        if self.backports {
            Archive::Backports
        } else {
            Archive::Release
        }
    }
}

/// Fetches what is not there yet of QEMU, busybox and the distribution's kernel with
/// its debug information and headers.
fn provide_packages(archive: Archive) -> Result<Provision> {
    let wanted = Wanted {
        archive,
        debug: true,
        headers: true,
    };
    let folder = cache_folder()?;
    let provision = provide(&folder, &wanted, &mut |what| println!("{what}"))?;
    println!("Linux {} in {}", provision.release, folder.display());
    Ok(provision)
}

/// Fetches a kernel and builds the modules for it.
pub fn prepare(archive: Archive) -> Result<()> {
    build(&provide_packages(archive)?)?;
    Ok(())
}

/// Where the reports on the modules are that were tried on a kernel.
fn reports(provision: &Provision) -> PathBuf {
    paths::target()
        .join("corpus/reports/kernel")
        .join(&provision.release)
}

/// Runs the corpus and prints the results; returns how many cases passed.
pub fn run(options: &Options) -> Result<Tally> {
    let modules = select(options)?;
    if options.list {
        for module in &modules {
            println!("{}", module.title());
        }
        return Ok(Tally::default());
    }
    ensure!(options.seeds > 0, "no seeds, nothing to try");
    let provision = provide_packages(options.archive())?;
    let folder = build(&provision)?;
    let reports = reports(&provision);
    if options.filter.is_none() {
        // Reports of earlier runs would be taken for those of this one.
        let _ = fs::remove_dir_all(&reports);
    }
    let redhanded = Redhanded {
        path: paths::redhanded(options.redhanded.as_deref())?,
        reports,
        with: Vec::new(),
        user: None,
    };
    let demands = Demands {
        seeds: (1..=options.seeds).collect(),
        first_round: Duration::from_secs(1),
        windows: options.windows,
        found_within: Duration::from_secs(options.within),
        windows_within: Duration::from_secs(options.windows.max(180)),
    };
    let trials = Trials {
        redhanded,
        demands,
        provision,
        folder,
    };
    Ok(results::print_summary(&trials.of_all(&modules)))
}

fn select(options: &Options) -> Result<Vec<Module>> {
    let filter = options.filter.as_deref().map(matcher).transpose()?;
    let mut modules = module::read_all(paths::root(), Path::new("corpus/kernel"))?;
    modules.retain(|module| !(module.twin && options.no_twins));
    if let Some(glob) = filter {
        modules.retain(|module| glob.is_match(module.title()) || glob.is_match(&module.name));
    }
    ensure!(!modules.is_empty(), "no module fits");
    Ok(modules)
}

/// Builds all modules for a kernel; returns their folder.
fn build(provision: &Provision) -> Result<PathBuf> {
    let headers = provision.headers.as_deref();
    let headers = headers.context("the kernel has no headers here")?;
    let folder = paths::target()
        .join("corpus/kernel")
        .join(&provision.release);
    let start = Instant::now();
    let jobs = thread::available_parallelism().map_or(2, usize::from);
    let mut make = Command::new("make");
    make.arg(format!("-j{jobs}"))
        .arg("-C")
        .arg(paths::root().join("corpus/kernel"))
        .arg(format!("HEADERS={}", headers.display()))
        .arg(format!("OUT={}", folder.display()))
        .env("LC_ALL", "C");
    let outcome = command::captured(&mut make, BUILT_WITHIN)?;
    ensure!(
        outcome.success(),
        "the modules do not build: {}\n{}{}",
        outcome.status_in_words(),
        outcome.stdout,
        outcome.stderr
    );
    println!("modules built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(folder)
}

/// What the trials of all modules share.
struct Trials {
    redhanded: Redhanded,
    demands: Demands,
    provision: Provision,
    folder: PathBuf,
}

impl Trials {
    fn of_all(&self, modules: &[Module]) -> Vec<TrialResult> {
        let mut guest = None;
        let mut results = Vec::new();
        for module in modules {
            let result = self.result(&mut guest, module);
            results::print(&result);
            // The next module must not suffer from what this one left behind.
            if matches!(result.state, State::Failed(_)) {
                guest = None;
            }
            results.push(result);
        }
        results
    }

    fn result(&self, guest: &mut Option<Guest>, module: &Module) -> TrialResult {
        let start = Instant::now();
        self.tried(guest, module)
            .unwrap_or_else(|error| TrialResult {
                title: module.title(),
                state: State::Failed(format!("{error:#}")),
                seconds: start.elapsed().as_secs_f64(),
                windows: 0,
                samples: 0,
                losses: std::collections::BTreeMap::new(),
            })
    }

    fn tried(&self, guest: &mut Option<Guest>, module: &Module) -> Result<TrialResult> {
        let guest = match guest {
            Some(guest) => guest,
            none => none.insert(Guest::boot(&self.provision, &self.folder)?),
        };
        let vmlinux = self.provision.vmlinux.as_deref();
        let vmlinux = vmlinux.context("the kernel's debug information is not at hand")?;
        let case = ModuleCase::load(guest, module, &self.redhanded, vmlinux, &self.folder)?;
        let mut result = Trial::new(&self.demands, &case).run();
        let after = case.unload().and_then(|()| guest.in_order());
        // The first failure is the one to report.
        if let (Err(error), false) = (after, matches!(result.state, State::Failed(_))) {
            result.state = State::Failed(format!("{error:#}"));
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;

    fn only(filter: &str) -> Options {
        Options {
            filter: Some(filter.to_owned()),
            ..Options::short()
        }
    }

    #[test]
    fn a_pattern_names_a_list_or_a_module() {
        let titles = |filter| -> Vec<String> {
            let modules = select(&only(filter)).unwrap();
            modules.iter().map(Module::title).collect()
        };
        assert_eq!(titles("never/mutex"), ["never/mutex"]);
        assert_eq!(titles("mutex*"), ["never/mutex", "never/mutex_twin"]);
        assert!(titles("expected/*").contains(&"expected/toyfs".to_owned()));
        assert!(select(&only("no-such-module")).is_err());
    }

    #[test]
    fn every_never_module_has_a_twin() {
        let modules = select(&Options::short()).unwrap();
        let never = modules.iter().filter(|s| s.claims.list == List::Never);
        let (twins, guarded): (Vec<_>, Vec<_>) = never.partition(|module| module.twin);
        assert!(!guarded.is_empty());
        assert_eq!(twins.len(), guarded.len());
    }

    #[test]
    fn the_second_kernel_is_spared_the_twins_and_nothing_else() {
        let titles = |options| -> Vec<String> {
            let modules = select(&options).unwrap();
            modules.iter().map(Module::title).collect()
        };
        let mut first = titles(Options::short());
        first.retain(|title| !title.ends_with("_twin"));
        assert_eq!(titles(Options::on_second_kernel()), first);
    }
}
