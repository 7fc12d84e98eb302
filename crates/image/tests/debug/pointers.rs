//! What is behind a pointer, in functions whose last plain access is known.

use super::compile::{Built, build, build_with, separate};
use object::{Object, ObjectSymbol};
use redhanded_image::{DebugInfo, DebugSearch, Image, Named};
use redhanded_model::{AccessKind, Svma};
use std::collections::BTreeSet;

/// What each write of a function through a pointer is called.
pub fn written(
    built: &Built,
    debug: &DebugInfo,
    function: &str,
    words: &str,
) -> Vec<Option<Named>> {
    let image = built.image();
    let (start, size) = range(built, function);
    let mut at = start;
    let mut names = Vec::new();
    while at < start + size {
        let instruction = image.instruction_at(Svma(at)).unwrap();
        at = instruction.next();
        let Some(access) = instruction.sampled_access() else {
            continue;
        };
        let operand = &access.operand;
        let frame = |register| {
            use redhanded_model::Register::{Rbp, Rsp};
            register == Rsp || (register == Rbp && operand.displacement.cast_signed() < 0)
        };
        if access.kind == AccessKind::Read || operand.base.is_none_or(frame) {
            continue;
        }
        let pointed = debug.pointed_at(Svma(instruction.address()));
        names.push(pointed.and_then(|pointed| pointed.any_part(access.size.into(), words)));
    }
    names
}

pub fn range(built: &Built, function: &str) -> (u64, u64) {
    let data = std::fs::read(&built.program).unwrap();
    let data = match object::File::parse(&*data).unwrap().symbols().next() {
        Some(_) => data,
        None => std::fs::read(built.folder.path().join("program.debug")).unwrap(),
    };
    let object = object::File::parse(&*data).unwrap();
    let symbol = object
        .symbols()
        .find(|symbol| {
            let name = symbol.name().unwrap_or_default();
            name == function || name.contains(&format!("{}{function}", function.len()))
        })
        .unwrap_or_else(|| panic!("no function {function}"));
    (symbol.address(), symbol.size())
}

/// Checks the name of the only write that a function makes through a pointer: the expression,
/// and the type with the path.
#[track_caller]
pub fn check(built: &Built, function: &str, words: &str, expect: (&str, &str)) {
    let search = DebugSearch::nowhere();
    let debug = DebugInfo::new(&built.image(), search);
    let names = written(built, &debug, function, words);
    let [Some(named)] = names.as_slice() else {
        panic!("{function}: {names:?}");
    };
    assert!(!named.doubtful, "{function}: {named:?}");
    let place = format!("{}{}", named.object, named.path);
    let expression = named.expression.as_deref().unwrap_or("…");
    assert_eq!((expression, place.as_str()), expect, "{function}");
}

fn check_c(built: &Built) {
    check(built, "member", "", ("it->flags", "item.flags"));
    check(
        built,
        "behind",
        "",
        ("it->next->references", "struct item.references"),
    );
    check(built, "global", "", ("shared->head->time", "item.time"));
    check(built, "bits", "it->level", ("it->level", "item.level"));
    check(
        built,
        "in_union",
        "it->number",
        ("it->number", "item.number"),
    );
}

#[test]
fn members_have_the_names_that_the_source_gives_them() {
    for options in [["-g", "-O2"], ["-g", "-O0"], ["-g", "-Os"]] {
        let built = build("pointers.c", &options);
        check_c(&built);
        check(&built, "returned", "", ("…", "item.time"));
    }
    check_c(&build("pointers.c", &["-g", "-O2", "-gdwarf-4"]));
    check_c(&build_with("clang", &["pointers.c"], &["-g", "-O2"]));
}

#[test]
fn arrays_are_walked_by_their_stride() {
    let built = build("pointers.c", &["-g", "-O2"]);
    let hits = ("table->slots[…].hits", "struct slot.hits");
    check(&built, "array", "", hits);
    check(
        &built,
        "element",
        "",
        ("table->more[…].key", "struct slot.key"),
    );
    check(&built, "number", "", ("numbers[…]", "int"));
}

