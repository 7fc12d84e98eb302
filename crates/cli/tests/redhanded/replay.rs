//! What the other order of a race would do: in the report, and in scenarios.

use crate::place::{Outcome, Place};
use redhanded_replay::{Limits, Mode, Scenario, Scene, Snapshot, Start, State};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// A run of `outcomes`, which the tests share: a report, a log and scenarios. Each runs the tool
/// in a place of its own, because a place has one file for what is printed.
fn observed() -> &'static Place {
    static OBSERVED: OnceLock<Place> = OnceLock::new();
    // On a busy machine a replay may be given up, and the run goes on without.
    const LAST: u32 = 3;
    OBSERVED.get_or_init(|| {
        let mut places = (1..=LAST).map(|seed| (seed, observe(seed)));
        let found = places.find(|(seed, place)| *seed == LAST || is_judged(place));
        found.unwrap().1
    })
}

/// Whether all verdicts are there that the tests look at.
fn is_judged(place: &Place) -> bool {
    let report = read(place, "report.json");
    let has = |variable, count| find_verdict(&report, variable, count).is_ok();
    has("published", "faults") && has("counter", "state_change") && has("flag", "no_state_change")
}

fn observe(seed: u32) -> Place {
    let place = Place::with("outcomes");
    // A window at the wrong moment makes the program crash, and it is started again.
    let line = format!(
        "run --for 40s --kill --overhead 50% --seed {seed} --scenarios kept \
         --log session.log --json report.json -- ./outcomes"
    );
    let outcome = place.run(line.split_whitespace());
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    place
}

