//! A module that is loaded and at work, ready to be put on trial.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use redhanded_model::Class;

use super::guest::Guest;
use super::subject::Subject;
use crate::claims::Claims;
use crate::drive::{Driver, Finding, Round};
use crate::judge::Circumstances;
use crate::trial::Case;

/// A module in a guest.
pub struct Loaded<'a> {
    guest: RefCell<&'a mut Guest>,
    subject: &'a Subject,
    driver: &'a Driver,
    vmlinux: &'a Path,
    /// The file that it was built into.
    module: PathBuf,
    /// The process groups of its workload.
    workload: Vec<String>,
}

impl<'a> Loaded<'a> {
    /// Loads a module, which is also in `folder`, and starts its workload.
    pub fn load(
        guest: &'a mut Guest,
        subject: &'a Subject,
        driver: &'a Driver,
        vmlinux: &'a Path,
        folder: &Path,
    ) -> Result<Self> {
        guest.load(&subject.file)?;
        for command in &subject.setup {
            guest.run(command)?;
        }
        let mut workload = Vec::new();
        for command in &subject.workload {
            let started = guest.run(&in_background(command))?;
            workload.push(started.trim().to_owned());
        }
        Ok(Self {
            guest: RefCell::new(guest),
            subject,
            driver,
            vmlinux,
            module: folder.join(&subject.file),
            workload,
        })
    }

    /// Ends the workload and unloads the module.
    pub fn unload(self) -> Result<()> {
        let guest = self.guest.into_inner();
        for group in &self.workload {
            guest.run(&format!("kill -9 -{group}"))?;
        }
        // Whoever was killed may still be on his way out.
        for command in &self.subject.cleanup {
            guest.persuade(command)?;
        }
        guest.persuade(&format!("rmmod {}", self.subject.name))
    }

    fn arguments(&self, gdb: String, report: &Path, round: &Round) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut arguments = vec![
            "kernel".to_owned(),
            "--gdb".to_owned(),
            gdb,
            "--vmlinux".to_owned(),
            text(self.vmlinux),
            "--modules".to_owned(),
            text(&self.module),
            "--module".to_owned(),
            self.subject.name.clone(),
            "--json".to_owned(),
            text(report),
            "--seed".to_owned(),
            round.seed.to_string(),
            "--for".to_owned(),
            format!("{}ms", round.time.as_millis()),
        ];
        arguments.extend_from_slice(&self.subject.options);
        if let Some(windows) = round.windows {
            arguments.extend(["--max-windows".to_owned(), windows.to_string()]);
        }
        for function in &round.focus {
            arguments.extend(["--function".to_owned(), function.clone()]);
        }
        arguments
    }
}

impl Case for Loaded<'_> {
    fn title(&self) -> String {
        self.subject.title()
    }

    fn claims(&self) -> &Claims {
        &self.subject.claims
    }

    fn is_twin(&self) -> bool {
        self.subject.twin
    }

    fn circumstances(&self) -> Result<Circumstances> {
        Ok(Circumstances::default())
    }

    fn globs(&self, functions: &[String]) -> Vec<String> {
        functions.to_vec()
    }

    fn tolerates(&self, _class: Class) -> bool {
        false
    }

    fn run(&self, round: &Round) -> Result<Finding> {
        let mut guest = self.guest.borrow_mut();
        let gdb = guest.gdb();
        let finding = self
            .driver
            .observe(&self.subject.title(), round, |report| {
                self.arguments(gdb, report, round)
            })?;
        // Left standing, or with a breakpoint in its way, it would not answer.
        guest.run("true")?;
        for race in &finding.report.races {
            for access in &race.accesses {
                if access.thread.context.is_none() {
                    bail!("a side of a race has no context\n$ {}", finding.command);
                }
            }
        }
        Ok(finding)
    }
}

/// Starts a command in a process group of its own and says which.
///
/// It is not the shell's own child: busybox's `read` begins anew when one ends, and
/// forgets what it has read of a line.
fn in_background(command: &str) -> String {
    let quoted = command.replace('\'', r"'\''");
    format!("(setsid sh -c '{quoted}' </dev/null >/dev/null 2>&1 & echo $!)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_workload_runs_in_a_group_of_its_own_that_is_told() {
        let script = in_background("echo 'a' \"b\"; exec sleep 1000");
        let said = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let told = String::from_utf8(said.stdout).unwrap();
        let group = Pid::from_raw(told.trim().parse().unwrap());
        // The group is made by the new process, which may not have run yet.
        // Not by the program kill: that of Debian 12 takes `-1234` for -1,
        // which is everybody.
        let asked = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            killpg(group, Signal::SIGKILL).is_ok()
        });
        assert!(asked, "there is no group {group}");
    }
}
