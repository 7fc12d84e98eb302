//! What the source says about an access, in both directions.

use super::compile::{Built, build_with, fixtures, run};
use super::synchronisation::accesses;
use object::{Object, ObjectSymbol};
use redhanded_image::{DebugInfo, DebugSearch, Instruction};
use redhanded_model::{Covered, Doubt, Marking, SourceEvidence, Svma};
use std::process::Command;

/// A change to a source.
type Edit = fn(&str) -> String;

const LEVELS: [&str; 3] = ["-O0", "-O2", "-Os"];
const COMMAND_LINE: &str = "-DCOMMAND_LINE(x)=__atomic_load_n(&(x),0)";

/// Every access in every function of a program, with what the source says.
fn told(built: &Built) -> Vec<(String, String, SourceEvidence)> {
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let data = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let mut all = Vec::new();
    for symbol in object.symbols().filter(|symbol| symbol.size() > 0) {
        if !symbol.is_definition() || symbol.kind() != object::SymbolKind::Text {
            continue;
        }
        for (at, text) in accesses(&image, symbol.address(), symbol.size()) {
            let evidence = debug.source_evidence(Svma(at));
            all.push((symbol.name().unwrap().to_owned(), text, evidence));
        }
    }
    all
}

fn word(marking: &Marking) -> &'static str {
    match marking {
        Marking::Atomic { .. } => "atomic",
        Marking::Volatile { .. } => "volatile",
        Marking::Plain => "plain",
        Marking::Unknown { .. } => "unknown",
    }
}

/// Holds every function to the first word of its name. Returns how many accesses there were.
fn check(built: &Built, about: &str, excuse: &dyn Fn(&str, &SourceEvidence) -> bool) -> usize {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for (function, text, evidence) in told(built) {
        let wanted = function.split('_').next().unwrap();
        if !["atomic", "volatile", "plain", "unknown"].contains(&wanted) {
            continue;
        }
        // Pointers on the way to an object are plain.
        let pointer = evidence
            .declared
            .as_ref()
            .is_some_and(|kind| kind.ends_with('*'));
        if pointer && wanted != "plain" {
            continue;
        }
        checked += 1;
        if word(&evidence.marking) != wanted && !excuse(&function, &evidence) {
            wrong.push(format!("{function}: {text} is {evidence:?}"));
        }
    }
    assert!(wrong.is_empty(), "{about}: {wrong:#?}");
    checked
}

fn never(_: &str, _: &SourceEvidence) -> bool {
    false
}

#[test]
fn each_function_is_what_its_name_says() {
    for compiler in ["gcc", "clang"] {
        for level in LEVELS {
            let options = ["-g", level, COMMAND_LINE, "-fno-builtin-memcmp"];
            let built = build_with(compiler, &["evidence.c", "evidence.h"], &options);
            let checked = check(&built, &format!("{compiler} {level}"), &never);
            assert!(checked >= 25, "{compiler} {level}: {checked}");
        }
    }
}

/// What DWARF 4 omits is in the text of the declarations. Where that does not tell, nothing
/// is called plain.
#[test]
fn types_without_atomic() {
    let options = ["-g", "-gdwarf-4", "-O1", COMMAND_LINE];
    let built = build_with("gcc", &["evidence.c", "evidence.h"], &options);
    let unsure = |function: &str, evidence: &SourceEvidence| {
        // Reached through a call or a sum, whose type alone is known.
        word(&evidence.marking) == "unknown"
            && ["call", "sum", "twice", "element", "lvalue", "typedef"]
                .iter()
                .any(|part| function.contains(part))
    };
    assert!(check(&built, "DWARF 4", &unsure) >= 25);
}

