//! `redhanded analyze` and `redhanded check`.
//!
//! Those that run a program need the recorder, which `cargo xtask recorder` builds.

use crate::place::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redhanded_recording::wire::{ChunkKind, Entry, Kind};
use redhanded_recording::{Ending, Header, Item, Writer};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The accesses of two threads that nothing orders, in code that no file has.
fn recording() -> Vec<u8> {
    recording_with(true)
}

fn recording_with(has_end: bool) -> Vec<u8> {
    let item = |kind, address, word, number: Option<u64>, values: &[u64]| {
        let entry = Entry {
            kind,
            size: 8,
            address,
            word,
        };
        Item::new(entry, number, values)
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for thread in 1..=2u64 {
        let start = item(Kind::Start, 0, 0, Some(thread), &[0, 0]);
        let write = item(Kind::Write, 0x50_0000, thread, None, &[]);
        let exit = item(Kind::Exit, 0, 0, Some(10 + thread), &[]);
        let created = item(Kind::SystemReturn, 56, 0, None, &[2]);
        let mut items = vec![start, created, write];
        items.extend(has_end.then_some(exit));
        let entries = items.iter().flat_map(Item::to_entries);
        let bytes: Vec<u8> = entries.flat_map(Entry::pack).collect();
        let thread = u32::try_from(thread).unwrap();
        writer
            .append(1, ChunkKind::Entries, thread, &bytes)
            .unwrap();
    }
    if has_end {
        writer.append(1, ChunkKind::Goodbye, 0, b"").unwrap();
    }
    writer.finish(&Ending::default()).unwrap()
}

#[test]
fn what_is_no_recording_is_refused_in_a_sentence() {
    let place = Place::new();
    fs::write(place.path("text"), "nothing of the kind, but long enough").unwrap();
    place.run(["analyze", "text"]).refused(
        125,
        "text is not a recording, which redhanded record writes",
    );
    place
        .run(["analyze", "missing"])
        .refused(125, "cannot read missing: No such file");
    let whole = recording();
    fs::write(place.path("start"), &whole[..20]).unwrap();
    place.run(["analyze", "start"]).refused(125, "is damaged");
}

/// Neither waits for a writer that never comes.
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let place = Place::new();
    let mode = nix::sys::stat::Mode::S_IRWXU;
    nix::unistd::mkfifo(&place.path("pipe"), mode).unwrap();
    for line in [
        "analyze pipe",
        "report pipe",
        "report --annotations pipe report.json",
        "triage --import-tsan pipe",
    ] {
        fs::write(
            place.path("report.json"),
            "{\"schema\": \"redhanded-report/1\"}",
        )
        .unwrap();
        let outcome = place.run(line.split(' '));
        assert_eq!(outcome.status, 125, "{line}: {outcome:#?}");
        assert!(outcome.says("pipe"), "{line}: {outcome:#?}");
    }
}

#[test]
fn a_report_is_read_up_to_a_size() {
    let place = Place::new();
    let path = place.path("large.json");
    fs::write(&path, "{\"schema\": ").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let most = (redhanded_sys::total_memory() / 8).max(128 << 20);
    file.set_len(most + 1).unwrap();
    let outcome = place.run(["report", "large.json"]);
    outcome.refused(125, &format!("it is longer than {} MB", most >> 20));
}

/// Nothing shows that the accesses are plain, so nothing is claimed.
#[test]
fn code_without_a_file_is_never_called_a_race() {
    let place = Place::new();
    fs::write(place.path("r"), recording()).unwrap();
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let report = report(&place, "report.json");
    for race in report["races"].as_array().unwrap() {
        assert_ne!(race["class"], "race", "{race:#}");
        assert_eq!(race["seen_by"], "analysis");
    }
    assert_eq!(report["run"]["recorded"]["threads"], 2);
}

