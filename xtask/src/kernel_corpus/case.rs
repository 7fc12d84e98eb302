//! A module that is loaded and at work, as a case for a trial.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use redhanded_model::Class;

use super::guest::Guest;
use super::module::Module;
use crate::claims::Claims;
use crate::judge::Circumstances;
use crate::redhanded::{Finding, Redhanded, Round};
use crate::trial::Case;

/// A module that is loaded into a guest.
pub struct ModuleCase<'a> {
    guest: RefCell<&'a mut Guest>,
    module: &'a Module,
    redhanded: &'a Redhanded,
    vmlinux: &'a Path,
    /// The built module.
    file: PathBuf,
    /// The process groups of its workload.
    workload: Vec<String>,
}

impl<'a> ModuleCase<'a> {
    /// Loads a module, whose file is in `folder`, and starts its workload.
    pub fn load(
        guest: &'a mut Guest,
        module: &'a Module,
        redhanded: &'a Redhanded,
        vmlinux: &'a Path,
        folder: &Path,
    ) -> Result<Self> {
        guest.load(&module.file)?;
        for command in &module.setup {
            guest.run(command)?;
        }
        let mut workload = Vec::new();
        for command in &module.workload {
            let started = guest.run(&in_background(command))?;
            workload.push(started.trim().to_owned());
        }
        Ok(Self {
            guest: RefCell::new(guest),
            module,
            redhanded,
            vmlinux,
            file: folder.join(&module.file),
            workload,
        })
    }

    /// Ends the workload and unloads the module.
    pub fn unload(self) -> Result<()> {
        let guest = self.guest.into_inner();
        for group in &self.workload {
            guest.run(&format!("kill -9 -{group}"))?;
        }
        // The processes that were killed may not have ended yet.
        for command in &self.module.cleanup {
            guest.persuade(command)?;
        }
        guest.persuade(&format!("rmmod {}", self.module.name))
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
            text(&self.file),
            "--module".to_owned(),
            self.module.name.clone(),
        ];
        arguments.extend_from_slice(&self.module.options);
        arguments.extend(round.arguments(report));
        arguments
    }
}

impl Case for ModuleCase<'_> {
    fn title(&self) -> String {
        self.module.title()
    }

    fn claims(&self) -> &Claims {
        &self.module.claims
    }

    fn is_twin(&self) -> bool {
        self.module.twin
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
        let finding = self.redhanded.run(&self.title(), round, |report| {
            self.arguments(gdb, report, round)
        })?;
        // A guest that is stopped, or that runs into a leftover breakpoint, gives no
        // answer.
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

/// Starts a command in its own process group and prints the number of that group.
///
/// The command is not a child of the shell: when a child ends, busybox's `read` starts
/// again and forgets the part of a line that it has read.
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
    fn a_workload_runs_in_its_own_process_group() {
        let script = in_background("echo 'a' \"b\"; exec sleep 1000");
        let said = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let told = String::from_utf8(said.stdout).unwrap();
        let group = Pid::from_raw(told.trim().parse().unwrap());
        // The new process makes the group, and may not have run yet. The program
        // `kill` is no help: that of Debian 12 reads `-1234` as -1, which is every
        // process.
        let asked = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            killpg(group, Signal::SIGKILL).is_ok()
        });
        assert!(asked, "there is no group {group}");
    }
}
