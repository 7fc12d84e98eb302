//! `cargo xtask check`: `redhanded check` over programs whose races are known: those of
//! `corpus/apart`, whose accesses sleeps keep apart, and one build of each program of the corpus.
//!
//! Each race that a program claims must be unordered or caught, as what it claims. Nothing of a
//! program that must never be reported may be; suspects are allowed there, and listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_model::{Class, Race, Report};

use crate::claims::{Claims, List, directives};
use crate::corpus::compile::{self, Build};
use crate::corpus::program::Language;
use crate::corpus::{matcher, program};
use crate::judge::Circumstances;
use crate::results::Tally;
use crate::{command, jobs, judge, paths};

/// More than a program of the corpus takes to be recorded and analysed.
const LIMIT: Duration = Duration::from_secs(300);

/// Options of `cargo xtask check`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Only programs whose list and name fit, e.g. 'never/*' or 'apart/*'
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How long to hunt what was found in each; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "0")]
    hunt: String,
    /// How long in programs that must never be reported, if not as long
    #[arg(long, value_name = "TIME")]
    hunt_in_vain: Option<String>,
    /// How many programs at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
}

impl Options {
    /// As in `cargo xtask test`: what sleeps keep apart is hunted too, and of the rest each kind
    /// of synchronisation is there once.
    pub fn short() -> Self {
        let never = "barrier,c11_atomics,condvar,join_create,mutex,rust_channel,rust_mutex,rwlock,semaphore";
        let expected = "heap_object,ioctl_reads,mutex_forgotten,read_buffer,short_thread,static_mut,write_call_reads";
        Self {
            filter: Some(format!(
                "{{apart/*,never/{{{never}}},expected/{{{expected}}}}}"
            )),
            hunt: "20s".to_owned(),
            hunt_in_vain: Some("5s".to_owned()),
            // A hunt waits more than it computes.
            jobs: 4,
            redhanded: None,
        }
    }
}

/// As many suspects may be told of a Rust program that is correct. Its mutexes are no calls, so that
/// what they guard is suspected; how the standard library keeps its own data is not told.
const MOST_SUSPECTS: usize = 5;

/// A program, and what must be found in it.
struct Case {
    title: String,
    program: PathBuf,
    claims: Claims,
    circumstances: Circumstances,
    /// How it is built, if it is one of the corpus.
    build: Option<Build>,
}

/// Checks them all; returns how many are as they must be.
pub fn run(options: &Options) -> Result<Tally> {
    let redhanded = paths::redhanded(options.redhanded.as_deref())?;
    let filter = options.filter.as_deref().map(matcher).transpose()?;
    let mut cases = apart()?;
    cases.extend(corpus()?);
    if let Some(filter) = filter {
        cases.retain(|case| filter.is_match(&case.title));
    }
    ensure!(!cases.is_empty(), "no program fits the filter");
    let builds: Vec<Build> = cases.iter().filter_map(|case| case.build.clone()).collect();
    compile::compile_all(&builds)?;
    let folder = paths::target().join("check");
    fs::create_dir_all(&folder)?;
    let results = jobs::run(&cases, options.jobs, |case| {
        case.run(&redhanded, options, &folder)
            .unwrap_or_else(|error| {
                println!("FAILED {}: {error:#}", case.title);
                Tally::FAILED
            })
    })?;
    Ok(results.into_iter().sum())
}

/// The races of a report in a few words each.
fn told(report: &Report) -> String {
    let one = |race: &Race| {
        let what = race.what.name.as_deref().unwrap_or("memory without a name");
        let standing = race
            .analysed
            .as_ref()
            .map_or("caught", |a| a.standing.name());
        format!("{standing} {} ({})", what, judge::word(race.class))
    };
    let told: Vec<String> = report.races.iter().map(one).collect();
    match told.is_empty() {
        true => "nothing".to_owned(),
        false => told.join(", "),
    }
}

impl Case {
    /// Checks it and prints what was found.
    fn run(&self, redhanded: &Path, options: &Options, folder: &Path) -> Result<Tally> {
        let path = folder.join(format!("{}.json", self.title.replace('/', "-")));
        let _ = fs::remove_file(&path);
        let mut check = Command::new(redhanded);
        check.args(["check", "--quiet", "--fail-on", "never", "--hunt"]);
        // The hunt ends when everything was caught. Where nothing can be, it takes all its time.
        check.arg(match (self.claims.list, &options.hunt_in_vain) {
            (List::Never, Some(shorter)) => shorter,
            _ => &options.hunt,
        });
        check.arg("--json").arg(&path).arg("--").arg(&self.program);
        let outcome = command::captured(&mut check, LIMIT)?;
        let report = judge::read(&path);
        let told = match &report {
            Ok(report) => told(report),
            Err(_) => outcome.stderr.lines().last().unwrap_or_default().to_owned(),
        };
        let wrong = match &report {
            Ok(report) => self.wrong(report),
            Err(error) => vec![error.to_string()],
        };
        let word = if wrong.is_empty() { "ok" } else { "FAILED" };
        println!("{word:6} {}: {told}", self.title);
        for wrong in &wrong {
            println!("       {wrong}");
        }
        Ok(match wrong.is_empty() {
            true => Tally::PASSED,
            false => Tally::FAILED,
        })
    }