/// A wrong name is worse than none.
#[test]
fn what_is_not_known_has_no_name() {
    for level in ["-O0", "-O2", "-Os"] {
        let built = build("pointers.c", &["-g", level]);
        let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
        for function in ["nothing", "around"] {
            let names = written(&built, &debug, function, "");
            assert!(!names.is_empty(), "{function} {level}");
            for named in names.iter().flatten() {
                let sure = !named.doubtful && !named.steps.is_empty();
                let right = named.steps.last().is_some_and(|step| step.to == ".after");
                assert!(!sure || right, "{function} {level}: {named:?}");
            }
        }
        for named in written(&built, &debug, "either", "").iter().flatten() {
            assert!(named.steps.is_empty(), "either {level}: {named:?}");
        }
    }
}

/// The same code is entered from above and from the table of a `switch`.
#[test]
fn a_case_that_falls_through_is_entered_twice() {
    let built = build("pointers.c", &["-g", "-O2"]);
    let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
    let names = written(&built, &debug, "cases", "");
    let mut places: Vec<String> = names
        .iter()
        .map(|named| {
            let named = named.as_ref().expect("all are named");
            named.path.clone()
        })
        .collect();
    places.sort();
    places.dedup();
    assert_eq!(
        places,
        [".count", ".flags", ".hits", ".references", ".time"]
    );
    for named in names.iter().flatten() {
        let expression = named.expression.as_deref().unwrap_or_default();
        assert_ne!(
            expression, "it->next->references",
            "only on one of two ways"
        );
    }
}

#[test]
fn classes_have_bases_and_containers_are_looked_through() {
    for level in ["-O0", "-O2"] {
        let built = build("pointers.cc", &["-g", level]);
        check(
            &built,
            "deposit",
            "",
            ("this->balance", "bank::Account.balance"),
        );
        check(
            &built,
            "rename",
            "",
            ("this->version", "bank::Account.version"),
        );
        check(
            &built,
            "reference",
            "",
            ("named.version", "bank::Named.version"),
        );
    }
    // What the call returns has the library's own name for its type.
    let built = build("pointers.cc", &["-g", "-O0"]);
    check(&built, "indexed", "", ("…", "bank::Account.version"));
    let built = build("pointers.cc", &["-g", "-O2"]);
    check(
        &built,
        "owned",
        "",
        ("book->owner->version", "bank::Named.version"),
    );
}

#[test]
fn an_index_that_leads_out_of_an_array_is_the_arrays() {
    for level in ["-O0", "-O1", "-O2"] {
        let built = build("outside.c", &["-g", level]);
        let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
        let (samples, limit) = (built.symbol("samples"), built.symbol("limit"));
        let told = |function: &str, data: Svma| {
            let image = built.image();
            let (start, size) = range(&built, function);
            let mut at = start;
            let mut told = Vec::new();
            while at < start + size {
                let instruction = image.instruction_at(Svma(at)).unwrap();
                at = instruction.next();
                let named = debug.outside(Svma(instruction.address()), data, 4);
                told.extend(named.and_then(|named| named.expression));
            }
            told
        };
        let from = |start: Svma, size: i64| {
            let distance = limit.0.cast_signed() - start.0.cast_signed();
            distance.div_euclid(size)
        };
        let number = format!("samples[{}]", from(samples, 4));
        assert_eq!(told("number", limit), [number], "{level}");
        let member = format!("cells[{}].value", from(built.symbol("cells"), 8));
        assert_eq!(told("member", limit), [member], "{level}");
        let nothing = Vec::<String>::new();
        assert_eq!(told("number", samples.offset(4)), nothing, "within");
        for function in ["either", "behind", "fixed"] {
            assert_eq!(told(function, limit), nothing, "{function} {level}");
        }
    }
}

