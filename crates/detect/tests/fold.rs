//! Which collisions are one race, and which are none.

use redhanded_detect::{Around, Collision, Confirmed, Finding, Folded, Folder};
use redhanded_model::{
    AccessKind, AccessReport, Analysed, Avma, Bytes, Call, Change, Class, Fingerprint, Form, Frame,
    MOST_PAIRS, ModuleId, Pointee, PointeeSource, Race, RaceStanding, Region, Registers,
    ReplayTally, Rule, SeenBy, SpaceId, Svma, TaskId, ThreadName, Usage, Use, Values, What,
    WindowEnd, WindowId, WindowRecord,
};
use redhanded_target::Module;
use std::sync::Arc;
use std::time::Duration;

fn access(function: &str, address: u64, kind: AccessKind) -> AccessReport {
    AccessReport {
        thread: ThreadName::default(),
        kind,
        size: 8,
        pc: address,
        instruction: None,
        atomic: false,
        function: Some(function.to_owned()),
        file: None,
        line: None,
        system_call: None,
        freed_by: None,
        pointee: None,
        value: None,
        created: None,
        stack: vec![Frame {
            function: Some(function.to_owned()),
            module: Some("app".to_owned()),
            address,
            ..Frame::default()
        }],
    }
}

fn race(variable: &str, accesses: Vec<AccessReport>) -> Race {
    let mut places: Vec<String> = accesses.iter().filter_map(|a| a.function.clone()).collect();
    let caught = places.len() > 1;
    if !caught {
        places.push("unknown origin".to_owned());
    }
    Race {
        fingerprint: Fingerprint::new(places, variable),
        class: Class::Race,
        rule: Some(Rule::PlainInSource),
        evidence: None,
        what: What {
            name: Some(variable.to_owned()),
            type_name: None,
            field: None,
            field_in_full: None,
            bit_fields: Vec::new(),
            address: 0x4000,
            size: 8,
            region: Region::Global {
                module: "app".to_owned(),
            },
            pointee: None,
            sides_differ: false,
            frame: None,
            block: None,
            allocated: None,
        },
        analysed: None,
        seen_by: if caught { SeenBy::Watch } else { SeenBy::Value },
        values: Values::default(),
        instances: 1,
        lines: Vec::new(),
        suspects: Vec::new(),
        special: None,
        usage: Vec::new(),
        history: None,
        pairs: Vec::new(),
        verdict: None,
        triage: None,
        accesses,
    }
}

fn caught(variable: &str) -> Race {
    let read = access("reads", 0x100, AccessKind::Read);
    race(
        variable,
        vec![read, access("writes", 0x200, AccessKind::Write)],
    )
}

fn nobody(variable: &str, address: u64) -> Race {
    race(variable, vec![access("reads", address, AccessKind::Read)])
}

fn fold(races: Vec<Race>) -> (Vec<Race>, Vec<Race>) {
    let mut folder = Folder::new();
    for race in races {
        folder.fold(Finding::Instance(Box::new(race)));
    }
    folder.into_races()
}

#[test]
fn an_unknown_origin_at_the_site_of_a_known_race_is_another_instance_of_it() {
    for both in [
        vec![caught("x"), nobody("x", 0x100)],
        vec![nobody("x", 0x100), caught("x")],
    ] {
        let (races, _) = fold(both);
        assert_eq!(races.len(), 1);
        assert_eq!((races[0].instances, races[0].accesses.len()), (2, 2));
    }
}

#[test]
fn an_unknown_origin_is_counted_until_its_race_is_known() {
    let mut folder = Folder::new();
    let mut doubtful = caught("z");
    doubtful.class = Class::PossiblyAtomic;
    let races = [
        nobody("x", 0x100),
        caught("x"),
        nobody("y", 0x100),
        doubtful,
    ];
    let counts = races.map(|race| {
        folder.fold(Finding::Instance(Box::new(race)));
        folder.listed(Class::Race)
    });
    assert_eq!(counts, [1, 1, 2, 2]);
    assert_eq!(folder.into_races().0.len(), 3);
}

#[test]
fn an_unknown_origin_elsewhere_is_a_race_of_its_own() {
    let (races, _) = fold(vec![caught("x"), nobody("y", 0x100), nobody("x", 0x104)]);
    assert_eq!(races.len(), 3);
    // What is known must not hide what is worse.
    let mut doubtful = caught("x");
    doubtful.class = Class::PossiblyAtomic;
    assert_eq!(fold(vec![doubtful, nobody("x", 0x100)]).0.len(), 2);
}

