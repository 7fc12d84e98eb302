//! What is remembered between runs, as a CI job uses it.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;

/// Observes the ledger until `races` are caught, with both sides of each. Changed bytes alone
/// would now and then be told as another race, of unknown origin.
fn observe(place: &Place, races: u32, options: &str) -> Outcome {
    observe_program(place, "ledger", races, options)
}

fn observe_program(place: &Place, name: &str, races: u32, options: &str) -> Outcome {
    let line = format!(
        "run --max-races {races} --for 2m --overhead 50% --detect watch --kill \
         --json report.json --sarif report.sarif {options} -- ./{name}"
    );
    place.run(line.split_whitespace())
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

/// The race on this variable in the last report.
fn race_on(place: &Place, variable: &str) -> Value {
    let report = json(place, "report.json");
    let races = report["races"].as_array().unwrap().clone();
    let found = races
        .into_iter()
        .find(|race| race["what"]["name"] == variable);
    found.unwrap_or_else(|| panic!("no race on {variable}: {report:#}"))
}

/// A repository whose settings name a store.
fn repository() -> Place {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    fs::create_dir(place.path(".git")).unwrap();
    let settings = b"store = \"races.db\"\nmin-samples = 1\nsuppressions = \"races.toml\"\n";
    place.file("redhanded.toml", settings, 0o644);
    place.file("races.toml", b"", 0o644);
    place
}

#[test]
fn a_ci_job_fails_for_what_is_new_and_nothing_else() {
    let place = repository();
    let first = observe(&place, 1, "--fail-on new");
    assert_eq!(first.status, 0, "{first:#?}");
    assert!(
        first.says("the races of this run are known from now on"),
        "{first:#?}"
    );
    let second = observe(&place, 1, "--fail-on new");
    assert_eq!(second.status, 0, "{second:#?}");
    assert_eq!(race_on(&place, "counter")["triage"]["new"], false);

    // Somebody adds a race. It is new until something is decided, however often it is seen.
    place.build("ledger", "ledger", &["-DMORE"]);
    for _ in 0..2 {
        let red = observe(&place, 2, "--fail-on new");
        assert_eq!(red.status, 66, "{red:#?}");
        assert_eq!(race_on(&place, "total")["triage"]["new"], true);
        assert_eq!(race_on(&place, "counter")["triage"]["new"], false);
    }
    let sarif = json(&place, "report.sarif");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let mut states: Vec<_> = results
        .iter()
        .map(|r| r["baselineState"].as_str())
        .collect();
    states.sort_unstable();
    assert_eq!(states, [Some("new"), Some("unchanged")]);

    let entry = |until: &str| {
        let entry = format!(
            "[[suppress]]\nfield = \"total\"\nbecause = \"shown only\"\nuntil = \"{until}\"\n\
             [[suppress]]\nfunction = \"nobody\"\nbecause = \"left over\"\n"
        );
        place.file("races.toml", entry.as_bytes(), 0o644);
        observe(&place, 2, "--fail-on new")
    };
    let green = entry("2999-12-31");
    assert_eq!(green.status, 0, "{green:#?}");
    assert!(
        green.says("1 race that the suppression file lists"),
        "{green:#?}"
    );
    assert!(
        green.says("suppression of function nobody matched no race"),
        "{green:#?}"
    );
    let total = race_on(&place, "total");
    assert_eq!(total["triage"]["suppressed"]["because"], "shown only");
    let red = entry("2001-01-31");
    assert_eq!(red.status, 66, "{red:#?}");
    assert!(
        red.says("suppression of field total expired on 2001-01-31"),
        "{red:#?}"
    );

    // What is decided holds in the next run; what was fixed and returns is a regression.
    place.file("races.toml", b"", 0o644);
    let triage = |line: &str| {
        let outcome = place.run(line.split(' '));
        assert_eq!(outcome.status, 0, "{outcome:#?}");
        observe(&place, 2, "--fail-on new")
    };
    let green = triage("triage --field total --state deferred --because later");
    assert_eq!(green.status, 0, "{green:#?}");
    let id = total["id"].as_str().unwrap();
    let red = triage(&format!("triage {id} --state fixed --because locked"));
    assert_eq!(red.status, 66, "{red:#?}");
    assert_eq!(race_on(&place, "total")["triage"]["state"], "regression");

    let listed = place.run(["report", "--new"]).stdout();
    assert!(
        listed.contains("total") && listed.contains("regression"),
        "{listed}"
    );
    assert!(!listed.contains("counter"), "{listed}");
    let full = place.run(["report", "--race", id]).stdout();
    assert!(full.contains("RACE 1 of 1"), "{full}");
    assert!(
        full.contains("deferred: later") && full.contains("fixed: locked"),
        "{full}"
    );
    let compared = place.run("report --run 3 --compare 1".split(' ')).stdout();
    assert!(
        compared.contains("new: 1") && compared.contains("gone: 0"),
        "{compared}"
    );
    let printed = place.run("report --run 3 --json - races.db".split(' '));
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed["races"].as_array().unwrap().len(), 2);
}

