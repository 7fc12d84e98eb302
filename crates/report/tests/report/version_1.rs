//! A report with every kind of content, against the file that the first writer of
//! `redhanded-report/1` made of it.

use crate::fixtures;
use redhanded_model::{
    Class, Context, ContextKind, Crash, CrashWindow, Ending, Region, Report, Rule, Standstill,
    Suspect, Svma,
};
use redhanded_report::json::{self, Json};

pub fn everything() -> Report {
    let mut report = fixtures::run();
    report.run.ending = Some(Ending::Killed {
        signal: 11,
        core: true,
    });
    report.run.standstill = Some(Standstill {
        total_s: 1.25,
        window_s: Some(0.000_341_7),
    });
    report.run.crash = Some(Crash {
        signal: 11,
        thread: fixtures::thread(4712, "reader"),
        stack: vec![fixtures::frame("stumble", "demo.c", 7, 0x1188)],
        windows: vec![CrashWindow {
            ago_s: 0.002_000_4,
            tid: 4711,
            at: fixtures::library_frame(),
            held_s: 1.0 / 3.0,
            caught: true,
        }],
    });
    let mut suspected = fixtures::unknown_origin();
    suspected.suspects = vec![
        Suspect::SystemCall {
            thread: fixtures::thread(4713, "reader"),
            call: "recv".into(),
        },
        Suspect::Process {
            pid: 99,
            name: "peer".into(),
        },
    ];
    let mut special = fixtures::possibly_atomic();
    special.class = Class::Special;
    special.special = Some("read without a lock by design".into());
    special.rule = Some(Rule::Special);
    special.evidence = Some(fixtures::evidence("jiffies"));
    special.accesses[1].freed_by = Some("free".into());
    report.set_aside.push(special.clone());
    special.what.region = Region::PerCpu {
        module: "vmlinux".into(),
        cpu: 1,
        svma: Svma(0x1f40),
    };
    let kinds = [ContextKind::Task, ContextKind::Hardirq];
    for (access, kind) in special.accesses.iter_mut().zip(kinds) {
        access.thread.context = Some(Context {
            cpu: 1,
            kind,
            interrupts_off: kind == ContextKind::Hardirq,
            preemption_off: false,
        });
    }
    let mut stack = fixtures::bit_fields();
    stack.what.region = Region::Stack {
        thread: special.accesses[1].thread.clone(),
    };
    stack.lines = vec![stack.accesses.iter().map(Into::into).collect()];
    let mut anonymous = fixtures::long_names();
    anonymous.what.region = Region::Mapping {
        name: "anonymous".into(),
        shared: false,
    };
    let mut unknown = fixtures::hostile();
    unknown.what.region = Region::Unknown;
    report.races.extend([
        fixtures::system_call(),
        suspected,
        special,
        stack,
        anonymous,
        unknown,
    ]);
    report
}

const FIRST: &str = include_str!("version-1.json");

/// Keys that were added since.
const ADDED: [&str; 11] = [
    "tool",
    "hash",
    "ended",
    "memory",
    "suspected",
    "cut_short",
    "rule",
    "evidence",
    "freed_by",
    "set_aside",
    "problem",
];

/// An indented document without the lines of these keys.
fn without(text: &str, keys: &[&str]) -> String {
    let mut kept = String::new();
    let mut skipped = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let key = line
            .trim_start()
            .strip_prefix('"')
            .and_then(|rest| rest.split('"').next());
        let opens = line.trim_end().ends_with(['{', '[']);
        match skipped {
            // The bracket that closes it.
            Some(at) if at == indent => skipped = None,
            Some(_) => {}
            None if key.is_some_and(|key| keys.contains(&key)) => skipped = opens.then_some(indent),
            None => kept.push_str(line),
        }
    }
    kept
}

#[test]
fn the_document_is_the_first_one_with_keys_added() {
    let now = fixtures::written(&Json, &everything());
    let common = without(&now, &ADDED);
    assert!(common == FIRST, "a key went away or changed:\n{common}");
    for key in ADDED {
        assert!(now.contains(&format!("\"{key}\":")), "{key}");
    }
}

#[test]
fn the_first_documents_are_still_read() {
    let mut expected = everything();
    // Their words are not read.
    expected.run.ending = None;
    expected.set_aside.clear();
    for race in &mut expected.races {
        race.rule = None;
        race.evidence = None;
        for access in &mut race.accesses {
            access.freed_by = None;
        }
        race.suspects.clear();
        race.what.region = Region::Unknown;
    }
    let crash = expected.run.crash.as_mut().unwrap();
    crash.windows[0].ago_s = 0.002;
    crash.windows[0].held_s = 0.333_333;
    expected.run.standstill.as_mut().unwrap().window_s = Some(0.000_342);
    assert_eq!(json::read(FIRST.as_bytes()).unwrap(), expected);
}

#[test]
fn all_of_it_is_read_back() {
    let report = everything();
    let first = fixtures::written(&Json, &report);
    let read = json::read(first.as_bytes()).unwrap();
    assert_eq!(read.races, report.races);
    assert_eq!(read.set_aside, report.set_aside);
    assert_eq!(read.run.ending, report.run.ending);
    assert_eq!(fixtures::written(&Json, &read), first);
}

#[track_caller]
fn refused(text: &str, why: &str) {
    let error = json::read(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_cannot_be_read_is_told_clearly() {
    for cut in [1, 20, 200, FIRST.len() / 2, FIRST.len() - 3] {
        refused(&FIRST[..cut], "it is cut off");
    }
    refused("", "not a report of Redhanded");
    refused("RACE 1 of 1", "not a report of Redhanded");
    refused("{\"races\": []}", "missing field `schema`");
    refused(
        &FIRST.replace("report/1", "report/2"),
        "its version, redhanded-report/2, is newer than this Redhanded",
    );
    refused(
        &FIRST.replace("report/1", "sites/1"),
        "its schema is \"redhanded-sites/1\"",
    );
    refused(
        &FIRST.replace("\"0x5555555511a6\"", "\"5555\""),
        "\"5555\" is no address",
    );
    refused(&FIRST.replace("\"11000000\"", "\"110\""), "are no bytes");
    refused(
        &FIRST.replace("\"instances\"", "\"number\""),
        "missing field `instances`",
    );
    let later = FIRST.replace("\"alone\"", "\"a-reason-to-come\"");
    let losses = json::read(later.as_bytes()).unwrap().run.losses;
    assert_eq!(losses.0.len(), 2, "{losses:?}");
}