fn read(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

fn report(name: &str) -> Value {
    read(observed(), name)
}

/// The races on a variable.
fn races(report: &Value, variable: &str) -> Vec<Value> {
    let races = report["races"].as_array().unwrap().iter();
    let on = |race: &&Value| race["what"]["name"].as_str() == Some(variable);
    races.filter(on).cloned().collect()
}

/// A verdict on one of the races on a variable of which this count is not zero.
#[track_caller]
fn verdict(variable: &str, count: &str) -> Value {
    let found = find_verdict(&report("report.json"), variable, count);
    found.unwrap_or_else(|others| panic!("{count} on {variable}: {others:#?}"))
}

/// The same, or all verdicts on the variable.
fn find_verdict(report: &Value, variable: &str, count: &str) -> Result<Value, Vec<Value>> {
    let races = races(report, variable).into_iter();
    let verdicts: Vec<Value> = races.map(|race| race["verdict"].clone()).collect();
    let counted = |v: &&Value| v["replay"][count].as_u64().is_some_and(|n| n > 0);
    verdicts.iter().find(counted).cloned().ok_or(verdicts)
}

#[test]
fn a_pointer_cleared_between_check_and_use_is_proven_harmful() {
    let verdict = verdict("published", "faults");
    assert_eq!(verdict["call"], "proven-harmful", "{verdict:#}");
    let difference = verdict["replay"]["difference"].to_string();
    assert!(
        difference.contains("where nothing is mapped in use_it (outcomes.c:"),
        "{difference}"
    );
}

#[test]
fn a_lost_update_changes_the_state_of_what_is_raced_on() {
    let verdict = verdict("counter", "state_change");
    assert_eq!(verdict["replay"]["faults"], 0, "{verdict:#}");
    let first = &verdict["replay"]["difference"][0];
    assert_eq!(
        (&first["what"], &first["raced"]),
        (&"counter".into(), &true.into()),
        "{verdict:#}"
    );
}

#[test]
fn setting_the_same_flag_twice_makes_no_difference() {
    let verdict = verdict("flag", "no_state_change");
    let replay = &verdict["replay"];
    assert_eq!(
        (&replay["state_change"], &replay["faults"]),
        (&0.into(), &0.into()),
        "{verdict:#}"
    );
    let call = verdict["call"].as_str().unwrap();
    assert!(
        ["likely-benign", "undecided"].contains(&call),
        "{verdict:#}"
    );
}

#[test]
fn a_log_gives_the_same_verdicts() {
    let place = Place::new();
    let log = observed().path("session.log");
    let outcome = place.run(["report", "--json", "again.json", log.to_str().unwrap()]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let again = fs::read(place.path("again.json")).unwrap();
    let again: Value = serde_json::from_slice(&again).unwrap();
    assert_eq!(again, report("report.json"));
    assert!(outcome.stdout().contains("proven harmful"), "{outcome:#?}");
}

/// The scenario in which the pointer is cleared. Setting it again can be proven harmful, too: a
/// window may open between the check and the use when the pointer is cleared already.
fn scenario() -> PathBuf {
    let races = races(&report("report.json"), "published");
    let faults = |race: &&Value| race["verdict"]["replay"]["faults"].as_u64() > Some(0);
    let clears = |race: &&Value| {
        let accesses = race["accesses"].as_array().unwrap();
        accesses
            .iter()
            .any(|access| access["function"] == "clear_it")
    };
    let proofs = races.iter().filter(faults);
    let race = proofs.clone().find(clears);
    let race = race.unwrap_or_else(|| panic!("{:#?}", proofs.collect::<Vec<_>>()));
    observed().path(format!("kept/{}.scenario", race["id"].as_str().unwrap()))
}

fn shown(arguments: &[&str]) -> Outcome {
    let scenario = scenario();
    let path = scenario.to_str().unwrap();
    Place::new().run(["replay", path].iter().chain(arguments))
}

#[test]
fn a_scenario_shows_both_threads_and_is_the_same_each_time() {
    let size = fs::metadata(scenario()).unwrap().len();
    assert!((1000..200_000).contains(&size), "{size} bytes");
    let first = shown(&[]);
    assert_eq!(first.status, 0, "{first:#?}");
    let text = first.stdout();
    // Either of the two reads may be the one that was held.
    let reads = ["if (!*where)", "return (*where)->value"];
    assert!(reads.iter().any(|read| text.contains(read)), "{text}");
    for words in [
        "*where = 0",
        "published 0x",
        "-> 0x0",
        "where nothing is mapped",
        "from here on not as in order",
        "These orders fail, and others do not",
    ] {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
    for _ in 0..3 {
        assert_eq!(shown(&[]).stdout(), text);
    }
    // Whichever of the two was held is A, so either may have to come first.
    let listed = |mark: &str| {
        let (_, after) = text.split_once(mark).expect(mark);
        let line = after.lines().next().unwrap();
        line.split(", ").map(str::trim).collect::<Vec<_>>()
    };
    let failing = listed("These orders fail, and others do not:");
    let orders = listed("others: --order");
    let harmless = orders.iter().find(|order| !failing.contains(order));
    let other = shown(&["--order", harmless.expect(&text)]).stdout();
    assert!(
        other != text && !other.contains("where nothing is mapped"),
        "{other}"
    );
}

#[test]
fn scenarios_are_the_users_alone_and_nothing_else_is_left_beside_them() {
    scenario();
    for file in fs::read_dir(observed().path("kept")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        assert!(name.ends_with(".scenario"), "{name}");
        let mode = file.metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_told_before_the_program_starts() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let line = "run --scenarios file/below -- touch started";
    place
        .run(line.split_whitespace())
        .refused(125, "cannot keep scenarios in file/below");
    assert!(!place.path("started").exists());
}

#[test]
fn what_is_no_scenario_is_refused_in_a_sentence() {
    let place = Place::new();
    let whole = fs::read(scenario()).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 0x55;
    let cut = &whole[..whole.len() - 7];
    for (name, bytes, why) in [
        ("cut", cut, "it is damaged"),
        ("changed", &changed, "it is damaged"),
        ("empty", b"", "no scenario of Redhanded"),
        (
            "other",
            b"redhanded-scenario/9\nabc",
            "another version of the format",
        ),
    ] {
        fs::write(place.path(name), bytes).unwrap();
        place.run(["replay", name]).refused(125, why);
    }
    place
        .run(["replay", "absent"])
        .refused(125, "cannot replay absent");
    place.run(["replay", "."]).refused(125, "cannot replay .");
}

/// What gdb prints when it is given these commands, with an order of a scenario as its target.
fn debugged(scenario: &Path, order: &str, commands: &[&str]) -> String {
    static SERVED: AtomicU32 = AtomicU32::new(0);
    let place = Place::new();
    // The list of sockets is that of the whole machine.
    let number = SERVED.fetch_add(1, Ordering::Relaxed);
    let socket = format!("race-{}-{number}.socket", std::process::id());
    let path = scenario.to_str().unwrap();
    let arguments = ["replay", path, "--order", order, "--gdb", &socket];
    let mut server = place.redhanded(arguments).spawn().unwrap();
    // It can be there a moment before anybody listens, and gdb tries once.
    let listens = || {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        let mut ours = sockets
            .lines()
            .filter(|line| line.ends_with(&format!(" {socket}")));
        ours.any(|line| line.split_whitespace().nth(3) == Some("00010000"))
    };
    while !listens() {
        assert_eq!(server.try_wait().unwrap(), None, "it ended too soon");
        sleep(Duration::from_millis(20));
    }
    let target = format!("target remote {socket}");
    let first = ["set confirm off", "set architecture i386:x86-64", &target];
    let mut gdb = place.command("timeout");
    gdb.args(["60", "gdb", "-nx", "-batch", "-q"]);
    for command in first.iter().chain(commands) {
        gdb.args(["-ex", command]);
    }
    let outcome = gdb.output().expect("gdb is needed");
    let ended = server.wait().unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let all = format!("{text}\n{}", String::from_utf8_lossy(&outcome.stderr));
    assert_ne!(outcome.status.code(), Some(124), "too slow: {all}");
    assert!(ended.success(), "{ended:?}: {all}");
    all
}

/// What is said behind this word at the start of a line.
#[track_caller]
fn said<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn gdb_steps_both_ways() {
    let commands = [
        "info threads",
        "thread 1",
        "printf \"start %#lx\\n\", $pc",
        "stepi",
        "printf \"then %#lx\\n\", $pc",
        "stepi",
        "reverse-stepi",
        "printf \"back %#lx\\n\", $pc",
        "reverse-stepi",
        "printf \"begin %#lx\\n\", $pc",
        "thread 2",
        "printf \"other %#lx\\n\", $pc",
        "stepi",
        "printf \"after %#lx\\n\", $pc",
        "detach",
    ];
    let text = debugged(&scenario(), "a", &commands);
    assert!(
        text.contains("Thread 1.1") && text.contains("Thread 1.2"),
        "{text}"
    );
    assert_ne!(said(&text, "start"), said(&text, "then"), "{text}");
    assert_eq!(said(&text, "then"), said(&text, "back"), "{text}");
    assert_eq!(said(&text, "start"), said(&text, "begin"), "{text}");
    assert_ne!(said(&text, "other"), said(&text, "after"), "{text}");
}

/// Thread A counts 5,000 times what thread B sets once.
fn long_scenario() -> Scenario {
    const DATA: u64 = 0x20_0000;
    let mut memory = Snapshot::new(true);
    // inc dword ptr [rdi]; dec rcx; jnz to the start; mfence
    let counts = [0xff, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf9, 0x0f, 0xae, 0xf0];
    memory.write(0x10_0000, &counts);
    // mov dword ptr [rdi], 7; mfence
    memory.write(0x11_0000, &[0xc7, 0x07, 7, 0, 0, 0, 0x0f, 0xae, 0xf0]);
    memory.write(DATA, &[0; 4]);
    let thread = |ip| {
        let mut state = State {
            ip,
            ..State::default()
        };
        state.general[1] = 5000;
        state.general[7] = DATA;
        Start::Before(state)
    };
    Scenario {
        id: "ab12cd34".to_owned(),
        what: "number".to_owned(),
        program: vec!["./program".to_owned()],
        names: ["counts".to_owned(), "sets".to_owned()],
        scene: Scene {
            mode: Mode::User,
            threads: [0x10_0000, 0x11_0000].map(thread),
            race: vec![(DATA, DATA + 4)],
            handled: 0,
        },
        limits: Limits {
            steps: 30_000,
            ..Limits::default()
        },
        memory,
        files: Vec::new(),
        places: BTreeMap::new(),
        data: BTreeMap::new(),
    }
}

/// Thread A looks whether there is something and uses it, and both count. Thread B takes it away.
fn cleared() -> Scenario {
    const DATA: u64 = 0x20_0000;
    let uses: [(&[u8], u32, &str); 6] = [
        (&[0xff, 0x47, 0x08], 3, "counter++;"), // inc dword ptr [rdi + 8]
        (&[0x48, 0x8b, 0x07], 4, "if (published)"), // mov rax, [rdi]
        (&[0x48, 0x85, 0xc0], 4, "if (published)"), // test rax, rax
        (&[0x74, 0x05], 4, "if (published)"),   // je to the fence
        (&[0x48, 0x8b, 0x07], 5, "value = *published;"), // mov rax, [rdi]
        (&[0x8b, 0x00], 5, "value = *published;"), // mov eax, [rax]
    ];
    let clears: [(&[u8], u32, &str); 2] = [
        (&[0x48, 0xc7, 0x07, 0, 0, 0, 0], 9, "published = 0;"), // mov qword ptr [rdi], 0
        (&[0xff, 0x47, 0x08], 10, "counter++;"),                // inc dword ptr [rdi + 8]
    ];
    let mut scenario = long_scenario();
    let mut memory = Snapshot::new(true);
    let mut place = |start: u64, function: &str, code: &[(&[u8], u32, &str)]| {
        let mut at = start;
        for (bytes, line, text) in code {
            memory.write(at, bytes);
            let place = redhanded_replay::SourceLine {
                function: Some(function.to_owned()),
                line: Some(("source/app.c".to_owned(), *line)),
                text: Some(format!("    {text}")),
            };
            scenario.places.insert(at, place);
            at += bytes.len() as u64;
        }
        // mfence, of which no line is known
        memory.write(at, &[0x0f, 0xae, 0xf0]);
    };
    place(0x10_0000, "use_it", &uses);
    place(0x11_0000, "clear_it", &clears);
    memory.write(DATA, &(DATA + 16).to_le_bytes());
    memory.write(DATA + 8, &41_u32.to_le_bytes());
    memory.write(DATA + 16, &7_u32.to_le_bytes());
    scenario.memory = memory;
    scenario.what = "published".to_owned();
    scenario.program = vec!["./app".to_owned(), "fast".to_owned()];
    scenario.names = ["reader".to_owned(), "writer".to_owned()];
    scenario.scene.race = vec![(DATA, DATA + 8)];
    scenario.limits = Limits::default();
    let named = [(DATA, (8, "published")), (DATA + 8, (4, "counter"))];
    let named = named.map(|(at, (len, name))| (at, (len, name.to_owned())));
    scenario.data = BTreeMap::from(named);
    scenario
}

/// The file was written once, and every machine prints the same of it. When another text is
/// meant, `REDHANDED_WRITE_FIXTURES=1` writes both anew.
#[test]
fn a_committed_scenario_is_replayed_as_ever() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redhanded/fixtures");
    let path = fixtures.join("cleared.scenario");
    let writes = std::env::var_os("REDHANDED_WRITE_FIXTURES").is_some();
    if writes {
        fs::write(&path, cleared().to_bytes()).unwrap();
    }
    let file = fs::File::open(&path).unwrap();
    assert_eq!(Scenario::read(file).unwrap(), cleared());
    let mut printed = String::new();
    for words in [
        "",
        "--order a",
        "--order a:2",
        "--order b:1",
        "--weak-memory --order b~1",
    ] {
        let arguments = ["replay", path.to_str().unwrap()].into_iter();
        let outcome = Place::new().run(arguments.chain(words.split_whitespace()));
        assert_eq!(outcome.status, 0, "{outcome:#?}");
        printed.push_str(&format!("$ redhanded replay cleared.scenario {words}\n"));
        printed.push_str(&outcome.stdout());
        printed.push('\n');
    }
    if writes {
        fs::write(fixtures.join("cleared.txt"), &printed).unwrap();
    }
    let expected = fs::read_to_string(fixtures.join("cleared.txt")).unwrap();
    assert_eq!(printed, expected, "{printed}");
}

/// What a file holds and nobody uses must cost nothing for each of the steps.
#[test]
fn a_scenario_of_many_pages_and_steps_is_shown() {
    let mut scenario = long_scenario();
    for page in 0..20_000 {
        scenario.memory.page(0x1000_0000 + page * 4096);
    }
    scenario.scene.race = (0..20_000)
        .map(|n| (0x30_0000 + n * 2, 0x30_0001 + n * 2))
        .chain(scenario.scene.race)
        .collect();
    let place = Place::new();
    fs::write(place.path("large.scenario"), scenario.to_bytes()).unwrap();
    let outcome = place.run(["replay", "--all", "large.scenario"]);
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    let shown = outcome.stdout();
    assert!(shown.matches("inc dword ptr [rdi]").count() >= 5000);
}

#[test]
fn gdb_continues_both_ways_over_thousands_of_steps() {
    let place = Place::new();
    let path = place.path("long.scenario");
    fs::write(&path, long_scenario().to_bytes()).unwrap();
    let commands = [
        "continue",
        "printf \"end %#lx %ld\\n\", $pc, $rcx",
        "break *0x100002",
        "reverse-continue",
        "printf \"last %#lx %ld\\n\", $pc, $rcx",
        "reverse-continue",
        "printf \"before %#lx %ld\\n\", $pc, $rcx",
        "continue",
        "printf \"again %#lx %ld\\n\", $pc, $rcx",
        "delete",
        "reverse-continue",
        "thread 2",
        "printf \"begin %#lx %ld\\n\", $pc, *(int *) 0x200000",
        "break *0x100002",
        "continue",
        "printf \"first %#lx %ld\\n\", $pc, *(int *) 0x200000",
        "continue",
        "printf \"second %#lx %ld\\n\", $pc, *(int *) 0x200000",
        "detach",
    ];
    let text = debugged(&path, "b", &commands);
    for (name, place) in [
        ("end", " 0x100007 0"),
        ("last", " 0x100002 1"),
        ("before", " 0x100002 2"),
        ("again", " 0x100002 1"),
        ("begin", " 0x110000 0"),
        ("first", " 0x100002 8"),
        ("second", " 0x100002 9"),
    ] {
        assert_eq!(said(&text, name), place, "{text}");
    }
}