/// The race is in a header of C++, whose function both versions of the program have.
#[test]
fn the_same_bug_in_another_function_is_new_where_a_container_makes_the_access() {
    for level in ["-O0", "-O2"] {
        let place = Place::new();
        let job = |flags: &[&str], options: &str| {
            place.build_cc("container", "container", &[&[level], flags].concat());
            let options = format!("--fail-on new --store races.db {options}");
            observe_program(&place, "container", 1, &options)
        };
        let first = job(&[], "");
        assert_eq!(first.status, 0, "{first:#?}");
        let second = job(&[], "");
        assert_eq!(second.status, 0, "{second:#?}");
        let red = job(&["-DREPLY"], "");
        assert_eq!(red.status, 66, "{level}: {red:#?}");

        // The report names the program's own function and file, and so may people.
        assert!(red.says("take_reply"), "{red:#?}");
        let entry = "[[suppress]]\nfunction = \"take_*\"\nfile = \"container.cc\"\n\
                     sides = \"both\"\nbecause = \"shown only\"\n";
        place.file("races.toml", entry.as_bytes(), 0o644);
        let green = job(&["-DREPLY"], "--suppressions races.toml");
        assert_eq!(green.status, 0, "{green:#?}");
        let listed = |arguments: &[&str]| place.run(arguments).stdout();
        let within = listed(&["report", "--in", "container.cc", "races.db"]);
        assert!(within.contains("take_request"), "{within}");
        let triage = "triage --store races.db --state deferred --because later --function";
        let mut triage: Vec<&str> = triage.split(' ').collect();
        triage.push("take_reply");
        let decided = listed(&triage);
        assert!(decided.contains("now deferred"), "{decided}");
    }
}

#[test]
fn a_report_is_a_baseline_too() {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    let first = observe(&place, 1, "");
    assert_eq!(first.status, 66, "{first:#?}");
    fs::copy(place.path("report.json"), place.path("known.json")).unwrap();
    let second = observe(&place, 1, "--fail-on new --baseline known.json");
    assert_eq!(second.status, 0, "{second:#?}");
    place.build("ledger", "ledger", &["-DMORE"]);
    let third = observe(&place, 2, "--fail-on new --baseline known.json");
    assert_eq!(third.status, 66, "{third:#?}");
    let told = place.run(["report", "--show", "benign", "known.json"]);
    assert_eq!(told.status, 0, "{told:#?}");
    assert!(told.stdout().contains("RACE 1 of 1"), "{told:#?}");
    // The document has the source lines.
    assert!(told.stdout().contains(" │ "), "{told:#?}");
    // A race that is not new does fail if any does.
    place.build("ledger", "ledger", &[]);
    assert_eq!(observe(&place, 1, "--baseline known.json").status, 66);
}

