//! What cannot be run: one clear sentence each, the documented status, no panic.

use crate::place::Place;
use object::{Object, ObjectSection};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// The beginning of an ELF file of this class (1 or 2: 32 or 64 bits) for this
/// machine, and zeros.
fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut header = b"\x7fELF".to_vec();
    header.extend([class, 1, 1]);
    header.resize(16, 0);
    header.extend(2u16.to_le_bytes());
    header.extend(machine.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    header.resize(128, 0);
    header
}

/// Numbers that are the same in every run of the test.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

#[test]
fn what_is_not_there() {
    let place = Place::new();
    place
        .run(["run", "--", "./nothing"])
        .refused(127, "cannot start ./nothing: no such file");
    place
        .run(["run", "--", "no-such-program-anywhere"])
        .refused(127, "no such program on PATH");
    place.file("file", b"", 0o644);
    place
        .run(["run", "--", "./file/below"])
        .refused(127, "cannot start ./file/below");
}

#[test]
fn what_is_no_program() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    place
        .run(["run", "--", "./folder"])
        .refused(126, "it is a folder");
    place.file("text", b"some text", 0o644);
    place
        .run(["run", "--", "./text"])
        .refused(126, "not executable");
    place.executable("empty", b"");
    place.run(["run", "--", "./empty"]).refused(126, "is empty");
    place.executable("words", b"echo what would a shell do\n");
    place
        .run(["run", "--", "./words"])
        .refused(126, "not an ELF program");
}

#[test]
fn programs_for_other_machines() {
    let place = Place::new();
    place.executable("old", &elf(1, 3));
    place.run(["run", "--", "./old"]).refused(126, "32-bit x86");
    place.executable("phone", &elf(2, 183));
    place.run(["run", "--", "./phone"]).refused(126, "ARM");
    // x32: the machine of x86-64 with 32-bit addresses.
    place.executable("x32", &elf(1, 62));
    place
        .run(["run", "--", "./x32"])
        .refused(126, "cannot run ./x32");
}

#[test]
fn damaged_programs() {
    let place = Place::with("racy");
    let whole = fs::read(place.path("racy")).unwrap();
    for length in [5, 40, 64, 100, 700, 5000] {
        place.executable("cut", &whole[..length]);
        place
            .run(["run", "--", "./cut"])
            .refused(126, "cannot run ./cut");
    }
    for seed in 0..8 {
        let mut bytes = elf(2, 62);
        bytes.truncate(20);
        bytes.extend(noise(seed).take(4000));
        place.executable("random", &bytes);
        place
            .run(["run", "--", "./random"])
            .refused(126, "cannot run ./random");
    }
}

#[test]
fn no_dynamic_linker() {
    let place = Place::new();
    place.build("end", "stranger", &["-Wl,--dynamic-linker=/no/such/ld.so"]);
    place
        .run(["run", "--", "./stranger"])
        .refused(126, "/no/such/ld.so");
}

#[test]
fn a_script_runs_in_its_interpreter() {
    let place = Place::new();
    place.executable("script", b"#!/bin/sh\necho \"$0 says $1\"\nexit 4\n");
    let outcome = place.run(["run", "--", "./script", "hello"]);
    assert_eq!(outcome.status, 4, "{outcome:#?}");
    assert_eq!(outcome.stdout(), "./script says hello\n");
    let told = "./script is a script; Redhanded samples its interpreter /bin/sh";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let place = Place::new();
    place.executable("script", b"#!/no/such/shell -e\n");
    place.run(["run", "--", "./script"]).refused(
        126,
        "cannot run ./script: the interpreter in its first line, /no/such/shell, does not exist",
    );
    place.executable("windows", b"#!/bin/sh\r\n");
    place
        .run(["run", "--", "./windows"])
        .refused(126, r"/bin/sh\r, does not exist");
}