/// With `-g3` every macro is known.
#[test]
fn macro_information_settles_it() {
    for compiler in ["gcc", "clang"] {
        let mut options = vec!["-g3", "-O2", COMMAND_LINE];
        if compiler == "clang" {
            options.push("-fdebug-macro");
        }
        let built = build_with(compiler, &["evidence.c", "evidence.h"], &options);
        let settled = |function: &str, evidence: &SourceEvidence| match function {
            "unknown_command_line" | "unknown_choice" => word(&evidence.marking) == "atomic",
            "unknown_default" => word(&evidence.marking) == "plain",
            _ => false,
        };
        check(&built, compiler, &settled);
        for (function, _, evidence) in told(&built) {
            if function == "unknown_command_line" || function == "unknown_choice" {
                assert_eq!(word(&evidence.marking), "atomic", "{compiler} {function}");
            }
        }
    }
}

/// A header of macros only is in no line table: where it is gone, they are unknown.
#[test]
fn a_macro_without_its_header_is_unknown() {
    let options = ["-g", "-O2", COMMAND_LINE];
    let built = build_with("gcc", &["evidence.c", "evidence.h"], &options);
    std::fs::remove_file(built.folder.path().join("evidence.h")).unwrap();
    let found = told(&built);
    let (_, _, evidence) = found
        .iter()
        .find(|(function, ..)| function == "plain_by_header")
        .unwrap();
    assert_eq!(
        evidence.marking,
        Marking::Unknown {
            why: Doubt::UnknownName("HEADER_PLAIN".to_owned())
        }
    );
}

#[test]
fn accesses_side_by_side_are_told_apart() {
    for compiler in ["gcc", "clang"] {
        for level in LEVELS {
            let built = build_with(
                compiler,
                &["beside.c"],
                &["-g", level, "-fno-pie", "-no-pie"],
            );
            let mut seen = 0;
            for (function, text, evidence) in told(&built) {
                let Some(expression) = &evidence.expression else {
                    panic!("{compiler} {level}: {function}: {text} is {evidence:?}");
                };
                let wanted = match expression.text.as_str() {
                    "number" | "s->plain" | "s->more" => "plain",
                    "other" | "s->atomic" => "atomic",
                    "flag" | "s->state" => "volatile",
                    other => panic!("{compiler} {level}: {function}: {text} is {other}"),
                };
                assert_eq!(
                    word(&evidence.marking),
                    wanted,
                    "{compiler} {level}: {function}: {text} is {evidence:?}"
                );
                // The instruction says which member it is.
                let offset = ["s->plain", "s->atomic", "s->state", "s->more"]
                    .iter()
                    .position(|member| *member == expression.text);
                if let Some(offset) = offset {
                    let distance = ["]", "+4]", "+8]", "+0xc]"][offset];
                    let shown = text.contains(distance);
                    assert!(shown, "{compiler} {level}: {function}: {text} {evidence:?}");
                }
                seen += 1;
            }
            assert!(seen >= 12, "{compiler} {level}: {seen}");
        }
    }
}

/// What belongs to a volatile object is volatile. Types that share a name are told apart, or
/// else nothing is called plain.
#[test]
fn parts_of_volatile_objects() {
    for compiler in ["gcc", "clang"] {
        for level in LEVELS {
            let built = build_with(compiler, &["parts.c"], &["-g", level]);
            let checked = check(&built, &format!("{compiler} {level}"), &never);
            assert!(checked >= 12, "{compiler} {level}: {checked}");
        }
    }
}

/// An operator of a class is a function, and so is an overload that is chosen by arguments.
#[test]
fn operators_and_overloads() {
    for compiler in ["gcc", "clang"] {
        let built = build_with(compiler, &["operators.cc"], &["-g", "-O2"]);
        let checked = check(&built, compiler, &never);
        assert!(checked >= 7, "{compiler}: {checked}");
        let mut hidden = 0;
        for (function, text, evidence) in told(&built) {
            if function.starts_with("hidden") {
                let about = format!("{compiler}: {function}: {text} is {evidence:?}");
                assert_ne!(evidence.marking, Marking::Plain, "{about}");
                hidden += 1;
            }
        }
        assert!(hidden >= 4, "{compiler}: {hidden}");
    }
}