#[test]
fn too_little_to_say_anything_has_a_status_of_its_own() {
    let place = Place::with("surroundings");
    let little = place.run("run --min-samples 1000000 -- ./surroundings".split(' '));
    assert_eq!(little.status, 67, "{little:#?}");
    assert!(
        little.says("samples are too few to say anything"),
        "{little:#?}"
    );
    // It never comes to the end of main.
    place.build("ledger", "ledger", &[]);
    let little = observe(&place, 1, "--fail-on never --min-coverage 100%");
    assert_eq!(little.status, 67, "{little:#?}");
    let race = observe(&place, 1, "--min-samples 1000000000");
    assert_eq!(race.status, 66, "{race:#?}");
}

#[test]
fn what_cannot_be_remembered_is_told_before_the_program_starts() {
    let place = Place::with("surroundings");
    place.file("thesis.db", b"my thesis", 0o644);
    let run = |options: &str, sentence: &str| {
        let line = format!("run {options} -- ./surroundings");
        place.run(line.split(' ')).refused(125, sentence);
    };
    run("--store thesis.db", "thesis.db is not a store of Redhanded");
    run("--store no/races.db", "there is no folder no");
    run("--fail-on new", "--fail-on new needs to know what is old");
    run("--baseline thesis.db", "cannot read thesis.db");
    run(
        "--suppressions none.toml",
        "cannot read the suppressions in none.toml",
    );
    place.file("s.toml", b"[[suppress]]\nfunction = \"f\"\n", 0o644);
    run("--suppressions s.toml", "entry 1: it has no reason");
    place
        .run("report none.db".split(' '))
        .refused(125, "cannot read none.db");
    place
        .run("triage d3ee --store none.db --note x".split(' '))
        .refused(125, "there is no store none.db");
    assert_eq!(fs::read(place.path("thesis.db")).unwrap(), b"my thesis");
}

/// The store of a run with one race.
fn stored(place: &Place) -> Vec<u8> {
    let run = observe(place, 1, "--store races.db --fail-on new");
    assert_eq!(run.status, 0, "{run:#?}");
    fs::read(place.path("races.db")).unwrap()
}

#[test]
fn a_store_that_cannot_be_used_costs_one_sentence_and_keeps_what_it_has() {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    let whole = stored(&place);
    let newer = {
        // Where SQLite keeps the version of what is in the file.
        let mut bytes = whole.clone();
        bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
        bytes
    };
    let mut damaged = whole.clone();
    damaged[4096..]
        .iter_mut()
        .step_by(7)
        .for_each(|byte| *byte ^= 0x55);
    for (bytes, sentence) in [
        (newer, "races.db has version 99, and this Redhanded knows"),
        (damaged, "races.db is damaged"),
        (whole[..whole.len() / 2].to_vec(), "races.db is damaged"),
    ] {
        place.file("races.db", &bytes, 0o644);
        for line in [
            "run --store races.db -- ./ledger",
            "report races.db",
            "triage --field counter --note x --store races.db",
        ] {
            place.run(line.split(' ')).refused(125, sentence);
            assert_eq!(fs::read(place.path("races.db")).unwrap(), bytes, "{line}");
        }
    }
}

