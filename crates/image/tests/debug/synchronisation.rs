use super::compile::{Built, build};
use object::{Object, ObjectSymbol};
use redhanded_image::{DebugInfo, DebugSearch, Image, Instruction, SegmentBase};
use redhanded_model::{Marking, Register, Svma};
use std::time::{Duration, SystemTime};

/// Why an access is atomic or volatile, if it is.
fn word(marking: &Marking) -> Option<&str> {
    match marking {
        Marking::Atomic { word } | Marking::Volatile { word } => Some(word),
        Marking::Plain | Marking::Unknown { .. } => None,
    }
}

fn is_marked(marking: &Marking) -> bool {
    word(marking).is_some()
}

fn is_unknown(marking: &Marking) -> bool {
    matches!(marking, Marking::Unknown { .. })
}

/// Every access to shared data in the function, by its address: not the stack,
/// not the global offset table, not what a lock prefix shows already.
pub fn accesses(image: &Image, start: u64, size: u64) -> Vec<(u64, String)> {
    let code = image.bytes_at(Svma(start), size as usize).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let Some(instruction) = Instruction::decode(&code[at..], start + at as u64) else {
            break;
        };
        let shared = instruction.accesses().iter().any(|access| {
            let operand = access.operand;
            let fixed = operand.constant().map(Svma);
            !access.stack_engine
                && !matches!(operand.base, Some(Register::Rsp | Register::Rbp))
                && operand.segment == SegmentBase::Flat
                && !fixed.is_some_and(|at| image.is_relro(at))
                && fixed.is_none_or(|at| image.segment_at(at).is_some_and(|s| s.writable))
        });
        if shared && !instruction.locked() {
            found.push((instruction.address(), instruction.text()));
        }
        at += instruction.len();
    }
    found
}