/// What is accessed lies in another variable than the one that the text names there: then the
/// text is not what was compiled to it.
#[test]
fn a_variable_elsewhere_is_not_what_is_accessed() {
    // For a library variables are reached through a table; the linker makes that a register.
    let built = build_with("gcc", &["elsewhere.c"], &["-g", "-O0", "-fPIC"]);
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let data = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let symbol = |name| object.symbol_by_name(name).unwrap();
    let function = symbol("read_first");
    let through_register = accesses(&image, function.address(), function.size())
        .into_iter()
        .find(|(_, text)| text.contains("[rax]"));
    let at = Svma(through_register.unwrap().0);
    let of = |name| debug.source_evidence_at(at, Svma(symbol(name).address()));
    assert_eq!(debug.source_evidence(at).marking, Marking::Plain);
    assert_eq!(of("first"), debug.source_evidence(at));
    assert_ne!(of("second").marking, Marking::Plain);
}

/// One store for an atomic and a plain arm is neither.
#[test]
fn merged_arms_are_not_told_apart() {
    let built = build_with("gcc", &["arms.c"], &["-g", "-O2"]);
    for (function, text, evidence) in told(&built) {
        let wanted = match function.as_str() {
            "arms" => "unknown",
            _ => "plain",
        };
        assert_eq!(
            word(&evidence.marking),
            wanted,
            "{function}: {text} {evidence:?}"
        );
    }
}

/// A macro in front of a statement or a block may make it atomic, and what a compiler does at the
/// line of a directive is not in the text.
#[test]
fn words_in_front_of_statements() {
    let text = include_str!("fixtures/prefixes.c");
    let directive = text.lines().position(|line| line.starts_with("#pragma"));
    let directive = u32::try_from(directive.unwrap() + 1).unwrap();
    for compiler in ["gcc", "clang"] {
        for level in ["-O1", "-O2", "-Os"] {
            let elsewhere = "-DCOMMAND_LINE=_Pragma(\"omp atomic write\")";
            let options = ["-g", level, "-fopenmp", elsewhere, "-DBLOCK(x)=", "-DWORD="];
            let built = build_with(compiler, &["prefixes.c"], &options);
            let not_plain = |function: &str, evidence: &SourceEvidence| {
                // Variables of a loop are plain where their own lines set them.
                let own_line = evidence.expression.as_ref();
                let own_line = own_line.is_some_and(|expression| expression.line != directive);
                let unknown = evidence.marking != Marking::Plain
                    || (function == "unknown_reduction" && own_line);
                function.starts_with("unknown") && unknown
            };
            let checked = check(&built, &format!("{compiler} {level}"), &not_plain);
            assert!(checked >= 9, "{compiler} {level}: {checked}");
        }
    }
}

/// A linker makes one function of two whose code is the same. What the debug information says of
/// it holds for one of them.
#[test]
fn functions_that_a_linker_folded() {
    for (units, dwarf) in [
        (["alike.c", "alike_plain.c"], "-gdwarf-4"),
        (["alike_plain.c", "alike.c"], "-gdwarf-4"),
        (["alike.c", "alike_plain.c"], "-gdwarf-5"),
        (["alike_plain.c", "alike.c"], "-gdwarf-5"),
    ] {
        for linker in ["-fuse-ld=bfd", "-fuse-ld=gold"] {
            let folds = linker != "-fuse-ld=bfd";
            let mut options = vec!["-g", dwarf, "-O2", "-ffunction-sections", linker];
            if folds {
                options.push("-Wl,--icf=all");
            }
            options.push(units[1]);
            // The second unit comes first on the command line.
            let built = build_with("gcc", &units, &options);
            let about = format!("{units:?} {dwarf} {linker}");
            for (function, text, evidence) in told(&built) {
                let wanted = match function.as_str() {
                    "alone" => "plain",
                    "own_get" | "own_set" if !folds => "plain",
                    "shared_get" | "shared_set" if !folds => "atomic",
                    "own_get" | "own_set" | "shared_get" | "shared_set" => "unknown",
                    _ => continue,
                };
                assert_eq!(
                    word(&evidence.marking),
                    wanted,
                    "{about}: {function}: {text} is {evidence:?}"
                );
            }
        }
    }
}