#[test]
fn the_same_unknown_origin_again_goes_to_the_same_race() {
    let mut folder = Folder::new();
    let first = nobody("x", 0x100);
    let again = first.fingerprint.clone();
    folder.fold(Finding::Instance(Box::new(caught("x"))));
    folder.fold(Finding::Instance(Box::new(first)));
    assert_eq!(folder.fold(Finding::Again(again)), Folded::Again(0));
    assert_eq!(folder.into_races().0[0].instances, 3);
}

#[test]
fn what_is_no_race_is_set_aside_and_counted() {
    let mut wide = caught("x");
    wide.class = Class::WiderThanSource;
    wide.rule = Some(Rule::WiderThanSource);
    let mut folder = Folder::new();
    let again = wide.fingerprint.clone();
    let folded = folder.fold(Finding::Instance(Box::new(wide)));
    assert_eq!(folded, Folded::SetAside);
    assert_eq!(folder.fold(Finding::Aside(again)), Folded::SetAside);
    folder.fold(Finding::Instance(Box::new(caught("x"))));
    let (races, set_aside) = folder.into_races();
    assert_eq!((races.len(), races[0].instances), (1, 1));
    assert_eq!((set_aside.len(), set_aside[0].instances), (1, 2));
}

/// The race on the heap, with the member that both sides name, if they do.
fn on_heap(race: Race, member: Option<&str>) -> Race {
    let pointee = member.map(|member| Pointee {
        expression: None,
        type_name: "struct s".to_owned(),
        path: format!(".{member}"),
        member: Some(format!("struct s.{member}")),
        part_type: "int".to_owned(),
        from: PointeeSource::Followed,
        doubtful: false,
        outside: false,
    });
    let what = What {
        name: None,
        region: Region::Heap,
        pointee,
        ..race.what
    };
    let touched = match what.member() {
        Some(member) => Fingerprint::behind_a_pointer(member),
        None => "heap".to_owned(),
    };
    Race {
        fingerprint: race.fingerprint.on(&touched),
        what,
        ..race
    }
}

/// The same functions, by other instructions.
fn elsewhere() -> Race {
    let read = access("reads", 0x110, AccessKind::Read);
    race("", vec![read, access("writes", 0x210, AccessKind::Write)])
}