/// Holds every function to its name. Those whose accesses are in functions
/// they call have none of their own.
fn check(built: &Built, without: &[&str]) {
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let data = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let mut checked = 0;
    for symbol in object.symbols() {
        let name = symbol.name().unwrap();
        let Some(kind) = ["marked_", "plain_", "unsure_"]
            .iter()
            .find(|kind| name.starts_with(**kind))
        else {
            continue;
        };
        let found = accesses(&image, symbol.address(), symbol.size());
        if found.is_empty() {
            assert!(without.contains(&name), "{name} accesses nothing");
        }
        for (at, text) in found {
            let answer = debug.source_evidence(Svma(at)).marking;
            let as_named = match *kind {
                "marked_" => is_marked(&answer),
                "plain_" => answer == Marking::Plain,
                _ => is_unknown(&answer),
            };
            assert!(as_named, "{name}: {text} is {answer:?}");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// At -O0 a C++ or Rust atomic is a function call; the access is in there.
fn check_functions(built: &Built, family: &str, method: &str) {
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let data = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let mut marked = 0;
    for symbol in object.symbols().filter(|s| s.size() > 0) {
        let name = debug
            .frames(Svma(symbol.address()))
            .pop()
            .unwrap_or_default();
        let name = name.function.unwrap_or_default();
        if !name.contains(family) || !name.ends_with(method) {
            continue;
        }
        for (at, text) in accesses(&image, symbol.address(), symbol.size()) {
            let answer = debug.source_evidence(Svma(at)).marking;
            assert!(is_marked(&answer), "{name}: {text} is {answer:?}");
            marked += 1;
        }
    }
    assert!(marked > 0, "no access in {family}…{method}");
}

#[test]
fn idioms_of_c() {
    let locked = ["marked_sync"];
    // Without folding functions alike: the same code cannot be both.
    for level in ["-O0", "-Og", "-O1", "-O2", "-O3", "-Os"] {
        check(
            &build("idioms.c", &["-g", "-fopenmp", "-fno-ipa-icf", level]),
            &locked,
        );
    }
    check(
        &build(
            "idioms.c",
            &["-g", "-fopenmp", "-fno-ipa-icf", "-O2", "-gdwarf-4"],
        ),
        &locked,
    );
    check(
        &build(
            "idioms.c",
            &["-g", "-fopenmp", "-fno-ipa-icf", "-O2", "-no-pie"],
        ),
        &locked,
    );
    check(
        &build(
            "idioms.c",
            &["-g", "-fopenmp", "-fno-ipa-icf", "-O0", "-gno-column-info"],
        ),
        &locked,
    );
}

/// Declarations in another unit than the code; globals reached by way of the
/// global offset table.
#[test]
fn idioms_of_c_in_a_library() {
    let options = ["-g", "-O2", "-shared", "-fPIC", "-fopenmp", "-fno-ipa-icf"];
    check(&build("idioms.c", &options), &["marked_sync"]);
    check(
        &build("idioms.c", &[&options[..], &["-flto"]].concat()),
        &["marked_sync"],
    );
}

/// Lines alone do not tell what a name stands for: nothing is called plain that
/// may not be.
#[test]
fn lines_without_types_leave_doubt() {
    let built = build("idioms.c", &["-g1", "-O1", "-fopenmp", "-fno-ipa-icf"]);
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let ask = |function| {
        let at = accesses(&image, built.symbol(function).0, 32)[0].0;
        debug.source_evidence(Svma(at)).marking
    };
    assert!(is_marked(&ask("marked_load")));
    assert!(is_unknown(&ask("marked_volatile_member")));
    assert!(is_unknown(&ask("plain_member")));
}

#[test]
fn idioms_of_cpp() {
    for level in ["-O1", "-O2", "-O3"] {
        let built = build("idioms.cc", &["-g", "-std=c++20", level]);
        check(&built, &["marked_assign"]);
    }
    let calls = [
        "marked_assign",
        "marked_convert",
        "marked_load",
        "marked_store",
        "marked_wait",
        "marked_clear",
        "marked_reference",
        "marked_free",
    ];
    let built = build("idioms.cc", &["-g", "-std=c++20"]);
    check(&built, &calls);
    check_functions(&built, "std::atomic<bool>", "::load");
}

/// The pointer is loaded atomically; what it points to is stored plainly.
#[test]
fn what_an_atomic_points_to_is_plain() {
    for level in ["-O0", "-O2"] {
        let built = build("idioms.cc", &["-g", "-std=c++20", level]);
        let image = built.image();
        let debug = DebugInfo::new(&image, DebugSearch::nowhere());
        let start = built.symbol("behind_atomic").0;
        let found = accesses(&image, start, 64);
        let (at, _) = found.iter().find(|(_, text)| text.contains("+8]")).unwrap();
        let evidence = debug.source_evidence(Svma(*at));
        assert_eq!(evidence.marking, Marking::Plain, "{level}");
        let pointer = found.iter().find(|(_, text)| text.contains("[rip"));
        for (at, _) in pointer.into_iter().filter(|_| level == "-O2") {
            assert!(is_marked(&debug.source_evidence(Svma(*at)).marking));
        }
    }
}

#[test]
fn idioms_of_rust() {
    let built = build("idioms.rs", &["-g", "-O", "-Cstrip=none"]);
    check(&built, &[]);
    let built = build("idioms.rs", &["-g", "-Cstrip=none"]);
    check(
        &built,
        &[
            "marked_load",
            "marked_store",
            "marked_wait",
            "marked_volatile",
            "plain_owned",
        ],
    );
    check_functions(&built, "core::sync::atomic", "atomic_load");
}

/// A statement may have plain accesses beside the marked one.
#[test]
fn accesses_of_one_statement_are_told_apart() {
    for level in ["-O0", "-O1", "-O2"] {
        let built = build("idioms.c", &["-g", "-fopenmp", level]);
        let image = built.image();
        let debug = DebugInfo::new(&image, DebugSearch::nowhere());
        let data = std::fs::read(&built.program).unwrap();
        let object = object::File::parse(&*data).unwrap();
        let functions = object
            .symbols()
            .filter(|s| s.name().unwrap().starts_with("both_"));
        let mut seen = Vec::new();
        for symbol in functions {
            for (at, text) in accesses(&image, symbol.address(), symbol.size()) {
                let code = image.bytes_at(Svma(at), 15).unwrap();
                let access = Instruction::decode(code, at).unwrap().accesses()[0];
                // Through a pointer only the cast in the macro goes.
                let variable = access
                    .operand
                    .constant()
                    .and_then(|at| debug.variable_at(Svma(at)))
                    .map_or_else(String::new, |variable| variable.name);
                let answer = debug.source_evidence(Svma(at)).marking;
                let about = format!("{level} {}: {text} is {answer:?}", symbol.name().unwrap());
                match variable.as_str() {
                    "number" => assert_eq!(answer, Marking::Plain, "{about}"),
                    _ => assert!(is_marked(&answer), "{about}"),
                }
                seen.push(variable);
            }
        }
        for name in ["number", "other", "flag"] {
            assert!(
                seen.iter().any(|seen| seen == name),
                "{name} is not accessed"
            );
        }
    }
}

#[test]
fn the_guard_of_a_static_is_marked() {
    for options in [&["-g"][..], &[], &["-O2", "-g"]] {
        let built = build("variables.cc", options);
        let image = built.image();
        let debug = DebugInfo::new(&image, DebugSearch::nowhere());
        let guard = built.symbol("_ZGVZ4lazyvE4made").0;
        let start = built.symbol("_Z4lazyv").0;
        let mut found = 0;
        for (at, text) in accesses(&image, start, 60) {
            let code = image.bytes_at(Svma(at), 15).unwrap();
            let access = Instruction::decode(code, at).unwrap().accesses()[0];
            if access.operand.constant() == Some(guard) {
                let answer = debug.source_evidence(Svma(at)).marking;
                assert!(is_marked(&answer), "{text} is {answer:?}");
                found += 1;
            }
        }
        assert!(found > 0);
    }
}

#[test]
fn what_marks_it_is_told() {
    let built = build("idioms.c", &["-g", "-O2", "-fopenmp", "-fno-ipa-icf"]);
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    for (function, how) in [
        ("marked_load", "__atomic_load_n"),
        ("marked_macro", "macro READ_ONCE"),
        ("marked_macro_of_macro", "macro LOOK"),
        ("marked_openmp", "#pragma omp atomic"),
        ("marked_volatile_store", "flag is volatile"),
        ("marked_volatile_fixed_member", "record.flag is volatile"),
        ("marked_atomic_member", "s->atomic is atomic"),
    ] {
        let found = accesses(&image, built.symbol(function).0, 32);
        let answer = debug.source_evidence(Svma(found[0].0)).marking;
        assert_eq!(word(&answer), Some(how), "{function}");
    }
}

#[test]
fn a_source_that_is_gone_or_changed_says_nothing() {
    let built = build("idioms.c", &["-g", "-O2", "-fopenmp", "-fno-ipa-icf"]);
    let image = built.image();
    let load = accesses(&image, built.symbol("marked_load").0, 32)[0].0;
    let ask = || {
        DebugInfo::new(&image, DebugSearch::nowhere())
            .source_evidence(Svma(load))
            .marking
    };
    assert!(is_marked(&ask()));
    let source = built.folder.path().join("idioms.c");
    let later = SystemTime::now() + Duration::from_secs(3600);
    std::fs::File::options()
        .append(true)
        .open(&source)
        .unwrap()
        .set_modified(later)
        .unwrap();
    assert!(is_unknown(&ask()));
    std::fs::remove_file(&source).unwrap();
    assert!(is_unknown(&ask()));
}

#[test]
fn without_debug_information_nothing_is_known() {
    let built = build("idioms.c", &["-O2", "-fopenmp", "-fno-ipa-icf"]);
    let image = built.image();
    let at = accesses(&image, built.symbol("plain_increment").0, 32)[0].0;
    assert!(is_unknown(&image.debug().source_evidence(Svma(at)).marking));
}
