//! Runs of the tool on a stock kernel under emulation.

use redhanded_provision::Provision;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What every run needs.
pub struct Bench {
    pub provision: Provision,
    /// Where reports are written.
    pub report: PathBuf,
}

impl Bench {
    fn command(&self, arguments: &[&str], workload: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redhanded"));
        let vmlinux = self.provision.vmlinux.as_ref().expect("debug information");
        command
            .args(["kernel", "--accel", "tcg", "--quiet", "--fail-on", "never"])
            .arg("--kernel")
            .arg(&self.provision.kernel)
            .arg("--vmlinux")
            .arg(vmlinux)
            .args(arguments)
            .arg("--")
            .args(workload)
            .stderr(Stdio::null());
        command
    }

    /// What a run reports, and what its workload printed.
    pub fn observe(&self, arguments: &[&str], workload: &[&str]) -> (Value, String) {
        let report = self.report.to_string_lossy().into_owned();
        let mut all = vec!["--json", &report];
        all.extend(arguments);
        let output = self.command(&all, workload).output();
        let output = output.expect("redhanded runs");
        assert!(output.status.success(), "{:?}", output.status);
        let text = std::fs::read(&self.report).expect("a report");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (serde_json::from_slice(&text).expect("JSON"), printed)
    }

    /// What a workload prints, observed or not.
    pub fn printed(&self, arguments: &[&str], workload: &[&str]) -> String {
        let output = self.command(arguments, workload).output();
        let printed = output.expect("redhanded runs").stdout;
        String::from_utf8_lossy(&printed).trim().to_owned()
    }
}

/// A number of a report's `run`.
pub fn number(report: &Value, key: &str) -> f64 {
    report["run"][key].as_f64().unwrap_or(0.0)
}