fn told(races: Vec<Race>) -> Vec<(Option<String>, u64)> {
    let (races, _) = fold(races);
    let told = races.iter();
    let told = told.map(|race| (race.what.member().map(str::to_owned), race.instances));
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

#[test]
fn an_instance_whose_member_has_no_name_is_of_the_race_that_has_one() {
    let named = || on_heap(caught(""), Some("a"));
    let nameless = || on_heap(caught(""), None);
    let one = vec![(Some("struct s.a".to_owned()), 3)];
    assert_eq!(told(vec![named(), nameless(), nameless()]), one);
    assert_eq!(told(vec![nameless(), named(), nameless()]), one);
    assert_eq!(told(vec![nameless(), nameless(), named()]), one);
    // The sides may have met the other way round.
    let mut turned = nameless();
    turned.accesses.reverse();
    assert_eq!(told(vec![turned, named(), nameless()]), one);
    let half = || on_heap(nobody("", 0x100), None);
    assert_eq!(told(vec![half(), nameless(), named()]), one);
    assert_eq!(told(vec![named(), half(), nameless()]), one);
}

#[test]
fn a_member_without_a_name_elsewhere_in_the_functions_is_another() {
    let named = on_heap(caught(""), Some("a"));
    let other = on_heap(elsewhere(), Some("b"));
    let nameless = || on_heap(caught(""), None);
    let unknown = on_heap(elsewhere(), None);
    let both = [None, Some("struct s.a".to_owned())];
    for races in [
        vec![named.clone(), unknown.clone()],
        vec![unknown.clone(), named.clone()],
        vec![nameless(), unknown.clone(), named.clone()],
    ] {
        let found: Vec<_> = told(races).into_iter().map(|(member, _)| member).collect();
        assert_eq!(found, both);
    }
    assert_eq!(told(vec![named.clone(), other]).len(), 2);
    // What is known must not hide what is worse.
    let mut doubtful = named;
    doubtful.class = Class::PossiblyAtomic;
    assert_eq!(told(vec![doubtful, nameless()]).len(), 2);
}

#[test]
fn what_an_instance_without_a_name_came_to_is_known_of_the_race_that_has_one() {
    let fault = ReplayTally {
        faults: 1,
        orders: 2,
        ..ReplayTally::default()
    };
    let named = || on_heap(caught(""), Some("a"));
    let nameless = || on_heap(caught(""), None);
    let half = || nobody("x", 0x100);
    for (races, faulty) in [
        ([nameless(), named()], 0),
        ([named(), nameless()], 1),
        ([half(), caught("x")], 0),
        ([caught("x"), half()], 1),
    ] {
        let mut folder = Folder::new();
        for (at, race) in races.into_iter().enumerate() {
            let folded = folder.fold(Finding::Instance(Box::new(race)));
            if at == faulty {
                folder.replayed(folded, fault.clone());
            }
        }
        let (races, _) = folder.into_races();
        assert_eq!((races.len(), races[0].instances), (1, 2));
        let verdict = races[0].verdict.as_ref().expect("a verdict");
        assert_eq!(verdict.call, Call::ProvenHarmful);
        assert_eq!(verdict.replay, Some(fault.clone()));
    }
}

#[test]
fn what_analyses_say_of_an_instance_without_a_name_holds_for_the_race_that_has_one() {
    let analysed = |race: Race, standing| Race {
        analysed: Some(Analysed {
            standing,
            by: Vec::new(),
        }),
        ..race
    };
    let named = on_heap(caught(""), Some("a"));
    let nameless = on_heap(caught(""), None);
    let suspect = analysed(named.clone(), RaceStanding::Suspect);
    let unordered = analysed(nameless.clone(), RaceStanding::Unordered);
    for races in [
        vec![suspect.clone(), unordered.clone()],
        vec![unordered, suspect],
    ] {
        let (races, _) = fold(races);
        assert_eq!(races.len(), 1);
        assert!(!races[0].is_suspect());
        assert!(races[0].analysed.is_some());
    }
    // What was caught stays caught.
    let suspect = analysed(nameless, RaceStanding::Suspect);
    for races in [vec![named.clone(), suspect.clone()], vec![suspect, named]] {
        assert!(!fold(races).0[0].is_suspect());
    }
}

/// The read is one of a library's function, which the program's `caller` called.
fn called_from(caller: &str, race: Race) -> Race {
    let what = race.fingerprint.0.rsplit_once(" @ ").expect("what").1;
    let writer = race.accesses.get(1).and_then(|it| it.function.clone());
    let writer = writer.unwrap_or_else(|| "unknown origin".to_owned());
    Race {
        fingerprint: Fingerprint::new(vec![format!("memcpy from {caller}"), writer], what),
        ..race
    }
}

#[test]
fn the_instructions_of_a_library_belong_to_all_its_callers() {
    let named = |caller| called_from(caller, on_heap(caught(""), Some("a")));
    let nameless = |caller| called_from(caller, on_heap(caught(""), None));
    let half = |caller| called_from(caller, on_heap(nobody("", 0x100), None));
    let places = |races: Vec<Race>| {
        let (races, _) = fold(races);
        let told = races.iter();
        let told = told.map(|race| (race.fingerprint.places().to_owned(), race.instances));
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    };
    let (one, two) = ("memcpy from one | writes", "memcpy from two | writes");
    let known = |races: &[(&str, u64)]| -> Vec<(String, u64)> {
        let races = races.iter();
        races
            .map(|(at, count)| ((*at).to_owned(), *count))
            .collect()
    };
    let both = known(&[(one, 1), (two, 1)]);
    assert_eq!(places(vec![named("one"), nameless("two")]), both);
    assert_eq!(places(vec![nameless("two"), named("one")]), both);
    let same = known(&[(one, 2)]);
    assert_eq!(places(vec![named("one"), nameless("one")]), same);
    assert_eq!(places(vec![half("one"), named("one")]), same);
    let alone = known(&[(one, 1), ("memcpy from two | unknown origin", 1)]);
    assert_eq!(places(vec![named("one"), half("two")]), alone);
    assert_eq!(places(vec![half("two"), named("one")]), alone);
    // Each goes to its own.
    let own = known(&[(one, 1), (two, 2)]);
    for races in [
        vec![named("one"), named("two"), half("two")],
        vec![half("two"), named("one"), named("two")],
    ] {
        assert_eq!(places(races), own);
    }
}

#[test]
fn an_absorbed_instance_has_the_name_of_its_race() {
    let mut nameless = on_heap(caught(""), None);
    nameless.usage = vec![Usage::default()];
    let named = || on_heap(caught(""), Some("a"));
    for races in [
        vec![named(), nameless.clone()],
        vec![nameless.clone(), named()],
    ] {
        let (races, _) = fold(races);
        assert_eq!(races[0].pairs[0].what.member(), Some("struct s.a"));
    }
    // Not if the sides take it for different things.
    nameless.what.sides_differ = true;
    let (races, _) = fold(vec![named(), nameless]);
    assert_eq!(races[0].pairs[0].what.pointee, None);
}

#[test]
fn each_pair_of_accesses_of_a_race_is_kept_once() {
    let pair = |line: u64, used: Use| {
        let mut race = caught("x");
        race.accesses[0].stack[0].address = line;
        race.usage = vec![
            Usage {
                uses: vec![used],
                ..Usage::default()
            },
            Usage::default(),
        ];
        race
    };
    let tests = pair(0x100, Use::Branch);
    let indexes = pair(0x108, Use::Index);
    let mut swapped = indexes.clone();
    swapped.accesses.reverse();
    swapped.usage.reverse();
    let half = Race {
        accesses: indexes.accesses[..1].to_vec(),
        usage: indexes.usage[..1].to_vec(),
        ..indexes.clone()
    };
    let (races, _) = fold(vec![tests.clone(), indexes, swapped, half, tests.clone()]);
    assert_eq!(races.len(), 1);
    assert_eq!((races[0].instances, races[0].pairs.len()), (5, 1));
    assert_eq!(races[0].usage, tests.usage);
    assert_eq!(races[0].pairs[0].usage[0].uses, [Use::Index]);
    // The one that stands for the race gives way to a plainer one, and is kept.
    let mut doubtful = tests.clone();
    doubtful.class = Class::PossiblyAtomic;
    let (races, _) = fold(vec![doubtful, pair(0x108, Use::Index)]);
    assert_eq!(races[0].class, Class::Race);
    assert_eq!(races[0].usage[0].uses, [Use::Index]);
    assert_eq!(races[0].pairs[0].usage[0].uses, [Use::Branch]);
    // Not without end.
    let many = (0..100).map(|at| pair(0x100 + at, Use::Branch)).collect();
    let (races, _) = fold(many);
    assert_eq!(races[0].pairs.len(), MOST_PAIRS);
    assert!(races[0].misses_pairs());
}

/// An update without a lock met a compare-exchange of a global, which did this to it.
fn exchanged(change: Change) -> Collision {
    let word = Bytes::new(Avma(0x4000), 8);
    let confirmed = Confirmed {
        pc: Avma(0x1200),
        kind: AccessKind::Update,
        bytes: word,
        locked: true,
        instruction: "lock cmpxchg qword ptr [rdi], rsi".to_owned(),
        system_call: None,
        freed_by: None,
        form: Form::Operation,
        found: None,
        change,
    };
    Collision {
        record: WindowRecord {
            id: WindowId(1),
            space: SpaceId::default(),
            module: ModuleId(0),
            svma: Svma(0x1100),
            pc: Avma(0x1100),
            task: TaskId(1),
            registers: Registers::default(),
            bytes: word,
            kind: AccessKind::Update,
            before: vec![1; 8],
            after: vec![2; 8],
            hit: None,
            end: WindowEnd::Collided,
            held: Duration::ZERO,
            losses: Vec::new(),
        },
        sampled: (ThreadName::default(), vec![Avma(0x1100)]),
        other: Some((confirmed, ThreadName::default(), vec![Avma(0x1200)])),
        region: Region::Global {
            module: "app".to_owned(),
        },
        modules: vec![ModuleId(0)],
        suspects: Vec::new(),
        // inc qword ptr [rdi]
        sampled_code: vec![0x48, 0xff, 0x07],
        around: Around::default(),
        replay: None,
        analysed: None,
    }
}

#[test]
fn an_exchange_that_failed_first_hides_none_that_succeeds() {
    let module = Arc::new(Module {
        id: ModuleId(0),
        space: SpaceId::default(),
        name: "app".to_owned(),
        bias: 0,
        range: 0x1000..0x5000,
        image: None,
    });
    let judged = |changes: &[Change]| {
        let mut folder = Folder::new();
        for change in changes {
            folder.add(&exchanged(*change), std::slice::from_ref(&module));
        }
        let (races, _) = folder.into_races();
        let [race] = races.as_slice() else {
            panic!("one race: {races:#?}");
        };
        (race.class, race.rule, race.instances)
    };
    let (failed, made) = (Change::None, Change::Made);
    let lost = (Class::Race, Some(Rule::LostUpdate));
    for changes in [
        [failed, failed, made, made],
        [made, made, failed, failed],
        [Change::Unknown, failed, made, failed],
    ] {
        assert_eq!(judged(&changes), (lost.0, lost.1, 4), "{changes:?}");
    }
    assert_eq!(judged(&[failed; 3]).0, Class::PossiblyAtomic);
}
