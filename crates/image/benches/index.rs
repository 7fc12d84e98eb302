//! How fast a large binary is indexed: text per second, sites, memory, how much the
//! cores help, and what the first name takes.
//!
//! `cargo bench -p redhanded-image --bench index -- [FILE]`; without a file the
//! largest of the usual large ones on this machine.

use redhanded_image::Image;
use redhanded_model::Svma;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() {
    let named = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let Some(path) = named.map(PathBuf::from).or_else(largest) else {
        eprintln!("no large binary found: give one as argument");
        return;
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{}", path.display());
    println!(
        "{:>7} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "threads", "text MB", "seconds", "MB/s", "sites", "RssAnon MB"
    );
    // A fresh image each time: nothing is kept from one run to the next, and the
    // file's pages are warm from the first, unmeasured one.
    measure(&path, cores);
    let single = measure(&path, 1);
    let all = measure(&path, cores);
    for (threads, run) in [(1, &single), (cores, &all)] {
        println!(
            "{threads:>7} {:>9.1} {:>9.3} {:>9.1} {:>10} {:>10.1}",
            run.megabytes,
            run.seconds,
            run.megabytes / run.seconds,
            run.sites,
            run.anonymous
        );
    }
    println!(
        "{cores} cores are {:.2} times as fast as one",
        single.seconds / all.seconds
    );
    println!(
        "then the first place in the source took {:.3} s, the first variable {:.3} s",
        all.line, all.variable
    );
}

struct Run {
    megabytes: f64,
    seconds: f64,
    line: f64,
    variable: f64,
    sites: usize,
    anonymous: f64,
}

fn measure(path: &Path, threads: usize) -> Run {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("a thread pool");
    pool.install(|| {
        let before = anonymous();
        let begin = Instant::now();
        let image = Image::open(path).unwrap_or_else(|error| panic!("{error}"));
        let sites = image.sites().sites.len();
        let seconds = begin.elapsed().as_secs_f64();
        let (debug, first) = (image.debug(), image.sites().sites.first());
        let begin = Instant::now();
        let _ = debug.frames(first.map_or(Svma(0), |site| site.svma));
        let line = begin.elapsed().as_secs_f64();
        let data = image.segments().iter().find(|segment| !segment.executable);
        let begin = Instant::now();
        let _ = debug.variable_at(data.map_or(Svma(0), |segment| segment.svma));
        let variable = begin.elapsed().as_secs_f64();
        let text: u64 = image
            .functions()
            .as_slice()
            .iter()
            .map(|function| function.end.0 - function.start.0)
            .sum();
        if std::env::var_os("REDHANDED_BENCH_EXCLUDED").is_some() {
            for (reason, count) in &image.sites().excluded.0 {
                println!("{count:>12} {}", reason.describe());
            }
        }
        Run {
            megabytes: text as f64 / 1e6,
            seconds,
            line,
            variable,
            sites,
            anonymous: anonymous() - before,
        }
    })
}

/// Memory of this process that no file backs, in megabytes.
fn anonymous() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kilobytes| kilobytes.parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes / 1e3)
}

fn largest() -> Option<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/bin/gdb")];
    let mut folders = vec![
        PathBuf::from("/usr/lib/x86_64-linux-gnu"),
        PathBuf::from("/usr/lib64"),
        PathBuf::from("/usr/lib"),
    ];
    let rustc = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output();
    if let Ok(output) = rustc {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        folders.push(Path::new(&sysroot).join("lib"));
    }
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("libLLVM") || name.starts_with("librustc_driver") {
                found.push(entry.path());
            }
        }
    }
    found.retain(|path| Image::open(path).is_ok());
    found
        .into_iter()
        .max_by_key(|path| fs::metadata(path).map_or(0, |data| data.len()))
}
