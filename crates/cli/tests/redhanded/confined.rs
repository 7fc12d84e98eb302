//! The process that reads debug information: what it may do, and what becomes of a run
//! without it.

use crate::place::{Place, Running, members};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
/// Reading any file, and becoming other users to read for them: bits 2, 6 and 7.
const READING: u64 = 0xc4;

fn status(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

/// Whether a process may write to no file. So it is with those that replay, which are confined,
/// too, and may be so sooner.
fn replays(pid: u32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file size"));
    line.and_then(|line| line.split_whitespace().next()) == Some("0")
}

/// The process of a run that reads debug information, once it is confined.
fn namer(running: &Running) -> u32 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let confined = |pid: &u32| {
            status(*pid, "NoNewPrivs:") == "1"
                && status(*pid, "Seccomp:") == "2"
                && status(*pid, "Name:") == "redhanded"
                && !replays(*pid)
        };
        let all = members(running.child.id()).into_iter();
        if let Some(pid) = all.map(|(pid, ..)| pid).find(confined) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no process is confined");
}

#[test]
fn whoever_reads_debug_information_can_do_nothing_else() {
    let place = Place::with("racy");
    // No shorter, because it is looked at while it runs, and has a race to find.
    let line = "run --for 10s --kill --json report.json -- ./racy";
    let running = place.start(place.redhanded(line.split(' ')));
    let namer = namer(&running);
    let capabilities = u64::from_str_radix(&status(namer, "CapEff:"), 16).unwrap();
    assert_eq!(capabilities & !READING, 0, "{capabilities:x}");
    let limits = fs::read_to_string(format!("/proc/{namer}/limits")).unwrap();
    let memory = limits
        .lines()
        .find(|line| line.starts_with("Max data size"));
    assert!(!memory.unwrap().contains("unlimited"), "{limits}");
    // Only root can look into it.
    let files = fs::read_dir(format!("/proc/{namer}/fd"));
    assert!(files.is_ok() || !geteuid().is_root());
    for file in files.into_iter().flatten().flatten() {
        let number: u32 = file.file_name().to_str().unwrap().parse().unwrap();
        // Files of the target come and go.
        let Ok(target) = fs::read_link(file.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        match number {
            0 | 1 => assert_eq!(target, "/dev/null"),
            2 => {}
            _ => assert!(
                target.starts_with("socket:") || target.starts_with('/'),
                "{number}: {target}"
            ),
        }
    }
    let outcome = running.end();
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    for race in report["races"].as_array().unwrap() {
        assert!(race["accesses"][0]["line"].is_u64(), "{race:#}");
    }
}

#[test]
fn without_it_races_are_told_by_their_addresses() {
    let place = Place::with("racy");
    let line = "run --for 8s --kill --json report.json -- ./racy";
    let running = place.start(place.redhanded(line.split(' ')));
    let namer = namer(&running);
    kill(Pid::from_raw(namer.cast_signed()), Signal::SIGKILL).unwrap();
    let outcome = running.end();
    assert!([0, 66].contains(&outcome.status), "{outcome:#?}");
    assert!(
        outcome.says("the process that reads debug information was killed by signal 9"),
        "{outcome:#?}"
    );
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let unnamed = |race: &&Value| {
        let accesses = race["accesses"].as_array().unwrap();
        accesses.iter().all(|access| {
            access["function"].is_null() && access["pc"].is_string() && access["line"].is_null()
        })
    };
    let races = report["races"].as_array().unwrap();
    let race = races.iter().find(unnamed);
    let race = race.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(
        race["accesses"][0]["stack"][0]["module"], "racy",
        "{race:#}"
    );
}

#[test]
fn it_has_the_rights_of_the_user_whom_the_target_belongs_to() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can attach to somebody else's process");
        return;
    }
    let place = Place::with("server");
    let mut command = place.command(place.path("server"));
    command.uid(NOBODY).gid(NOBODY);
    let mut server = place.start(command);
    server.until_printed("serving");
    let pid = server.child.id().to_string();
    let line = ["attach", "--for", "10s", "--json", "report.json", &pid];
    let running = place.start(place.redhanded(line));
    let namer = namer(&running);
    // It becomes that user a moment after it has started.
    let is_nobody = || {
        let users = status(namer, "Uid:");
        assert_ne!(users, "", "it ended as root");
        users.split_whitespace().all(|user| user == "65534")
    };
    while !is_nobody() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status(namer, "CapPrm:"), "0000000000000000");
    let outcome = running.end();
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["races"][0]["what"]["name"], "requests", "{report:#}");
}

#[test]
fn a_program_that_gives_up_its_rights_is_read_for_without_them() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root has rights to give up");
        return;
    }
    let place = Place::new();
    let secret = place.path("secret.c");
    fs::write(&secret, "password\n".repeat(100)).unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let named = format!("tests/redhanded/fixtures/racy.c={}", secret.display());
    let named = format!("-fdebug-prefix-map={}/{named}", env!("CARGO_MANIFEST_DIR"));
    place.build("racy", "racy", &[&named]);
    let dropped = "setpriv --reuid 65534 --regid 65534 --clear-groups ./racy";
    for (program, quoted) in [("./racy", true), (dropped, false)] {
        // The text is another's, so what is caught is only possibly atomic. What is called benign
        // quotes nothing otherwise.
        let line = format!("run --max-windows 200 --kill --for 2m --show benign -- {program}");
        let outcome = place.run(line.split(' '));
        assert!(outcome.stderr.contains("secret.c:"), "{outcome:#?}");
        let told = outcome.stderr.contains("password");
        assert_eq!(told, quoted, "{program}: {outcome:#?}");
    }
}

#[test]
fn a_worker_that_gives_no_answer_is_replaced() {
    // It hangs, or it dies.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        replaced_after(signal);
    }
}

#[track_caller]
fn replaced_after(signal: Signal) {
    let place = Place::with("racy");
    let line = "run --for 10s --kill --json report.json -- ./racy";
    let running = place.start(place.redhanded(line.split(' ')));
    for worker in workers(&running, 1) {
        kill(Pid::from_raw(worker.cast_signed()), signal).unwrap();
    }
    let outcome = running.end();
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let replayed = |race: &Value| race["verdict"]["replay"]["orders"].as_u64() > Some(0);
    let races = report["races"].as_array().unwrap();
    assert!(races.iter().any(replayed), "{report:#}");
    assert!(!outcome.says("the process that replays"), "{outcome:#?}");
}

#[test]
fn the_worker_that_makes_scenarios_is_replaced() {
    let place = Place::with("outcomes");
    let line = "run --for 30s --kill --overhead 50% --scenarios kept -- ./outcomes";
    let running = place.start(place.redhanded(line.split(' ')));
    for worker in workers(&running, 2) {
        kill(Pid::from_raw(worker.cast_signed()), Signal::SIGKILL).unwrap();
    }
    let outcome = running.end();
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    assert!(outcome.says("a scenario could not be made"), "{outcome:#?}");
    assert!(outcome.says("redhanded: kept "), "{outcome:#?}");
}

/// So many processes that replay, once there are as many.
fn workers(running: &Running, count: usize) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let all = members(running.child.id()).into_iter();
        let found: Vec<u32> = all
            .map(|(pid, ..)| pid)
            .filter(|pid| replays(*pid))
            .collect();
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nobody replays");
        std::thread::sleep(Duration::from_millis(1));
    }
}