/// The program must run and be caught whatever its debug information says.
#[test]
fn debug_information_that_lies() {
    let place = Place::with("racy");
    let honest = fs::read(place.path("racy")).unwrap();
    let sections: Vec<(usize, usize)> = object::File::parse(&*honest)
        .unwrap()
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug")))
        .filter_map(|section| section.file_range())
        .map(|(start, size)| (start as usize, size as usize))
        .collect();
    assert!(sections.len() >= 4, "gcc -g writes debug information");
    for seed in 0..8 {
        let mut lying = honest.clone();
        for (start, size) in &sections {
            let bytes = &mut lying[*start..*start + *size];
            match seed {
                0 => bytes.fill(0),
                1 => bytes.fill(0xff),
                // One byte in two, in eight, in thirty-two…
                _ => {
                    let rare = 1u8 << (seed % 4 * 2 + 1).min(7);
                    for (byte, (spoil, new)) in
                        bytes.iter_mut().zip(noise(seed).zip(noise(seed + 100)))
                    {
                        if spoil % rare == 0 {
                            *byte = new;
                        }
                    }
                }
            }
        }
        place.executable("lying", &lying);
        let options = "run --max-races 1 --kill --for 2m -- ./lying";
        let outcome = place.run(options.split(' '));
        assert_eq!(outcome.status, 66, "seed {seed}: {outcome:#?}");
        let sites = place.run(["sites", "./lying"]);
        assert_eq!(sites.status, 0, "seed {seed}: {sites:#?}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense() {
    let place = Place::with("end");
    let wrong = [
        ("run", "PROGRAM"),
        ("run --for soon -- ./end", "a time like"),
        ("run --for 0s -- ./end", "above zero"),
        ("run --for -1 -- ./end", "a time like"),
        ("run --delay 0 -- ./end", "above zero"),
        ("run --overhead 200% -- ./end", "from 0% to 100%"),
        ("run --overhead -5% -- ./end", "from 0% to 100%"),
        ("attach abc", "the number of a process"),
        ("attach 0", "the number of a process"),
        ("run --delay 5parsecs -- ./end", "a time like"),
        ("run --overhead much -- ./end", "a percentage"),
        ("run --rate 0 -- ./end", "samples a second"),
        ("run --repeat 0 -- ./end", "--repeat"),
        ("run --exit-code 300 -- ./end", "--exit-code"),
        ("run --fail-on maybe -- ./end", "--fail-on"),
        ("run --detect luck -- ./end", "--detect"),
        ("run --misspelled -- ./end", "--misspelled"),
        ("run --function [ -- ./end", "bad glob '['"),
        ("run --file a[b -- ./end", "bad glob 'a[b'"),
        ("run --module {a -- ./end", "bad glob '{a'"),
        ("run --weight parse -- ./end", "bad weight 'parse'"),
        ("run --weight parse=-1 -- ./end", "bad weight 'parse=-1'"),
        ("run --weight parse=nan -- ./end", "bad weight 'parse=nan'"),
        ("sites", "FILE"),
        ("sites --function [ ./end", "bad glob '['"),
        ("frobnicate", "frobnicate"),
    ];
    for (line, told) in wrong {
        let outcome = place.run(line.split(' '));
        assert_eq!(outcome.status, 125, "{line}: {outcome:#?}");
        assert!(outcome.stderr.contains(told), "{line}: {outcome:#?}");
        assert_eq!(outcome.stdout(), "", "{line}");
    }
}

/// Globs that match nothing are a mistake, which must not look like a clean run.
#[test]
fn globs_that_match_nothing() {
    let place = Place::with("end");
    for option in ["--function", "--module", "--file"] {
        let outcome = place.run(["run", "--quiet", option, "nosuch", "--", "./end", "3"]);
        outcome.refused(125, &format!("matches {option} 'nosuch'"));
    }
    // One that matches nothing beside others is told, and the run is what the others make it.
    let options = "--function nosuch --function main --weight gone=3 --weight main=2";
    let outcome = place.run(format!("run {options} -- ./end 3").split(' '));
    assert_eq!(outcome.status, 3, "{outcome:#?}");
    assert!(
        outcome.says(
            "--function 'nosuch', --weight 'gone=3': matches no code that was loaded and can be sampled"
        ),
        "{outcome:#?}"
    );
    let outcome = place.run(format!("sites {options} ./end").split(' '));
    assert_eq!(outcome.status, 0, "{outcome:#?}");
    for option in ["--function 'nosuch'", "--weight 'gone=3'"] {
        let told = format!("{option} matches no code of the file");
        assert!(outcome.says(&told), "{outcome:#?}");
    }
}

#[test]
fn globs_whose_code_never_runs() {
    let place = Place::with("end");
    let outcome = place.run("run --quiet --function idle -- ./end 3".split(' '));
    assert_eq!(outcome.status, 3, "{outcome:#?}");
    assert!(
        outcome.says(
            "nothing was sampled: no code that matches --function 'idle' ran while it was armed"
        ),
        "{outcome:#?}"
    );
}

#[test]
fn a_program_whatever_its_file_is_called() {
    let place = Place::with("racy");
    let names: [&[u8]; 4] = [b"line\nfeed", b"racy (deleted)", b"\xff\xfe", b"\\012"];
    for name in names {
        let path = place.path(OsStr::from_bytes(name));
        // By another program, for the reason that `Place::file` gives.
        let mut copy = place.command("cp");
        copy.arg(place.path("racy")).arg(&path);
        assert!(copy.status().unwrap().success());
        // What is called benign is told without places where they would take a line.
        let options = "run --max-races 1 --kill --for 2m --show benign --"
            .split(' ')
            .map(OsStr::new);
        let outcome = place.run(options.chain([path.as_os_str()]));
        assert_eq!(outcome.status, 66, "{path:?}: {outcome:#?}");
        assert!(outcome.says("racy.c:"), "{path:?}: {outcome:#?}");
    }
}

#[test]
fn a_tool_that_is_traced_itself() {
    let place = Place::with("end");
    let mut tracer = place.command(place.build("tracer", "tracer", &[]));
    tracer.arg(env!("CARGO_BIN_EXE_redhanded"));
    tracer.args(["run", "--", "./end"]);
    let outcome = place.finish(tracer);
    outcome.refused(125, "cannot trace the program: tracer (process ");
}

#[test]
fn help_is_no_failure() {
    let place = Place::new();
    for line in ["--help", "run --help", "sites -h", "--version"] {
        let outcome = place.run(line.split(' '));
        assert_eq!(outcome.status, 0, "{line}: {outcome:#?}");
        assert!(outcome.stdout().contains("redhanded"), "{line}");
    }
}
