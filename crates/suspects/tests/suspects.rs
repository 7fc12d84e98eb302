//! Lists of suspects, as people write them and as other tools print them.

use proptest::prelude::*;
use redhanded_model::{Candidate, Report};
use redhanded_suspects::{MOST, ReadError, Suspects, of_report, read};

const SANITIZER: &str = include_str!("said/threadsanitizer.txt");
const HELGRIND: &str = include_str!("said/helgrind.txt");
const GO: &str = include_str!("said/go.txt");

fn pairs(text: &str) -> Vec<String> {
    let suspects = read(text).unwrap();
    suspects
        .candidates
        .iter()
        .map(Candidate::to_string)
        .collect()
}

#[test]
fn a_pair_on_each_line() {
    let text = "\u{feff}# what the review found\n\n  cache_put|cache_get\n\
                src/a.c:12 | b.c:7:3\r\n\
                Path::operator| | std::get\n\
                put (src/a.c:12) | a.c:13\n\
                cache_get | cache_put\n";
    let text = text.trim_start_matches('\u{feff}');
    let expected = [
        "cache_put | cache_get",
        "src/a.c:12 | b.c:7",
        "Path::operator| | std::get",
        "put (src/a.c:12) | a.c:13",
    ];
    assert_eq!(pairs(text), expected, "each pair once");
}

#[test]
fn what_is_no_pair_is_told_with_its_line() {
    for (text, number) in [
        ("cache_put", 1),
        ("a | b\n# c\nd |", 3),
        ("a | b | c", 1),
        ("|", 1),
        ("\u{7f}ELF\0|\u{1}", 1),
    ] {
        assert_eq!(read(text), Err(ReadError::NoPair { number }), "{text:?}");
    }
    assert_eq!(read("# nothing\n"), Err(ReadError::Empty));
    let many: String = (0..=MOST).map(|n| format!("f{n} | g{n}\n")).collect();
    assert_eq!(read(&many), Err(ReadError::TooMany));
}

#[test]
fn the_innermost_frames_of_the_program_are_the_sides() {
    let sanitizer = [
        "Account::look() const (/src/race.cc:4) | Account::deposit(int) (/src/race.cc:4)",
        // The other side is a copy by the C library, and what called it is the program's.
        "second (/src/race.cc:8) | first (/src/race.cc:7)",
    ];
    assert_eq!(pairs(SANITIZER), sanitizer);
    let helgrind = [
        "Account::look() const (race.cc:4) | Account::deposit(int) (race.cc:4)",
        "second(void*) (race.cc:8) | first(void*) (race.cc:7)",
    ];
    assert_eq!(pairs(HELGRIND), helgrind);
    let go = ["main.(*Cache).put (/src/cache.go:21) | main.(*Cache).get (/src/cache.go:30)"];
    assert_eq!(pairs(GO), go);
}

#[test]
fn output_is_found_among_other_lines() {
    let text = format!("the test begins\n{SANITIZER}{HELGRIND}{GO}the | test | ends\n");
    assert_eq!(pairs(&text).len(), 5);
}

#[test]
fn a_race_with_a_lost_stack_is_no_pair() {
    let (start, end) = (
        SANITIZER.find("    #0 Account::deposit").unwrap(),
        SANITIZER.find("  As if synchronized").unwrap(),
    );
    let lost = format!(
        "{}    [failed to restore the stack]\n\n{}",
        &SANITIZER[..start],
        &SANITIZER[end..]
    );
    let suspects = read(&lost).unwrap();
    assert_eq!(suspects.one_sided, 1);
    assert_eq!(suspects.candidates.len(), 1);
    let (only, _) = lost.split_at(lost.find("SUMMARY").unwrap());
    assert_eq!(read(only), Err(ReadError::NoRace));
}

#[test]
fn without_debug_information_functions_are_left() {
    let text = "WARNING: ThreadSanitizer: data race (pid=1)\n  \
                Write of size 4 at 0x7b04 by thread T1 (mutexes: write M0):\n    \
                #0 memset <null> (libtsan.so.2+0x1)\n    \
                #1 put <null> (app+0x12) (BuildId: 0123)\n\n  \
                Previous atomic read of size 4 at 0x7b04 by main thread:\n    \
                #0 get(int) <null> (app+0x13)\n";
    assert_eq!(pairs(text), ["put | get(int)"]);
}

#[test]
fn a_report_without_races_has_no_suspects() {
    assert_eq!(of_report(&Report::default()), Err(ReadError::NoRace));
}

/// Lines that mean something, in any order.
fn line() -> impl Strategy<Value = String> {
    let all = [SANITIZER, HELGRIND, GO, "a | b\nx.c:1 | y.c:2\n"].concat();
    let lines: Vec<String> = all.lines().map(|line| format!("{line}\n")).collect();
    prop_oneof![4 => proptest::sample::select(lines), 1 => "[ -~]{0,40}\n", 1 => "\\PC{0,20}\n"]
}

proptest! {
    #[test]
    fn no_text_is_too_much(lines in proptest::collection::vec(line(), 0..80)) {
        if let Ok(Suspects { candidates, .. }) = read(&lines.concat()) {
            prop_assert!(!candidates.is_empty() && candidates.len() <= MOST);
            for candidate in candidates {
                prop_assert!(candidate.sides.iter().all(redhanded_model::Spot::is_named));
            }
        }
    }
}