#[test]
fn compilers_access_wider_than_the_source() {
    for compiler in ["gcc", "clang"] {
        let built = build_with(compiler, &["wider.c"], &["-g", "-O3"]);
        let mut vectors = 0;
        let mut moves = 0;
        for (function, text, evidence) in told(&built) {
            let about = format!("{compiler}: {function}: {text} is {evidence:?}");
            match function.as_str() {
                "low" | "set_high" => {
                    let one = Covered { start: 0, len: 1 };
                    assert_eq!(evidence.covers, Some(one), "{about}");
                }
                "rest" => assert_eq!(
                    evidence.covers,
                    Some(Covered { start: 0, len: 2 }),
                    "{about}"
                ),
                "gaps" if text.contains("xmmword") => {
                    assert_ne!(evidence.marking, Marking::Plain, "{about}");
                    vectors += 1;
                }
                "dense" => assert_eq!(evidence.marking, Marking::Plain, "{about}"),
                "chosen" if text.starts_with("cmov") => {
                    let why = Doubt::Speculative;
                    assert_eq!(evidence.marking, Marking::Unknown { why }, "{about}");
                    moves += 1;
                }
                _ => {}
            }
        }
        assert!(
            compiler == "clang" || vectors > 0,
            "{compiler} vectorised nothing"
        );
        assert!(compiler == "clang" || moves > 0, "{compiler} moved nothing");
    }
}

/// A read of two members of which the source reads one on a condition.
#[test]
fn what_is_read_on_a_condition_may_not_be_in_the_source() {
    let built = build_with("gcc", &["conditional.c"], &["-g", "-O2"]);
    let (mut parted, mut whole) = (0, 0);
    for (function, text, evidence) in told(&built) {
        let about = format!("{function}: {text} is {evidence:?}");
        let both = text.contains("dword");
        if both && function.starts_with("parted") {
            let why = Doubt::Conditional;
            assert_eq!(evidence.marking, Marking::Unknown { why }, "{about}");
            parted += 1;
        } else if function.starts_with("whole") {
            assert_eq!(evidence.marking, Marking::Plain, "{about}");
            whole += usize::from(both);
        }
    }
    assert!(parted >= 2 && whole == 1, "{parted} and {whole}");
}

/// Loads that are made whether or not the source makes them, where the text does not show it.
#[test]
fn a_load_that_may_be_dropped_may_not_be_in_the_source() {
    for (compiler, level) in [("gcc", "-Os"), ("gcc", "-O2"), ("clang", "-O2")] {
        let built = build_with(compiler, &["conditional.c"], &["-g", level]);
        let image = built.image();
        let data = std::fs::read(&built.program).unwrap();
        let object = object::File::parse(&*data).unwrap();
        let mut found = 0;
        let is_code = |symbol: &object::Symbol<'_, '_>| {
            symbol.is_definition() && symbol.kind() == object::SymbolKind::Text && symbol.size() > 0
        };
        for symbol in object.symbols().filter(is_code) {
            let name = symbol.name().unwrap();
            for (at, text) in accesses(&image, symbol.address(), symbol.size()) {
                let source = image.debug().source_evidence(Svma(at));
                let nothing = image.reads_for_nothing(Svma(at), &source);
                let about = format!("{compiler} {level} {name}: {text} is {source:?}");
                assert!(!name.starts_with("made") || !nothing, "{about}");
                found += usize::from(name.starts_with("nothing") && nothing);
            }
        }
        assert!(found > 0, "{compiler} {level}");
    }
}

/// A read at the place of a call is not that of an argument.
#[test]
fn what_is_read_for_a_function_may_not_be_in_the_source() {
    let built = build_with("clang", &["promoted.c"], &["-g", "-O2", "-flto"]);
    let mut promoted = 0;
    for (function, text, evidence) in told(&built) {
        if function == "promoted" && text.contains("[0x") {
            let why = Doubt::Speculative;
            let about = format!("{text} is {evidence:?}");
            assert_eq!(evidence.marking, Marking::Unknown { why }, "{about}");
            promoted += 1;
        }
    }
    assert!(promoted >= 2, "{promoted}");
}

