//! Races by words of the source: globs and suppressions.

use crate::containers::in_container;
use crate::fixtures::{race, reader_and_writer, side};
use crate::pointees::{behind, pointee, told};
use redhanded_model::{AccessKind, Race};
use redhanded_store::{Day, Pattern, PatternError, Suppressions, Used, import_tsan};

fn today() -> Day {
    "2026-11-16".parse().unwrap()
}

/// Whether an entry with these keys suppresses the race.
#[track_caller]
fn check(keys: &str, race: &Race, expected: bool) {
    let text = format!("[[suppress]]\n{keys}\nbecause = \"so it is\"\n");
    let suppressions = Suppressions::parse(&text).unwrap();
    let mut races = [race.clone()];
    let used = suppressions.apply(&mut races, today());
    assert_eq!(races[0].is_suppressed(), expected, "{keys}");
    let count = if expected {
        Used::Matched(1)
    } else {
        Used::Unused
    };
    assert_eq!(used[0].1, count, "{keys}");
}

#[test]
fn races_are_known_by_functions_files_fields_and_classes() {
    let race = reader_and_writer("device");
    for (keys, expected) in [
        ("function = \"poll\"", true),
        ("function = \"po*\"", true),
        ("function = \"pol\"", false),
        ("function = \"{poll,serve}\"\nsides = \"both\"", true),
        ("function = \"poll\"\nsides = \"both\"", false),
        ("file = \"src/net/*\"", true),
        ("file = \"net/*\"", true),
        ("file = \"et/*\"", false),
        ("file = \"/build/app/src/*\"\nsides = \"both\"", true),
        ("field = \"device.flags.x\"", true),
        ("field = \"device.flags*\"", true),
        ("field = \"device\"", false),
        ("class = \"race\"", true),
        ("class = \"possibly-atomic\"", false),
        ("function = \"poll\"\nfield = \"other*\"", false),
        ("function = \"poll\"\nfile = \"serve.c\"", false),
    ] {
        check(keys, &race, expected);
    }
}

#[test]
fn members_behind_pointers_are_known_by_type_and_path() {
    let race = told(reader_and_writer(""), ".table[3].a");
    for (name, expected) in [
        ("struct item.table.a", true),
        ("item.table.a", true),
        ("item.*", true),
        ("*.a", true),
        ("item.a", false),
        ("tem.*", false),
        ("*.b", false),
        ("it->*", false),
    ] {
        check(&format!("field = \"{name}\""), &race, expected);
    }
    // The type that has the member, whatever it is in.
    check(
        "field = \"item.a\"",
        &behind(reader_and_writer(""), "a"),
        true,
    );
    // What the sides call it, if they agree.
    let mut sides = race;
    sides.accesses[1].pointee = Some(pointee(".b"));
    check("field = \"item.b\"", &sides, true);
    sides.what.sides_differ = true;
    check("field = \"item.b\"", &sides, false);
    let mut doubtful = told(reader_and_writer(""), ".a");
    doubtful.what.pointee.as_mut().unwrap().doubtful = true;
    check("field = \"item.a\"", &doubtful, false);
}

#[test]
fn a_side_in_a_library_is_the_callers_and_no_other_frame_counts() {
    let copied = race(
        "buffer",
        vec![
            side(
                AccessKind::Read,
                "memcpy",
                "memcpy.S",
                &[("app", "fill"), ("app", "main")],
            ),
            side(
                AccessKind::Write,
                "serve",
                "serve.c",
                &[("libc.so.6", "start_thread")],
            ),
        ],
    );
    check("function = \"memcpy\"", &copied, true);
    check("function = \"fill\"", &copied, true);
    check("function = \"main\"", &copied, false);
    check("function = \"start_thread\"", &copied, false);
    check("frame = \"start_thread\"", &copied, true);
    let mut half = copied;
    half.accesses.truncate(1);
    check("function = \"memcpy\"\nsides = \"both\"", &half, false);
}

#[test]
fn a_side_in_a_header_is_the_functions_that_it_was_put_into() {
    let add = in_container(AccessKind::Update, "add_request", "/build/app/cont.cc");
    let pushed = race("requests", vec![add.clone(), add]);
    check("function = \"add_*\"\nsides = \"both\"", &pushed, true);
    check("file = \"cont.cc\"", &pushed, true);
    check("function = \"std::vector*\"", &pushed, true);
    check("function = \"add_reply\"", &pushed, false);
}

#[test]
fn a_side_in_a_library_of_the_projects_own_is_not_its_callers() {
    let mut put = side(AccessKind::Write, "put", "cache.c", &[("app", "serve")]);
    put.stack[0].module = Some("libcache.so.1".to_owned());
    let cached = race("cache", vec![put.clone(), put]);
    check("function = \"put\"", &cached, true);
    check("function = \"serve\"", &cached, false);
    check("frame = \"serve\"", &cached, true);
}

#[test]
fn an_entry_without_a_reason_or_a_subject_is_refused() {
    for (text, why) in [
        (
            "[[suppress]]\nfunction = \"f\"",
            "entry 1: it has no reason",
        ),
        ("[[suppress]]\nbecause = \"x\"", "entry 1: it names nothing"),
        (
            "[[suppress]]\nfunktion = \"f\"\nbecause = \"x\"",
            "unknown field",
        ),
        (
            "[[suppress]]\nclass = \"rare\"\nbecause = \"x\"",
            "no class \"rare\"",
        ),
        (
            "[[suppress]]\nfunction = \"f\"\nbecause = \"x\"\nuntil = \"soon\"",
            "is no day",
        ),
        (
            "[[suppress]]\nfunction = \"[\"\nbecause = \"x\"",
            "is no glob",
        ),
    ] {
        let error = Suppressions::parse(text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(matches!(
        Pattern::default().checked(),
        Err(PatternError::Empty)
    ));
}

#[test]
fn an_expired_entry_suppresses_nothing_and_is_listed() {
    let text = "[[suppress]]\nfunction = \"poll\"\nbecause = \"x\"\nuntil = \"2026-11-15\"";
    let suppressions = Suppressions::parse(text).unwrap();
    let mut races = [reader_and_writer("device")];
    let used = suppressions.apply(&mut races, today());
    assert_eq!(used[0].1, Used::Expired(1));
    assert!(!races[0].is_suppressed());
    let used = suppressions.apply(&mut races, today().plus(-1));
    assert_eq!(used[0].1, Used::Matched(1));
    assert!(races[0].is_suppressed());
}

#[test]
fn lines_of_tsan_become_entries() {
    let (text, others) = import_tsan(
        "# counters are approximate\nrace:stats_add\n\nrace:^poll$\nrace_top:se?ve\n\
         race:src/net/*.c\nthread:leaky\n",
    );
    assert_eq!(others, 1);
    let suppressions = Suppressions::parse(&text).unwrap();
    let mut races = [reader_and_writer("device")];
    let used = suppressions.apply(&mut races, today());
    let matched: Vec<_> = used
        .iter()
        .map(|(e, used)| (e.words.as_str(), *used))
        .collect();
    assert_eq!(
        matched,
        [
            ("frame *stats_add*", Used::Unused),
            ("frame poll", Used::Matched(1)),
            ("function *se\\?ve*", Used::Unused),
            ("frame *src/net/*.c*", Used::Unused),
        ]
    );
    assert!(
        text.contains("because = \"counters are approximate\""),
        "{text}"
    );
    assert!(
        text.contains("imported from a suppression file of TSan"),
        "{text}"
    );
}
