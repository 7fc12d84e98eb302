//! `cargo xtask corpus`: runs every program of the corpus under Redhanded and judges
//! the reports.

pub mod case;
pub mod commands;
pub mod compile;
pub mod program;
pub mod variant;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use globset::{Glob, GlobMatcher};

use crate::claims::{Expectation, List};
use crate::redhanded::Redhanded;
use crate::results::{self, Tally};
use crate::trial::{Demands, Trial};
use crate::{jobs, paths};
use case::ProgramCase;
use compile::Build;
use program::Program;
use variant::Variant;

/// Options of `cargo xtask corpus`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// 20 seeds for each expected program, 2,000 windows for each never program, and more builds
    #[arg(long)]
    full: bool,
    /// The builds of the full form too
    #[arg(long)]
    all_builds: bool,
    /// Only one build of each program, an optimised one if there is one, and none that only
    /// root can see
    #[arg(long, conflicts_with_all = ["full", "all_builds"])]
    one_build: bool,
    /// Leave out the twins
    #[arg(long)]
    no_twins: bool,
    /// Only programs whose list, name and variant fit, e.g. 'never/*' or '*/mutex O2'
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How many seeds an expected program is tried with [default: 1, or 20 with --full]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed; the others follow it
    #[arg(long, value_name = "N", default_value_t = 1)]
    first_seed: u64,
    /// How many programs to run at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
    /// Build the programs and stop
    #[arg(long)]
    build_only: bool,
    /// More options for every run, e.g. '--watch ptrace'
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    with: Option<String>,
    /// Run as the user of this number instead of as root
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
}

impl Options {
    /// The short form, as in `cargo xtask test`. Most of its time is delays, in which
    /// other programs can run: a program takes two seconds, and half a second of CPU time.
    pub fn short() -> Self {
        Self {
            first_seed: 1,
            jobs: 8,
            ..Self::default()
        }
    }

    /// The short form as an ordinary user who may not use perf events.
    pub fn as_ordinary_user() -> Self {
        let reachable = is_reachable(paths::root()) && is_reachable(&paths::target());
        if !reachable {
            println!("run as the current user: user {NOBODY} cannot enter the project's folder");
        }
        Self {
            // Setting watches by ptrace stops every thread. That uses up what a program may be
            // slowed down by default, and most of the time would be spent between windows.
            with: Some("--watch ptrace --overhead 50%".to_owned()),
            user: reachable.then_some(NOBODY),
            jobs: 4,
            // What differs here is how accesses are caught, not how they are judged. The expected
            // programs show that they are. A twin shows that its program has something to guard,
            // which root's run has shown already.
            one_build: true,
            no_twins: true,
            ..Self::short()
        }
    }
}

/// Whether the user without rights can list a folder.
fn is_reachable(folder: &Path) -> bool {
    let mut ls = Command::new("ls");
    ls.arg(folder).stdout(Stdio::null()).stderr(Stdio::null());
    ls.uid(NOBODY).gid(NOBODY);
    ls.status().is_ok_and(|status| status.success())
}

/// The user without rights.
const NOBODY: u32 = 65534;

/// Builds the programs that the options choose.
pub fn build(options: &Options) -> Result<Vec<Build>> {
    let builds = select(options)?;
    let built = compile::compile_all(&builds)?;
    println!("{} programs, {built} of them compiled now", builds.len());
    Ok(builds)
}

/// Runs the corpus and prints the results; returns how many cases passed.
pub fn run(options: &Options) -> Result<Tally> {
    ensure!(options.seeds != Some(0), "no seeds, nothing to try");
    let builds = build(options)?;
    if options.build_only {
        return Ok(Tally::default());
    }
    let redhanded = Redhanded {
        path: paths::redhanded(options.redhanded.as_deref())?,
        reports: paths::target().join("corpus/reports"),
        with: options
            .with
            .iter()
            .flat_map(|with| with.split_whitespace())
            .map(str::to_owned)
            .collect(),
        user: options.user,
    };
    let seeds = options.seeds.unwrap_or(if options.full { 20 } else { 1 });
    let demands = Demands {
        seeds: (options.first_seed..)
            .take(usize::try_from(seeds)?)
            .collect(),
        first_round: Duration::from_millis(500),
        windows: if options.full { 2000 } else { 150 },
        // A slow program takes 15 s on two slow processors. One seed alone may not miss it by
        // chance; of many, a few may.
        found_within: Duration::from_secs(if seeds == 1 { 180 } else { 60 }),
        windows_within: Duration::from_secs(if options.full { 600 } else { 180 }),
    };
    let all = jobs::run(&builds, options.jobs, |build| {
        let redhanded = &redhanded;
        let result = Trial::new(&demands, &ProgramCase { redhanded, build }).run();
        results::print(&result);
        result
    })?;
    Ok(results::print_summary(&all))
}

