//! Checks all dependencies with cargo-deny, as `deny.toml` says: licences, sources,
//! versions and known vulnerabilities.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::{command, paths};

/// Pinned: a new version must not change the verdict on an old commit.
const VERSION: &str = "0.20.2";

/// How long asking for known vulnerabilities may take.
const ADVISORIES_WITHIN: Duration = Duration::from_secs(120);

/// Checks all dependencies; cargo-deny prints what is wrong.
pub fn check() -> Result<()> {
    let deny = cargo_deny()?;
    let deny = deny.to_string_lossy();
    let offline = ["bans", "licenses", "sources"];
    let words = [&["check", "--hide-inclusion-graph"][..], &offline].concat();
    ensure!(
        command::shown(&deny, &words)?,
        "cargo-deny objects to a dependency"
    );
    let mut advisories = Command::new(&*deny);
    advisories
        .args(["check", "advisories"])
        .current_dir(paths::root());
    let outcome = command::captured(&mut advisories, ADVISORIES_WITHIN)?;
    match judge(&outcome) {
        Advisories::None => println!("no known vulnerabilities"),
        Advisories::NotReached(why) => {
            println!("NOT CHECKED for known vulnerabilities: {why}");
        }
        Advisories::Found => bail!("cargo-deny knows of trouble\n{}", outcome.stderr),
    }
    Ok(())
}

/// What came of asking for known vulnerabilities.
#[derive(Debug, PartialEq, Eq)]
enum Advisories {
    None,
    /// The database is on the network, and a change must not fail for that.
    NotReached(String),
    Found,
}

fn judge(outcome: &command::Outcome) -> Advisories {
    let unreachable = "failed to fetch advisory database";
    let mut lines = outcome.stderr.lines();
    if outcome.success() {
        Advisories::None
    } else if outcome.status.is_none() {
        Advisories::NotReached("the database did not answer in time".to_owned())
    } else if let Some(line) = lines.find(|line| line.contains(unreachable)) {
        let at = line.find(unreachable).unwrap_or(0);
        Advisories::NotReached(line[at..].to_owned())
    } else {
        Advisories::Found
    }
}

/// The program, which is built on first use. Without optimisation that takes 100 seconds
/// of CPU time instead of 260, and a check takes a second all the same.
fn cargo_deny() -> Result<PathBuf> {
    let folder = paths::target().join(format!("tools/cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if program.exists() {
        return Ok(program);
    }
    let build = folder.join("build");
    let (root, target) = (folder.to_string_lossy(), build.to_string_lossy());
    let mut words = vec!["install", "cargo-deny", "--version", VERSION, "--locked"];
    words.extend(["--debug", "--config", "profile.dev.debug=false", "--quiet"]);
    words.extend(["--root", &root, "--target-dir", &target]);
    ensure!(
        command::shown(&paths::cargo(), &words)?,
        "cargo-deny cannot be built"
    );
    // Only the program is needed, not what it was built from.
    let _ = fs::remove_dir_all(&build);
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn judged(status: Option<i32>, stderr: &str) -> Advisories {
        judge(&command::Outcome {
            status: status.map(|code| ExitStatus::from_raw(code << 8)),
            stdout: String::new(),
            stderr: stderr.to_owned(),
        })
    }

    #[test]
    fn only_a_database_that_is_out_of_reach_is_forgiven() {
        assert_eq!(judged(Some(0), "advisories ok"), Advisories::None);
        assert_eq!(
            judged(Some(1), "error[vulnerability]: a crate is unsound"),
            Advisories::Found
        );
        let offline = "2026-11-16 12:51:18 [ERROR] failed to fetch advisory database https://x";
        assert_eq!(
            judged(Some(1), offline),
            Advisories::NotReached("failed to fetch advisory database https://x".to_owned())
        );
        assert!(matches!(judged(None, ""), Advisories::NotReached(_)));
    }
}