#[test]
fn a_recording_that_is_cut_short_is_analysed_up_to_there() {
    let place = Place::new();
    let whole = recording();
    fs::write(place.path("r"), &whole[..whole.len() - 60]).unwrap();
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(outcome.says("r is cut short or damaged"), "{outcome:#?}");
    assert_eq!(report(&place, "report.json")["run"]["cut_short"], true);
}

/// All that was written is in the file, but a process of several threads was killed.
#[test]
fn a_process_without_an_end_is_no_damage() {
    let place = Place::new();
    fs::write(place.path("r"), recording_with(false)).unwrap();
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let report = report(&place, "report.json");
    assert_eq!(report["run"]["cut_short"], true);
    let unseen = report["run"]["unseen"].to_string();
    assert!(unseen.contains("it was killed or outlived"), "{unseen}");
    // What is missing at the end of the file is another matter.
    let whole = recording_with(false);
    fs::write(place.path("r"), &whole[..whole.len() - 60]).unwrap();
    let outcome = place.run(["analyze", "r"]);
    assert_eq!(outcome.status, 125, "{outcome:#?}");
}

fn report(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

pub fn has_recorder() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_redhanded")).with_file_name("recorder");
    if !beside.join("libredhanded_recorder.so").exists() {
        eprintln!("skipped: this test needs `cargo xtask recorder`");
        return false;
    }
    true
}

/// Records a program without a race, and analyses it; what is not a suspect is wrong.
#[track_caller]
fn is_ordered(way: &str) -> Value {
    let place = Place::with("ordered");
    let outcome = place.run(["record", "-q", "-o", "r", "--", "./ordered", way]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    report(&place, "report.json")
}

/// Only locks can be missed: two accesses need none if something else orders them.
#[track_caller]
fn is_at_most_unlocked(report: &Value) {
    for race in report["races"].as_array().unwrap() {
        assert_eq!(race["found_by"], json!(["lockset"]), "{race:#}");
    }
}

#[test]
fn what_unusual_things_order_is_no_race() {
    if !has_recorder() {
        return;
    }
    for way in [
        "aligned",
        "alternate-stack",
        "nested",
        "vfork",
        "robust",
        "cancelled",
        "exec",
    ] {
        let report = is_ordered(way);
        is_at_most_unlocked(&report);
        assert_eq!(report["run"]["cut_short"], false, "{way}");
    }
}

/// What a thread reads again after it was asked how far it is, because another one tried in vain to
/// execute a program, orders it.
#[test]
fn a_program_that_cannot_be_executed_leaves_the_order_as_it_is() {
    if !has_recorder() {
        return;
    }
    let report = is_ordered("no-program");
    for race in report["races"].as_array().unwrap() {
        assert_eq!(race["standing"], "suspect", "{race:#}");
    }
    assert_eq!(report["run"]["cut_short"], false);
}

/// Where calls nest too deeply for the recorder, it says so, and nothing is claimed.
#[test]
fn calls_that_nest_too_deeply_are_told() {
    if !has_recorder() {
        return;
    }
    let report = is_ordered("too-nested");
    let unseen = report["run"]["unseen"].to_string();
    assert!(unseen.contains("lost entries"), "{unseen}");
}

/// A race that goes on until the program is told to end is found when its time is over.
#[test]
fn a_race_without_end_is_found_when_the_time_is_over() {
    if !has_recorder() {
        return;
    }
    let place = Place::with("racing");
    let words = ["record", "-q", "-o", "r", "--for", "3s", "--kill", "--"];
    let outcome = place.run([&words[..], &["./racing"]].concat());
    assert_eq!(outcome.status, 143, "{outcome:#?}");
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place, "report.json");
    assert_eq!(report["run"]["recorded"]["threads"], 3);
    assert_eq!(report["races"][0]["standing"], "unordered");
}