#[test]
fn a_store_that_is_locked_loses_the_run_nothing_but_the_store() {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    stored(&place);
    let other = rusqlite::Connection::open(place.path("races.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = observe(&place, 1, "--store races.db");
    assert_eq!(run.status, 125, "{run:#?}");
    assert!(run.says("RACE 1 of 1"), "{run:#?}");
    assert!(
        run.says("races.db is locked by another process"),
        "{run:#?}"
    );
    assert_eq!(race_on(&place, "counter")["what"]["name"], "counter");
    // Who reads need not wait.
    assert!(
        place
            .run(["report", "races.db"])
            .stdout()
            .contains("counter")
    );
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(
        observe(&place, 1, "--store races.db --fail-on new").status,
        0
    );
}

#[test]
fn settings_hold_where_the_command_line_says_nothing() {
    let place = repository();
    let settings = b"store = \"races.db\"\nfail-on = \"new\"\nfunction = [\"bump\"]\n";
    place.file("redhanded.toml", settings, 0o644);
    let first = observe(&place, 1, "");
    assert_eq!(first.status, 0, "{first:#?}");
    // The other function is not sampled: nothing is left to look at.
    let line = "run --for 1s --kill --function nobody -- ./ledger";
    let other = place.run(line.split(' '));
    assert_eq!(other.status, 125, "{other:#?}");
    assert!(other.says("matches --function 'nobody'"), "{other:#?}");
    assert_eq!(observe(&place, 1, "--fail-on any").status, 66);
    place.file("redhanded.toml", b"min-coverage = 5\n", 0o644);
    let share = place.run("run -- ./ledger".split(' '));
    share.refused(125, "min-coverage is 5, and may be from 0 to 1");
    place.file("redhanded.toml", b"fail-on = \"old\"\n", 0o644);
    let wrong = place.run("run -- ./ledger".split(' '));
    wrong.refused(
        125,
        "fail-on is \"old\", and may be any, new, harmful, proven, never",
    );
}

#[test]
fn what_redhanded_does_inside_is_told_on_demand() {
    let place = Place::with("surroundings");
    let run = |level: &str| {
        let mut command = place.redhanded("run -- ./surroundings".split(' '));
        command.env("REDHANDED_LOG", level);
        place.finish(command)
    };
    let told = run("redhanded=info");
    assert!(told.says("redhanded::select"), "{told:#?}");
    assert!(told.says("sites, debug information found"), "{told:#?}");
    assert!(!told.says("DEBUG"), "{told:#?}");
    run("loud").refused(125, "REDHANDED_LOG cannot be used: no level \"loud\"");
}

#[test]
fn events_tell_of_a_run_while_it_goes_on() {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    let outcome = observe(&place, 1, "--events events.jsonl");
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let text = fs::read_to_string(place.path("events.jsonl")).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"], "started");
    assert_eq!(events[0]["schema"], "redhanded-events/1");
    let id = &race_on(&place, "counter")["id"];
    let is_told = |event: &Value| event["event"] == "race" && event["race"]["id"] == *id;
    assert!(events.iter().any(is_told), "{text}");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["races"]),
        (&"finished".into(), &1.into())
    );
}

#[test]
fn completions_and_man_pages_come_from_the_command_line() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let printed = place.run(["generate", shell]);
        assert_eq!(printed.status, 0, "{printed:#?}");
        assert!(printed.stdout().contains("fail-on"), "{shell}");
    }
    assert_eq!(place.run(["generate", "man", "."]).status, 0);
    let page = fs::read_to_string(place.path("redhanded-run.1")).unwrap();
    assert!(page.contains("suppressions"), "{page}");
    // Examples stay in their columns.
    assert!(page.contains(".SH EXAMPLES\n.nf\n"), "{page}");
    let nowhere = place.run(["generate", "man", "nowhere"]);
    nowhere.refused(125, "there is no folder nowhere");
    let unknown = place.run(["generate", "tcsh"]);
    assert_eq!(unknown.status, 125, "{unknown:#?}");
    assert!(unknown.says("bash, zsh, fish"), "{unknown:#?}");
}

/// Whoever may write to the folder could make us wait.
#[test]
fn settings_that_are_a_pipe_are_refused() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.path("redhanded.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let outcome = place.run("run -- true".split_whitespace());
    assert_eq!(outcome.status, 125, "{outcome:#?}");
    assert!(
        outcome.says("redhanded.toml: not a regular file"),
        "{outcome:#?}"
    );
}