/// The code of a lambda finds what it captures in an object that nobody writes.
#[test]
fn captures_have_the_names_that_the_source_gives_them() {
    for level in ["-O0", "-O2"] {
        let built = build("pointers.cc", &["-g", level]);
        let lambda = |number: &str| format!("_ZZN7Counter8capturesERllENK{number}clEl");
        check(&built, &lambda("UllE_"), "", ("seen", "long"));
        let kept = lambda("UllE0_").replace("ENK", "EN");
        check(&built, &kept, "", ("kept", "<lambda>.kept"));
        check(
            &built,
            &lambda("UllE1_"),
            "",
            ("this->total", "Counter.total"),
        );
    }
    for compiler in ["g++", "clang++"] {
        let built = build_with(compiler, &["captures.cc"], &["-g", "-O2"]);
        check(&built, "inlined", "", ("total", "long"));
        for level in ["-O0", "-O2"] {
            let built = build_with(compiler, &["captures.cc"], &["-g", level]);
            check(&built, "_ZZ8apart_ofRlENKUllE_clEl", "", ("seen", "long"));
        }
    }
}

#[test]
fn the_table_of_virtual_functions_is_a_member() {
    for level in ["-O0", "-O2"] {
        let built = build("pointers.cc", &["-g", level]);
        let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
        let names = written(&built, &debug, "_ZN5ShapeC2Ev", "");
        let named = names.iter().flatten();
        let paths: BTreeSet<_> = named.map(|named| named.path.as_str()).collect();
        assert_eq!(paths, BTreeSet::from(["._vptr", ".sides"]), "{names:?}");
    }
}

#[test]
fn rust_is_written_as_rust() {
    let options = ["-g", "-O", "--edition", "2024", "-C", "codegen-units=1"];
    let built = build("pointers.rs", &options);
    check(
        &built,
        "exclusive",
        "",
        ("shared.limit", "pointers::Shared.limit"),
    );
    check(
        &built,
        "tuple",
        "",
        ("shared.pair.1", "pointers::Shared.pair.1"),
    );
    // Not of the type in which the library keeps it.
    check(
        &built,
        "counted",
        "",
        ("(*shared).limit", "pointers::Shared.limit"),
    );
}

#[test]
fn a_separate_file_says_the_same() {
    let built = build("pointers.c", &["-g", "-O2"]);
    separate(&built, "program.debug");
    let image = Image::open(&built.program).unwrap();
    let names = written(&built, image.debug(), "member", "");
    let [Some(named)] = names.as_slice() else {
        panic!("{names:?}");
    };
    assert_eq!(named.expression.as_deref(), Some("it->flags"));
}

#[test]
fn memory_is_not_called_by_the_copy_that_is_made_of_it() {
    let built = build("copies.c", &["-g", "-O2"]);
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let (start, size) = range(&built, "mixed");
    let mut at = start;
    let mut reads = 0;
    while at < start + size {
        let instruction = image.instruction_at(Svma(at)).unwrap();
        at = instruction.next();
        let pointed = debug.pointed_at(Svma(instruction.address()));
        let Some((pointed, access)) = pointed.zip(instruction.sampled_access()) else {
            continue;
        };
        let named = pointed.any_part(access.size.into(), "").unwrap();
        let name = named.expression.unwrap();
        assert!(name.contains("text") || name.contains("secret"), "{name}");
        reads += 1;
    }
    assert_eq!(reads, 4);
}

#[test]
fn a_class_is_known_by_its_definition_in_another_unit() {
    let files = ["declared.cc", "defined.cc", "declared.h"];
    let built = build_with("g++", &files, &["-g", "-O2", "defined.cc"]);
    check(&built, "tick", "", ("clock->ticks", "shop::Clock.ticks"));
    check(
        &built,
        "deep",
        "",
        ("clock->inner.deep", "shop::Clock.inner.deep"),
    );
}