/// A recording that is stopped has what all threads did until then, also those that wait.
#[test]
fn a_recording_that_is_stopped_says_so() {
    if !has_recorder() {
        return;
    }
    let place = Place::with("racing");
    let words = ["record", "-q", "-o", "r", "--for", "3s", "--"];
    let outcome = place.run([&words[..], &["./racing", "ends"]].concat());
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let outcome = place.run(["analyze", "--json", "report.json", "r"]);
    let report = report(&place, "report.json");
    assert_eq!(report["run"]["cut_short"], true, "{outcome:#?}");
    assert_eq!(report["run"]["recorded"]["threads"], 4);
    assert!(outcome.says("the time was over") || outcome.stdout().contains("the time was over"));
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    assert_eq!(report["races"][0]["standing"], "unordered");
}

/// A place with a program of `corpus/apart`; none, and the reason printed, if there is no
/// recorder.
fn apart(name: &str) -> Option<Place> {
    if !has_recorder() {
        return None;
    }
    let place = Place::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/apart");
    let status = Command::new("gcc")
        .args(["-g", "-O1", "-pthread", "-o"])
        .arg(place.path(name))
        .arg(corpus.join(name).with_extension("c"))
        .status()
        .expect("gcc is needed to build the programs of the tests");
    assert!(status.success());
    Some(place)
}

/// One recording shows that nothing orders two accesses that sleeps keep apart.
#[test]
fn what_sleeps_keep_apart_is_unordered() {
    let Some(place) = apart("write_then_read") else {
        return;
    };
    let line = "check --hunt 0 --json report.json -- ./write_then_read";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place, "report.json");
    let race = &report["races"][0];
    assert_eq!(race["what"]["name"], "order", "{race:#}");
    assert_eq!(
        (&race["class"], &race["standing"]),
        (&"race".into(), &"unordered".into())
    );
    assert!(
        race["found_by"]
            .as_array()
            .unwrap()
            .contains(&"happens-before".into())
    );
}

/// A recording is a list of suspects, too.
#[test]
fn what_is_recorded_is_hunted() {
    let Some(place) = apart("write_then_read") else {
        return;
    };
    let recorded = place.run("record -o r -- ./write_then_read".split(' '));
    assert_eq!(recorded.status, 0, "{recorded:#?}");
    let line = "run --suspects r --for 60s --kill --json report.json -- ./write_then_read";
    let outcome = place.run(line.split(' '));
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place, "report.json");
    assert_eq!(report["races"][0]["what"]["name"], "order");
    assert_eq!(report["run"]["candidates"][0]["outcome"], "caught");
    fs::write(place.path("cut"), &recording()[..20]).unwrap();
    place
        .run("run --suspects cut -- ./write_then_read".split(' '))
        .refused(125, "cannot take suspects from it: cut is damaged");
}

/// And the hunt catches it.
#[test]
fn what_is_unordered_is_caught() {
    let Some(place) = apart("write_then_read") else {
        return;
    };
    let line = "check --hunt 60s --json report.json -- ./write_then_read";
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = report(&place, "report.json");
    let race = &report["races"][0];
    assert_eq!(race["standing"], "caught", "{race:#}");
    assert_eq!(race["seen_by"], "watch");
    assert_eq!(report["races"].as_array().unwrap().len(), 1);
}

/// What asks it to end asks the program: neither may start with our signals blocked.
#[test]
fn a_check_ends_when_it_is_told_to() {
    if apart("write_then_read").is_none() {
        return;
    }
    let place = Place::with("handler");
    let command = place.redhanded("check --hunt 0 --quiet -- ./handler".split(' '));
    let mut running = place.start(command);
    running.until_printed("ready");
    let check = Pid::from_raw(running.child.id().cast_signed());
    kill(check, Signal::SIGTERM).unwrap();
    let outcome = running.end();
    assert!([0, 66].contains(&outcome.status), "{outcome:#?}");
    assert!(outcome.stdout().ends_with("asked by 15\n"), "{outcome:#?}");
}

#[test]
fn two_documents_have_two_files() {
    let place = Place::new();
    fs::write(place.path("r"), recording()).unwrap();
    place
        .run("analyze --json same --html same r".split(' '))
        .refused(125, "same is named for two documents");
}
