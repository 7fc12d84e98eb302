//! What containers hold, members that share their bytes, and arrays that are left: the member
//! that a race is known by.

use super::compile::{Built, build};
use super::pointers::{check, written};
use redhanded_image::{DebugInfo, DebugSearch, Named};

/// All names of the writes of a function through pointers.
fn names(built: &Built, function: &str, words: &str) -> Vec<Named> {
    let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
    let names = written(built, &debug, function, words);
    names.into_iter().flatten().collect()
}

/// The member that the only write of a function through a pointer is known by.
#[track_caller]
fn member(built: &Built, function: &str, words: &str) -> String {
    let names = names(built, function, words);
    let [named] = names.as_slice() else {
        panic!("{function}: {names:?}");
    };
    assert!(!named.doubtful, "{function}: {named:?}");
    let member = named.member.as_ref();
    member.map_or_else(String::new, |step| format!("{}{}", step.of, step.to))
}

#[test]
fn bit_fields_that_share_their_bytes_are_known_by_what_has_them() {
    for level in ["-O0", "-O2"] {
        let built = build("members.c", &["-g", level]);
        for (function, words) in [("first", "it->a"), ("second", "it->b"), ("second", "")] {
            assert_eq!(member(&built, function, words), "struct conn", "{level}");
        }
        assert_eq!(member(&built, "alone", "it->c"), "struct conn.c", "{level}");
        let text = member(&built, "in_union", "it->u.text");
        assert!(text.ends_with(".text"), "{level}: {text}");
    }
    let built = build("members.c", &["-g", "-O2"]);
    assert_eq!(member(&built, "at_once", ""), "struct over");
    assert_eq!(member(&built, "elements", ""), "struct over.a");
}

#[test]
fn a_member_is_known_by_the_type_that_has_it() {
    for level in ["-O0", "-O2"] {
        let built = build("members.c", &["-g", level]);
        assert_eq!(member(&built, "deep", ""), "struct inner.x", "{level}");
    }
}

/// The part of `struct over` that an element of an array is, where the register points to it.
fn element(built: &Built, function: &str, distance: i64, words: &str) -> Option<Named> {
    let image = built.image();
    let debug = DebugInfo::new(&image, DebugSearch::nowhere());
    let (start, size) = super::pointers::range(built, function);
    let mut at = start;
    while at < start + size {
        let instruction = image.instruction_at(redhanded_model::Svma(at)).unwrap();
        at = instruction.next();
        let Some(access) = instruction.sampled_access() else {
            continue;
        };
        if access.operand.index.is_some() {
            let svma = redhanded_model::Svma(instruction.address());
            return debug.pointed_at(svma)?.part(distance, 4, words);
        }
    }
    None
}

#[test]
fn an_index_beyond_its_array_is_told_with_the_array() {
    let built = build("members.c", &["-g", "-O2"]);
    let named = |distance, words| {
        let named = element(&built, "array", distance, words).unwrap();
        format!("{}{}", named.object, named.path)
    };
    assert_eq!(named(16, "o->a[at]"), "struct over.a[0]");
    assert_eq!(named(28, "o->a[at]"), "struct over.a[3]");
    assert_eq!(named(32, "o->a[at]"), "struct over.a[4]");
    assert_eq!(named(12, "o->a[at]"), "struct over.a[-1]");
    // Where the source does not say so, it is what is there.
    assert_eq!(named(32, ""), "struct over.after");
    assert_eq!(named(32, "o->after"), "struct over.after");
    let beyond = element(&built, "array", 32, "o->a[at]").unwrap();
    assert_eq!(beyond.expression.as_deref(), Some("o->a[4]"));
    assert!(!beyond.doubtful);
    // The compiler counts the elements of one array from another.
    let other = element(&built, "counted_from_another", 40, "o->rows[at - 5]").unwrap();
    assert_eq!(other.path, ".rows[1]");
}

#[test]
fn an_element_is_known_by_the_array_that_the_source_names() {
    let built = build("members.c", &["-g", "-O2", "-fno-tree-vectorize"]);
    assert_eq!(member(&built, "walked", "o->a[at]"), "struct over.a");
    assert_eq!(member(&built, "walked", ""), "");
}

#[test]
fn containers_of_rust_hold_their_elements() {
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let options = ["-g", level, "--edition", "2024", "-C", "codegen-units=1"];
        let built = build("contents.rs", &options);
        for function in ["in_row", "in_number"] {
            for named in names(&built, function, "") {
                assert_ne!(named.type_name, "u8", "{function} {level}: {named:?}");
            }
        }
        for named in names(&built, "in_shape", "") {
            assert!(!named.path.contains("Circle"), "{level}: {named:?}");
        }
    }
    let options = ["-g", "-O", "--edition", "2024", "-C", "codegen-units=1"];
    let built = build("contents.rs", &options);
    let row = ("table.rows[2].hits", "contents::Row[2].hits");
    check(&built, "in_row", "", row);
    check(&built, "in_number", "", ("table.numbers[1]", "u64[1]"));
    check(
        &built,
        "in_owner",
        "",
        ("table.owner.hits", "contents::Row.hits"),
    );
    let shape = ("table.shape", "contents::Table.shape");
    check(&built, "in_shape", "", shape);
    check(&built, "in_shape", "(*table).0", shape);
    let chosen = ("table.shape.Rect.h", "contents::Table.shape.Rect.h");
    check(&built, "in_shape", "Shape::Rect { h }", chosen);
    check(&built, "in_shape", "*h", chosen);
    assert_eq!(member(&built, "in_row", ""), "contents::Row.hits");
}

#[test]
fn containers_of_cpp_hold_their_elements() {
    for level in ["-O0", "-O2"] {
        let built = build("contents.cc", &["-g", level]);
        for function in [
            "in_shared",
            "in_optional",
            "in_vector",
            "in_unique",
            "in_node",
        ] {
            for named in names(&built, function, "") {
                assert!(!named.path.contains("_M_"), "{function} {level}: {named:?}");
            }
        }
    }
    let built = build("contents.cc", &["-g", "-O2"]);
    check(
        &built,
        "in_shared",
        "",
        ("bank->main->mode", "Account.mode"),
    );
    check(
        &built,
        "in_optional",
        "",
        ("account->limit", "Account.limit"),
    );
    check(&built, "in_vector", "", ("account->items[3]", "int[3]"));
    check(&built, "in_unique", "", ("*account->last", "int"));
    assert_eq!(member(&built, "in_optional", ""), "Account.limit");
    assert_eq!(member(&built, "in_node", ""), "Account.mode");
}

#[test]
fn variables_are_written_without_their_cells() {
    let options = ["-g", "--edition", "2024", "-Cstrip=none"];
    let built = build("contents.rs", &options);
    let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
    let count = built.symbol("contents::COUNT");
    let count = debug.variable_at(count).unwrap().part(0, 8);
    assert_eq!(count.path, ".0.value");
    assert_eq!(count.path_as_written(), "");
    let locked = built.symbol("contents::LOCKED");
    let locked = debug.variable_at(locked).unwrap();
    let mut parts = (0..locked.size).map(|at| locked.part(at, 1).path_as_written());
    assert!(parts.any(|path| path == ".hits"));
}
