//! Windows in a kernel: how many there are a second, for how long no CPU runs
//! because of them, what being attached costs while nothing is armed, and how much
//! of a stock kernel is looked at in a while.
//!
//! `cargo bench -p redhanded --bench kernel [-- SECONDS] [-- --figures FOLDER]`: so
//! long is each of its parts; or the experiments behind Figures 5 and 6 of the
//! DataCollider paper, drawn into a folder. Fetches a kernel first, if none is there
//! yet (see docs/kernel.md).

#![expect(
    clippy::disallowed_methods,
    reason = "benchmarks write into folders of their own"
)]

mod bench;
mod chart;
mod figures;
mod load;
mod trace;

use bench::{Bench, number};
use redhanded_provision::{Archive, Wanted, build_module, cache_folder, provide};
use serde_json::Value;
use std::path::Path;
use trace::Trace;

/// A loop of processes in the guest, which prints how many there were.
const COUNT: &str = "i=0; e=$(($(cut -d. -f1 /proc/uptime) + SECONDS)); \
    while [ $(cut -d. -f1 /proc/uptime) -lt $e ]; do i=$((i+1)); done; echo $i";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds: u64 = arguments
        .iter()
        .find_map(|argument| argument.parse().ok())
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
    };
    let asks = arguments
        .iter()
        .position(|argument| argument == "--figures");
    match asks.and_then(|at| arguments.get(at + 1)) {
        Some(folder) => figures::draw(&bench, Path::new(folder)),
        None => costs(&bench, &module, scratch.path(), seconds),
    }
}

fn costs(bench: &Bench, module: &Path, scratch: &Path, seconds: u64) {
    let time = format!("{seconds}s");
    let trace = Trace::in_folder(scratch);
    let traced = trace.arguments();
    println!("hot sites, two CPUs, {seconds} s each");
    for delay in ["15ms", "1ms"] {
        let add = format!("--add={}", module.display());
        let mut arguments = vec![
            &*add,
            "--module=redhanded_demo",
            "--delay",
            delay,
            "--for",
            &time,
        ];
        arguments.extend(traced.iter().map(String::as_str));
        let (run, _) = bench.observe(&arguments, &["sleep", "100000"]);
        print!("  delays up to {delay:>4}: ");
        tell(&run, &trace);
    }

    let count = COUNT.replace("SECONDS", &seconds.to_string());
    let script = ["sh", "-c", &count];
    let counted = |arguments: &[&str]| -> f64 {
        let printed = bench.printed(arguments, &script);
        printed.parse().expect("a number")
    };
    println!("a loop of processes in the guest, {seconds} s each, three times by turns");
    let mut ratios: Vec<f64> = (0..3)
        .map(|_| {
            let alone = counted(&["--overhead", "0"]);
            counted(&["--function", "no_such_function"]) / alone
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "  attached with nothing armed: {:.2} times as fast as alone ({:.2} to {:.2})",
        ratios[1], ratios[0], ratios[2]
    );

    let load = load::build(&bench.provision, scratch);
    let with = if load.has_ext4() {
        ""
    } else {
        ", without ext4"
    };
    println!("the whole kernel under a mixed load{with}, {seconds} s");
    let mut arguments = vec!["--for", &time];
    arguments.extend(load.arguments.iter().chain(&traced).map(String::as_str));
    let workload: Vec<&str> = load.workload.iter().map(String::as_str).collect();
    let (run, _) = bench.observe(&arguments, &workload);
    let sampled = run["run"]["sites"]["sampled"].as_u64().unwrap_or(0);
    print!("  {sampled} distinct sites sampled, ");
    tell(&run, &trace);
}

/// How many windows there were, and for how long nobody ran.
fn tell(run: &Value, trace: &Trace) {
    let windows = number(run, "windows");
    println!(
        "{:.0} windows/s, no CPU ran for {:.2} ms a window (median)",
        windows / number(run, "wall_s"),
        1e3 * number(run, "stopped_per_window_s")
    );
    if let Some(stood) = trace.stood() {
        println!(
            "    on average {:.2} ms by what the tracer hears, {:.2} ms by QEMU's own trace",
            1e3 * number(run, "stopped_s") / windows,
            1e3 * stood / windows
        );
    }
}