    /// What is not as it must be.
    fn wrong(&self, report: &Report) -> Vec<String> {
        let sure = || report.races.iter().filter(|race| !race.is_suspect());
        let mut wrong = Vec::new();
        match self.claims.list {
            List::Expected => {
                for claim in &self.claims.expects {
                    let told = claim.without_values();
                    if !sure().any(|race| self.circumstances.meets(&told, race)) {
                        wrong.push(format!("not found: {claim}"));
                    }
                }
            }
            List::Never => {
                let races = sure().filter(|race| race.class == Class::Race);
                wrong.extend(races.map(|race| format!("reported: {}", race.fingerprint)));
                let suspects = report.races.iter().filter(|race| race.is_suspect()).count();
                if self.is_rust() && suspects > MOST_SUSPECTS {
                    wrong.push(format!("{suspects} suspects"));
                }
            }
        }
        wrong
    }

    fn is_rust(&self) -> bool {
        let language = self.build.as_ref().map(|build| build.program.language());
        language == Some(Language::Rust)
    }
}

/// One build of each program of the corpus, an optimised one if there is one.
fn corpus() -> Result<Vec<Case>> {
    let programs = program::read_all(paths::root(), Path::new("corpus"))?;
    let cases = programs.iter().filter_map(|program| {
        let optimised = program.variants.iter().find(|variant| variant.level != '0');
        let variant = optimised.or(program.variants.first())?;
        let build = Build::new(program, variant, false);
        let circumstances = Circumstances {
            scant: program.is_doubtful(variant),
            ..Circumstances::default()
        };
        let title = build.title();
        Some(Case {
            title: title.split(' ').next().unwrap_or_default().to_owned(),
            program: build.path.clone(),
            claims: program.claims.clone(),
            circumstances,
            build: Some(build),
        })
    });
    Ok(cases.collect())
}

/// The programs whose accesses are kept apart by sleeps.
fn apart() -> Result<Vec<Case>> {
    let sources = paths::root().join("corpus/apart");
    let folder = paths::target().join("check/apart");
    fs::create_dir_all(&folder)?;
    let mut cases = Vec::new();
    for entry in fs::read_dir(&sources).context("cannot read corpus/apart")? {
        let source = entry?.path();
        let Some(name) = source.file_stem().filter(|_| is_c(&source)) else {
            continue;
        };
        let program = folder.join(name);
        let mut compiler = Command::new("gcc");
        compiler.args(["-std=gnu11", "-g", "-O1", "-pthread", "-o"]);
        compiler.arg(&program).arg(&source);
        let outcome = command::captured(&mut compiler, LIMIT)?;
        ensure!(
            outcome.success(),
            "{} does not compile: {}",
            source.display(),
            outcome.stderr
        );
        let mut claims = Claims::new(List::Expected);
        let text = fs::read_to_string(&source)?;
        directives(&text, |key, value| {
            ensure!(claims.take(key, value)?, "`{key}` is no directive here");
            Ok(())
        })
        .and_then(|()| claims.check())
        .with_context(|| format!("bad claims in {}", source.display()))?;
        cases.push(Case {
            title: format!("apart/{}", name.to_string_lossy()),
            program,
            claims,
            circumstances: Circumstances::default(),
            build: None,
        });
    }
    cases.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(cases)
}

fn is_c(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::sample::{race, report};

    /// What is wrong if a program with these claims has these races.
    fn wrong(list: List, claims: &[&str], races: &[(&str, &str)]) -> Vec<String> {
        let key = match list {
            List::Expected => "expect",
            List::Never => "twin-expect",
        };
        let mut all = Claims::new(list);
        for claim in claims {
            all.take(key, claim).unwrap();
        }
        let case = Case {
            title: "test".to_owned(),
            program: PathBuf::new(),
            claims: all,
            circumstances: Circumstances::default(),
            build: None,
        };
        let found = races.iter().map(|(name, standing)| {
            race(&format!(
                r#"{{"what": {{"name": "{name}"}}, "standing": "{standing}",
                     "found_by": ["happens-before"],
                     "accesses": [{{"function": "put"}}, {{"function": "get"}}]}}"#
            ))
        });
        case.wrong(&report(0, found.collect()))
    }

    #[test]
    fn each_claim_must_be_met_by_a_race_that_is_sure() {
        let claims = [
            "what=first functions=put,get",
            "what=second functions=get,put",
        ];
        let (first, second) = (("first", "unordered"), ("second", "caught"));
        let wrong = |races: &[(&str, &str)]| wrong(List::Expected, &claims, races).len();
        assert_eq!(wrong(&[first, second]), 0);
        assert_eq!(wrong(&[first]), 1);
        assert_eq!(wrong(&[first, ("other", "caught")]), 1);
        assert_eq!(wrong(&[first, ("second", "suspect")]), 1);
    }

    #[test]
    fn what_must_not_be_reported_may_be_suspected() {
        let claims = ["what=first functions=put,get"];
        let wrong = |standing| wrong(List::Never, &claims, &[("any", standing)]).len();
        assert_eq!((wrong("suspect"), wrong("unordered")), (0, 1));
    }
}