fn select(options: &Options) -> Result<Vec<Build>> {
    let filter = options.filter.as_deref().map(matcher).transpose()?;
    let programs = program::read_all(paths::root(), Path::new("corpus"))?;
    let mut builds = Vec::new();
    for program in &programs {
        let mut expects = program.claims.expects.iter();
        if options.one_build && expects.any(Expectation::is_read_by_kernel) {
            continue;
        }
        let variants = if options.one_build {
            one_of(&program.variants)
        } else {
            &program.variants[..]
        };
        let more = if options.full || options.all_builds {
            &program.full[..]
        } else {
            &[]
        };
        for variant in variants.iter().chain(more) {
            for twin in [false, true] {
                let build = Build::new(program, variant, twin);
                // A stripped twin shows nothing new, and its race could be mistaken
                // for a possibly atomic one beside it.
                let has_twin = program.claims.list == List::Never && !variant.is_stripped();
                let wanted = !twin || (has_twin && !options.no_twins);
                if wanted && fits(filter.as_ref(), program, &build) {
                    builds.push(build);
                }
            }
        }
    }
    if builds.is_empty() {
        bail!(
            "no program fits the filter {}",
            options.filter.as_deref().unwrap_or("*")
        );
    }
    Ok(builds)
}

/// The build that stands for all: optimised code has fewer sites, so that its races are found
/// sooner.
fn one_of(variants: &[Variant]) -> &[Variant] {
    let at = variants.iter().position(|variant| variant.level != '0');
    let at = at.unwrap_or(0);
    variants.get(at..=at).unwrap_or_default()
}

/// A glob from the command line.
pub fn matcher(glob: &str) -> Result<GlobMatcher> {
    Ok(Glob::new(glob)?.compile_matcher())
}

fn fits(filter: Option<&GlobMatcher>, program: &Program, build: &Build) -> bool {
    let Some(filter) = filter else { return true };
    let title = build.title();
    let without_variant = title.split(' ').next().unwrap_or("");
    [title.as_str(), without_variant, program.name.as_str()]
        .iter()
        .any(|text| filter.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_filter_names_a_list_a_program_or_a_variant() {
        let titles = |filter: &str| -> Vec<String> {
            let options = Options {
                filter: Some(filter.to_owned()),
                ..Options::default()
            };
            select(&options).unwrap().iter().map(Build::title).collect()
        };
        assert!(titles("mutex").contains(&"never/mutex O2 twin".to_owned()));
        assert_eq!(titles("never/mutex O2"), ["never/mutex O2"]);
        assert!(
            titles("expected/*")
                .iter()
                .all(|title| title.starts_with("expected/"))
        );
    }

    #[test]
    fn options_choose_the_builds() {
        let titles = |one_build, all_builds| -> Vec<String> {
            let options = Options {
                filter: Some("never/c11_atomics".to_owned()),
                one_build,
                all_builds,
                ..Options::default()
            };
            let builds = select(&options).unwrap().into_iter();
            let plain = builds.filter(|build| !build.twin);
            plain.map(|build| build.variant.name).collect()
        };
        let one = titles(true, false);
        let short = titles(false, false);
        let all = titles(false, true);
        assert_eq!(one, ["O2"]);
        assert!(short.len() > 1 && all.starts_with(&short));
        assert!(all.contains(&"O2+clang".to_owned()) && !short.contains(&"O2+clang".to_owned()));
    }

    #[test]
    fn without_twins_every_program_remains() {
        let names = |options: &Options| -> BTreeSet<String> {
            let builds = select(options).unwrap().into_iter();
            builds.map(|build| build.program.name).collect()
        };
        let options = Options {
            one_build: true,
            no_twins: true,
            ..Options::short()
        };
        assert!(select(&options).unwrap().iter().all(|build| !build.twin));
        let with_twins = Options {
            no_twins: false,
            ..options.clone()
        };
        assert_eq!(names(&options), names(&with_twins));
    }

    #[test]
    fn a_filter_that_fits_nothing_is_an_error() {
        let options = Options {
            filter: Some("no-such-program".to_owned()),
            ..Options::default()
        };
        assert!(select(&options).is_err());
    }

    #[test]
    fn every_never_program_has_a_twin_to_be_found() {
        let builds = select(&Options::default()).unwrap();
        for build in builds
            .iter()
            .filter(|build| build.program.claims.list == List::Never)
        {
            let twin = builds
                .iter()
                .any(|other| other.twin && other.program.name == build.program.name);
            assert!(twin, "{} has no twin", build.title());
        }
    }
}
