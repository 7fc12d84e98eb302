//! The QEMU program, installed on the host or unpacked into the cache.

use super::{last_line, on_file};
use crate::ProvisionError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A QEMU for x86-64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Folders with libraries that the host does not have.
    pub library_path: Vec<PathBuf>,
    /// Folders with its firmware, if that is not where QEMU was built to look.
    pub data_dirs: Vec<PathBuf>,
}

impl Qemu {
    /// A QEMU that finds everything by itself.
    #[must_use]
    pub const fn installed(program: PathBuf) -> Self {
        Self {
            program,
            library_path: Vec::new(),
            data_dirs: Vec::new(),
        }
    }

    /// A command that starts a machine without any devices.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if !self.library_path.is_empty() {
            let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let inherited = std::env::split_paths(&inherited).filter(|p| p != Path::new(""));
            let all = self.library_path.iter().cloned().chain(inherited);
            // A folder with a colon in its name cannot be passed on. The loader then
            // reports the missing library.
            if let Ok(joined) = std::env::join_paths(all) {
                command.env("LD_LIBRARY_PATH", joined);
            }
        }
        command.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        command.args(["-display", "none", "-vga", "none"]);
        for folder in &self.data_dirs {
            command.arg("-L").arg(folder);
        }
        command.stdin(Stdio::null());
        command
    }

    /// The version that it prints.
    ///
    /// # Errors
    /// When it does not run on this host.
    pub fn version(&self) -> Result<String, ProvisionError> {
        let mut command = self.command();
        let output = command
            .arg("--version")
            .output()
            .map_err(on_file("run", &self.program))?;
        if !output.status.success() {
            return Err(ProvisionError::NotRunnable {
                program: self.program.display().to_string(),
                why: last_line(&output.stderr),
            });
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_qemu_is_named_in_the_error() {
        let error = Qemu::installed("/bin/false".into()).version();
        assert!(error.unwrap_err().to_string().contains("/bin/false"));
        assert!(Qemu::installed("/absent/qemu".into()).version().is_err());
    }
}