/// The line of a folded load names something else, which is plain.
#[test]
fn a_folded_load_is_not_called_plain() {
    for compiler in ["gcc", "clang"] {
        let built = build_with(compiler, &["folded.c"], &["-g", "-O2"]);
        let mut folded = 0;
        for (function, text, evidence) in told(&built) {
            let about = format!("{compiler}: {function}: {text} is {evidence:?}");
            if function.starts_with("plain") {
                assert_eq!(evidence.marking, Marking::Plain, "{about}");
            } else if function.starts_with("atomic") {
                assert_ne!(evidence.marking, Marking::Plain, "{about}");
                let why = Doubt::Folded;
                folded += usize::from(evidence.marking == Marking::Unknown { why });
            }
        }
        assert_eq!(
            folded > 0,
            compiler == "clang",
            "{compiler} folded {folded}"
        );
    }
}

/// The part at the fixed address of an instruction is the one that it accesses.
#[test]
fn parts_of_a_variable_are_told_apart() {
    for level in ["-O1", "-O2"] {
        let built = build_with("clang", &["compares.c"], &["-g", level]);
        let mut seen = 0;
        for (function, text, evidence) in told(&built) {
            let about = format!("{level}: {function}: {text} is {evidence:?}");
            let expression = evidence.expression.map(|found| found.text);
            if function == "is_ready" && expression.is_some() {
                let part = if seen == 0 { "present" } else { "ready" };
                assert_eq!(expression, Some(format!("device.{part}")), "{about}");
                seen += 1;
            }
        }
        assert!((1..=2).contains(&seen), "{level}: {seen}");
    }
}

/// Only a load with a choice behind it can be ahead of a condition.
#[test]
fn choices_behind_a_load() {
    for (compiler, level) in [("gcc", "-O1"), ("gcc", "-O2"), ("clang", "-O2")] {
        let built = build_with(compiler, &["folded.c"], &["-g", level]);
        let image = built.image();
        let data = std::fs::read(&built.program).unwrap();
        let object = object::File::parse(&*data).unwrap();
        for name in ["atomic_by_local", "atomic_compared", "atomic_chosen"] {
            let symbol = object.symbol_by_name(name).unwrap();
            for (address, text) in accesses(&image, symbol.address(), symbol.size()) {
                assert_eq!(
                    image.precedes_choice(Svma(address)),
                    name == "atomic_chosen",
                    "{compiler} {level}: {name}: {text}"
                );
            }
        }
    }
}

/// A source that was edited after the build, with a binary that is younger than it.
#[test]
fn an_edited_source_is_noticed() {
    let options = ["-g", "-O2", COMMAND_LINE];
    let edits: [(&str, Edit); 3] = [
        ("a line more above", |text| format!("\n{text}")),
        ("another name", |text| {
            text.replace("atomic_six_deep", "something_else")
        }),
        ("another statement", |text| {
            text.replace("return ONE(number);", "return invented;")
        }),
    ];
    for (about, edit) in edits {
        let built = build_with("gcc", &["evidence.c", "evidence.h"], &options);
        let source = built.folder.path().join("evidence.c");
        let text = std::fs::read_to_string(&source).unwrap();
        std::fs::write(&source, edit(&text)).unwrap();
        run(Command::new("touch").arg(&built.program));
        let found = told(&built);
        let (_, _, evidence) = found
            .iter()
            .find(|(function, ..)| function == "atomic_six_deep")
            .unwrap();
        assert_eq!(word(&evidence.marking), "unknown", "{about}: {evidence:?}");
    }
}

