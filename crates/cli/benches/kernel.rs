//! Windows in a kernel: how many there are a second, for how long no CPU runs
//! because of them, what being attached costs while nothing is armed, and how much
//! of a stock kernel is looked at in a while.
//!
//! `cargo bench -p redhanded --bench kernel [-- SECONDS]`: so long is each of its
//! parts. Fetches a kernel first, if none is
//! there yet (see docs/kernel.md).

use redhanded_target::vm::launch::{
    Archive, Provision, Wanted, build_module, cache_folder, provide,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A loop of system calls in the guest, which prints how many there were.
const COUNT: &str = "i=0; e=$(($(cut -d. -f1 /proc/uptime) + SECONDS)); \
    while [ $(cut -d. -f1 /proc/uptime) -lt $e ]; do i=$((i+1)); done; echo $i";

/// Files, pipes, processes and sockets, for ever.
const LOAD: &str = "f() { while :; do for i in 1 2 3 4; do echo $i | cat > /tmp/$1$i; \
    mv /tmp/$1$i /tmp/m$1$i; done; ls -lR /tmp /proc/self > /dev/null 2>&1; rm -f /tmp/?$1?; done; }; \
    f a & f b & (while :; do nc -l -p 7 > /dev/null; done) & \
    while :; do head -c 20000 /dev/zero | nc 127.0.0.1 7 > /dev/null 2>&1; ps > /dev/null; done";

fn main() {
    let seconds: u64 = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next()
        .unwrap_or(20);
    let cache = cache_folder().expect("a cache folder");
    let wanted = Wanted {
        archive: Archive::Release,
        debug: true,
        headers: true,
    };
    let provision = provide(&cache, &wanted, &mut |what| eprintln!("{what}")).expect("a kernel");
    let scratch = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/kernel/demo");
    let module = build_module(&provision, &root, scratch.path()).expect("a module");
    let bench = Bench {
        provision,
        report: scratch.path().join("report.json"),
        seconds,
    };

    println!("hot sites, two CPUs, {seconds} s each");
    for delay in ["15ms", "1ms"] {
        let add = format!("--add={}", module.display());
        let arguments = [&add, "--module=redhanded_demo.ko", "--delay", delay];
        let run = bench.observe(&arguments, &["sleep", "100000"]);
        let (windows, wall) = (number(&run, "windows"), number(&run, "wall_s"));
        println!(
            "  delays up to {delay:>4}: {:.0} windows/s, no CPU ran for {:.2} ms a window",
            windows / wall,
            1e3 * number(&run, "stopped_s") / windows
        );
    }

    let count = COUNT.replace("SECONDS", &seconds.to_string());
    let script = ["sh", "-c", &count];
    let alone = bench.counted(&["--overhead", "0"], &script);
    let attached = bench.counted(&["--function", "no_such_function"], &script);
    println!("a loop of processes in the guest, {seconds} s each");
    println!(
        "  attached with nothing armed: {:.2} times as fast as alone",
        attached / alone
    );

    println!("the whole kernel under a mixed load, {seconds} s");
    let run = bench.observe(&[], &["sh", "-c", LOAD]);
    let sampled = run["sites"]["sampled"].as_u64().unwrap_or(0);
    println!(
        "  {sampled} distinct sites sampled, {:.0} windows/s",
        number(&run, "windows") / number(&run, "wall_s")
    );
}

struct Bench {
    provision: Provision,
    report: PathBuf,
    seconds: u64,
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

    /// The numbers of a run.
    fn observe(&self, arguments: &[&str], workload: &[&str]) -> Value {
        let time = format!("{}s", self.seconds);
        let mut all = vec!["--for", time.as_str(), "--json"];
        let report = self.report.to_string_lossy().into_owned();
        all.push(&report);
        all.extend(arguments);
        let status = self.command(&all, workload).stdout(Stdio::null()).status();
        assert!(status.expect("redhanded runs").success());
        let text = std::fs::read(&self.report).expect("a report");
        let mut report: Value = serde_json::from_slice(&text).expect("JSON");
        report["run"].take()
    }

    /// The number that a workload prints.
    fn counted(&self, arguments: &[&str], workload: &[&str]) -> f64 {
        let output = self.command(arguments, workload).output();
        let printed = output.expect("redhanded runs").stdout;
        let printed = String::from_utf8_lossy(&printed).trim().to_owned();
        printed.parse().expect("a number")
    }
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or(0.0)
}
