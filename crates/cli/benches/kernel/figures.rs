//! The paper's own experiments, with a kernel of today: a fixed amount of work is
//! done with more and more samples a second, and it is looked at how much longer it
//! takes (its Figure 5) and how many distinct races are found (its Figure 6).

use crate::bench::{Bench, number};
use crate::chart::{Chart, Series};
use std::collections::BTreeSet;
use std::path::Path;

/// Samples a second that are aimed at.
const RATES: [u32; 6] = [1, 2, 5, 10, 20, 30];
/// How often each is run, with another seed each time.
const ROUNDS: u32 = 2;

/// A fixed amount of work, and the time that it took by the guest's clock.
const WORK: &str = "now() { read up rest < /proc/uptime; echo $up; }; begin=$(now); \
    work() { n=0; while [ $n -lt 30 ]; do n=$((n+1)); for i in 1 2 3; do echo $i | cat > /tmp/$1$i; \
    mv /tmp/$1$i /tmp/m$1$i; cat /tmp/*$1* > /dev/null 2>&1; done; ls -lR /tmp /proc/self > /dev/null 2>&1; \
    head -c 20000 /dev/zero | md5sum > /dev/null; ps > /dev/null; rm -f /tmp/*$1?; done; }; \
    work a & work b & wait; echo $begin $(now)";

/// What the runs at one rate came to.
struct Point {
    /// Samples a second, as they were.
    samples: f64,
    /// How much longer the work took than alone.
    overhead: f64,
    races: BTreeSet<String>,
}

/// Runs the experiments and draws them.
pub fn draw(bench: &Bench, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder for the figures");
    let work = ["sh", "-c", WORK];
    let alone: f64 = (0..ROUNDS)
        .map(|_| took(&bench.printed(&["--overhead", "0"], &work)))
        .sum::<f64>()
        / f64::from(ROUNDS);
    println!("the work alone: {alone:.1} s");
    println!("  aimed at   samples/s   time    distinct reports (so far)");
    let mut points = Vec::new();
    let mut all = BTreeSet::new();
    for rate in RATES {
        let point = measure(bench, &work, rate, alone);
        all.extend(point.races.iter().cloned());
        println!(
            "  {rate:>8}   {:>9.1}   {:.2} x  {} ({})",
            point.samples,
            1.0 + point.overhead,
            point.races.len(),
            all.len()
        );
        points.push(point);
    }
    let times: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (point.samples, 1.0 + point.overhead))
        .collect();
    let races: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (1.0 + point.overhead, point.races.len() as f64))
        .collect();
    let charts = [
        (
            "kernel-time.svg",
            Chart {
                title: "Time of a fixed workload in a kernel, against samples a second",
                x: "samples a second",
                y: "time, compared with no sampling",
                logarithmic: true,
                series: Series(times),
            },
        ),
        (
            "kernel-races.svg",
            Chart {
                title: "Distinct reports, against what they cost",
                x: "time, compared with no sampling",
                y: "distinct reports of two runs",
                logarithmic: false,
                series: Series(races),
            },
        ),
    ];
    for (name, chart) in charts {
        let path = folder.join(name);
        std::fs::write(&path, chart.svg()).expect("the figure can be written");
        println!("wrote {}", path.display());
    }
}

fn measure(bench: &Bench, work: &[&str], rate: u32, alone: f64) -> Point {
    let rate = rate.to_string();
    let mut point = Point {
        samples: 0.0,
        overhead: 0.0,
        races: BTreeSet::new(),
    };
    for seed in 1..=ROUNDS {
        let seed = seed.to_string();
        let (report, printed) = bench.observe(&["--rate", &rate, "--seed", &seed], work);
        let share = 1.0 / f64::from(ROUNDS);
        // The guest's clock stands still while the machine does.
        let time = took(&printed) + number(&report, "stopped_s");
        point.samples += share * number(&report, "samples") / time;
        point.overhead += share * (time / alone - 1.0);
        let races = report["races"].as_array().cloned().unwrap_or_default();
        let names = races.iter().filter_map(|race| race["fingerprint"].as_str());
        point.races.extend(names.map(str::to_owned));
    }
    point
}

/// The time between the two moments that the work printed.
fn took(printed: &str) -> f64 {
    let line = printed.lines().last().unwrap_or_default();
    let times: Vec<f64> = line.split(' ').filter_map(|t| t.parse().ok()).collect();
    let [begin, end] = times.as_slice() else {
        panic!("the work printed '{line}'");
    };
    end - begin
}