/// Clang writes the MD5 sum of each file, so that any edit shows.
#[test]
fn the_sum_of_a_source_is_compared() {
    let options = ["-g", "-gdwarf-5", "-O2", COMMAND_LINE];
    let built = build_with("clang", &["evidence.c", "evidence.h"], &options);
    let ask = || {
        let found = told(&built);
        let evidence = found
            .into_iter()
            .find(|(function, ..)| function == "atomic_six_deep");
        evidence.unwrap().2.marking
    };
    assert_eq!(word(&ask()), "atomic");
    let source = built.folder.path().join("evidence.c");
    let text = std::fs::read_to_string(&source).unwrap();
    // The same names at the same places, and the program is younger.
    std::fs::write(&source, text.replace("ONE(number)", "    number ")).unwrap();
    run(Command::new("touch").arg(&built.program));
    let why = Doubt::SourceChanged;
    assert_eq!(ask(), Marking::Unknown { why });
}

/// Rust with line tables only: inlined names have no paths, but their files do.
#[test]
fn line_tables_of_rust() {
    for debug in ["-Cdebuginfo=line-tables-only", "-Cdebuginfo=1", "-g"] {
        let options = [debug, "-O", "-Cstrip=none"];
        let built = build_with("rustc", &["channels.rs"], &options);
        let mut seen = Vec::new();
        for (function, text, evidence) in told(&built) {
            let wanted = match function.split('_').next().unwrap() {
                "marked" => "atomic",
                "plain" => "plain",
                "volatile" => "volatile",
                "unsure" => "unknown",
                _ => continue,
            };
            assert_eq!(
                word(&evidence.marking),
                wanted,
                "{debug}: {function}: {text} is {evidence:?}"
            );
            seen.push(wanted);
        }
        for wanted in ["atomic", "plain", "volatile", "unknown"] {
            assert!(seen.contains(&wanted), "{debug}: {wanted} was not seen");
        }
    }
}

/// The source names the member of a union.
#[test]
fn the_expression_names_the_member_of_a_union() {
    let built = build_with("gcc", &["unions.c"], &["-g", "-O1"]);
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    for (function, text, evidence) in told(&built) {
        let expression = evidence.expression.as_ref().unwrap();
        let word = built.symbol("word");
        let variable = debug.variable_at(word).unwrap();
        let part = variable.part_as(0, 4, Some(&expression.text));
        assert_eq!(part.path, format!(".{function}"), "{text}");
    }
    let first = debug.variable_at(built.symbol("word")).unwrap().part(0, 4);
    assert_eq!(first.path, ".as_int");
}

/// What is left of a variable that the compiler split is still that variable.
#[test]
fn a_piece_of_a_variable_has_its_name() {
    for dwarf in ["-gdwarf-4", "-gdwarf-5"] {
        let built = build_with("clang", &["split.c"], &["-g", dwarf, "-O2"]);
        let image = built.image();
        let debug = DebugInfo::new(&image, DebugSearch::nowhere());
        let symbols = built.symbols();
        let (_, at) = symbols
            .iter()
            .find(|(name, _)| name.starts_with("entry"))
            .unwrap();
        let variable = debug.variable_at(*at).unwrap();
        let part = variable.part(at.0 - variable.svma.0, 4);
        assert_eq!(format!("{}{}", variable.name, part.path), "entry.flags");
        let behind = debug.variable_at(at.offset(4));
        assert!(behind.is_none_or(|variable| variable.name != "entry"));
        for (function, text, evidence) in told(&built) {
            if function == "toggle" {
                assert_eq!(evidence.marking, Marking::Plain, "{text}");
            }
        }
    }
}

/// Without a decodable access there is nothing to say, and nothing panics.
#[test]
fn every_address_can_be_asked_about() {
    let built = build_with(
        "gcc",
        &["evidence.c", "evidence.h"],
        &["-g", "-O2", COMMAND_LINE],
    );
    let image = built.image();
    let start = built.symbol("atomic_six_deep").0;
    for at in start..start + 400 {
        let _ = image.debug().source_evidence(Svma(at));
        let _ = image
            .bytes_at(Svma(at), 15)
            .and_then(|code| Instruction::decode(code, at));
    }
    let _ = fixtures();
}
