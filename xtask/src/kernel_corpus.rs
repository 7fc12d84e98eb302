//! `cargo xtask kernel-corpus`: every module of the kernel corpus in a kernel under
//! Redhanded, and what it said.
//!
//! One machine is booted, the modules are loaded into it one after the other, and
//! Redhanded attaches to its gdbstub anew for every round. So a module costs a few
//! seconds, its report is about it alone, and the machine must survive being let go
//! a hundred times. A machine in which something went wrong is replaced.

mod guest;
mod loaded;
mod subject;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_provision::{Archive, Provision, Wanted, cache_folder, provide};

use crate::command;
use crate::corpus::{self, Tally, matcher};
use crate::drive::Driver;
use crate::place;
use crate::trial::{Demands, State, Trial, Verdict};
use guest::Guest;
use loaded::Loaded;
use subject::Subject;

/// More than building all modules takes.
const BUILT_WITHIN: Duration = Duration::from_secs(900);

/// Options of `cargo xtask kernel-corpus`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only modules whose list and name fit, e.g. 'never/*' or 'seqlock*'
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// How many seeds an expected module is tried with
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// How many windows a never module stays silent over, and its twin is found in
    #[arg(long, value_name = "N", default_value_t = 400)]
    windows: u64,
    /// In how many seconds an expected race must be found
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 20)]
    within: u64,
    /// On the newer kernel of the distribution's backports
    #[arg(long)]
    backports: bool,
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
            only: None,
            seeds: 1,
            windows: 400,
            within: 60,
            backports: false,
            list: false,
            redhanded: None,
        }
    }

    /// The same on the newer kernel.
    pub fn on_second_kernel() -> Self {
        Self {
            backports: true,
            ..Self::short()
        }
    }
}

/// Fetches what kernels are tested with, where it is not there already: QEMU, the
/// distribution's kernel with its debug information and headers, a busybox.
pub fn provide_packages(archive: Archive) -> Result<Provision> {
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

/// Runs the corpus, prints the table and says how many cases passed.
pub fn run(options: &Options) -> Result<Tally> {
    let subjects = select(options.only.as_deref())?;
    if options.list {
        for subject in &subjects {
            println!("{}", subject.title());
        }
        return Ok(Tally::default());
    }
    ensure!(options.seeds > 0, "no seeds, nothing to try");
    let provision = provide_packages(if options.backports {
        Archive::Backports
    } else {
        Archive::Release
    })?;
    let folder = build(&provision)?;
    let redhanded = match &options.redhanded {
        Some(path) => path.clone(),
        None => place::build_redhanded()?,
    };
    let driver = Driver {
        redhanded,
        reports: place::target()
            .join("corpus/reports/kernel")
            .join(&provision.release),
        with: Vec::new(),
        user: None,
    };
    let demands = Demands {
        seeds: (1..=options.seeds).collect(),
        first_round: Duration::from_secs(1),
        windows: options.windows,
        found_within: Duration::from_secs(options.within),
        windows_within: Duration::from_secs((options.windows * 2 / 5).max(60)),
    };
    let court = Court {
        driver,
        demands,
        provision,
        folder,
    };
    Ok(corpus::print_table(&court.all(&subjects)))
}

fn select(only: Option<&str>) -> Result<Vec<Subject>> {
    let only = only.map(matcher).transpose()?;
    let mut subjects = subject::read_all(place::root(), Path::new("corpus/kernel"))?;
    if let Some(glob) = only {
        subjects.retain(|subject| glob.is_match(subject.title()) || glob.is_match(&subject.name));
    }
    ensure!(!subjects.is_empty(), "no module fits");
    Ok(subjects)
}

/// Builds all modules for a kernel; the folder that they are in.
fn build(provision: &Provision) -> Result<PathBuf> {
    let headers = provision.headers.as_deref();
    let headers = headers.context("the kernel's headers are not at hand")?;
    let folder = place::target()
        .join("corpus/kernel")
        .join(&provision.release);
    let start = Instant::now();
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(place::root().join("corpus/kernel"))
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

/// Where all modules are put on trial.
struct Court {
    driver: Driver,
    demands: Demands,
    provision: Provision,
    folder: PathBuf,
}

impl Court {
    fn all(&self, subjects: &[Subject]) -> Vec<Verdict> {
        let mut guest = None;
        let mut verdicts = Vec::new();
        for subject in subjects {
            let verdict = self.verdict(&mut guest, subject);
            corpus::tell(&verdict);
            // What it left behind must not be held against the next.
            if matches!(verdict.state, State::Failed(_)) {
                guest = None;
            }
            verdicts.push(verdict);
        }
        verdicts
    }

    fn verdict(&self, guest: &mut Option<Guest>, subject: &Subject) -> Verdict {
        let start = Instant::now();
        self.tried(guest, subject).unwrap_or_else(|error| Verdict {
            title: subject.title(),
            state: State::Failed(format!("{error:#}")),
            seconds: start.elapsed().as_secs_f64(),
            windows: 0,
            samples: 0,
            losses: std::collections::BTreeMap::new(),
        })
    }

    fn tried(&self, guest: &mut Option<Guest>, subject: &Subject) -> Result<Verdict> {
        let guest = match guest {
            Some(guest) => guest,
            none => none.insert(Guest::boot(&self.provision, &self.folder)?),
        };
        let vmlinux = self.provision.vmlinux.as_deref();
        let vmlinux = vmlinux.context("the kernel's debug information is not at hand")?;
        let loaded = Loaded::load(guest, subject, &self.driver, vmlinux, &self.folder)?;
        let mut verdict = Trial::new(&self.demands, &loaded).verdict();
        let after = loaded.unload().and_then(|()| guest.in_order());
        // The first that went wrong is the one to be told.
        if let (Err(error), false) = (after, matches!(verdict.state, State::Failed(_))) {
            verdict.state = State::Failed(format!("{error:#}"));
        }
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;

    #[test]
    fn a_pattern_names_a_list_or_a_module() {
        let titles = |only| -> Vec<String> {
            let subjects = select(Some(only)).unwrap();
            subjects.iter().map(Subject::title).collect()
        };
        assert_eq!(titles("never/mutex"), ["never/mutex"]);
        assert_eq!(titles("mutex*"), ["never/mutex", "never/mutex_twin"]);
        assert!(titles("expected/*").contains(&"expected/toyfs".to_owned()));
        assert!(select(Some("no-such-module")).is_err());
    }

    #[test]
    fn every_never_module_has_a_twin() {
        let subjects = select(None).unwrap();
        let never = subjects.iter().filter(|s| s.claims.list == List::Never);
        let (twins, guarded): (Vec<_>, Vec<_>) = never.partition(|subject| subject.twin);
        assert!(!guarded.is_empty());
        assert_eq!(twins.len(), guarded.len());
    }
}
