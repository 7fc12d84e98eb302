//! Calls through linkage stubs and tables have their symbols' names.

use crate::fixture::{Built, assembly, c, present};
use redhanded_image::{Flow, Image, Instruction};
use redhanded_model::{Excluded, Svma};
use std::collections::BTreeSet;

const CALLS: &str = r#"
    #include <stdlib.h>
    #include <string.h>
    #include <stdio.h>
    __attribute__((noinline)) int own(int n) { return n + 1; }
    char buffer[4096];
    int main(int argc, char **argv) {
        void (*give_up)(void) = abort;   /* its address: a slot of the table */
        memcpy(buffer, argv[0], argc);
        puts(buffer);
        if (argc > 100) give_up();
        return own((int)strlen(buffer));
    }
"#;

/// The names of everything `function` calls.
fn called(built: &Built, function: &str) -> BTreeSet<String> {
    let image = &built.image;
    let function = image.function_at(built.start(function)).unwrap().clone();
    let mut names = BTreeSet::new();
    let mut at = function.start;
    while at < function.end {
        let instruction = Instruction::decode(image.bytes_at(at, 15).unwrap(), at.0).unwrap();
        at = Svma(instruction.next());
        if instruction.is_call()
            && let Some(name) = image.call_target_name(at)
        {
            names.insert(name);
        }
    }
    names
}

#[test]
fn every_variant_of_stub_is_named() {
    for flags in [
        &["-O1"][..],
        &["-O1", "-Wl,-z,lazy"],
        &["-O1", "-Wl,-z,now"],
        &["-O1", "-fcf-protection=full", "-Wl,-z,ibtplt"],
        &["-O1", "-fcf-protection=full", "-Wl,-z,now"],
        &["-O1", "-fno-plt"],
        &["-O1", "-fno-pie", "-no-pie"],
        &["-O1", "-fno-pie", "-no-pie", "-fno-plt"],
    ] {
        let built = c(CALLS, &[flags, &["-fno-builtin"]].concat());
        let called = called(&built, "main");
        for name in ["memcpy", "puts", "strlen", "own"] {
            assert!(called.contains(name), "{name} with {flags:?}: {called:?}");
        }
        let in_stubs = built
            .image
            .sites()
            .sites
            .iter()
            .any(|site| built.image.plt_name(site.svma).is_some());
        assert!(!in_stubs, "a site in a stub with {flags:?}");
    }
}

#[test]
fn a_static_program_calls_indirect_functions_by_name() {
    let built = c(CALLS, &["-O1", "-fno-builtin", "-static"]);
    let called = called(&built, "main");
    assert!(
        called.contains("puts") && called.contains("own"),
        "{called:?}"
    );
    // Chosen at load time by a resolver that has several names.
    let copies = |name: &String| name.contains("memcpy") || name.contains("memmove");
    assert!(called.iter().any(copies), "{called:?}");
    assert!(built.image.sites().excluded.0.contains_key(&Excluded::Plt));
}

#[test]
fn a_call_in_the_middle_of_nowhere_has_no_name() {
    let built = c(CALLS, &["-O1"]);
    assert_eq!(built.image.call_target_name(Svma(1)), None);
    assert_eq!(built.image.plt_name(Svma(1)), None);
    assert_eq!(built.image.call_target_name(built.start("main")), None);
}

#[test]
fn calls_inside_a_stripped_library_are_named() {
    let Some(path) = present("/lib/x86_64-linux-gnu/libstdc++.so.6")
        .or_else(|| present("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"))
        .or_else(|| present("/usr/lib64/libstdc++.so.6"))
    else {
        eprintln!("skipped: no libstdc++.so.6 here");
        return;
    };
    let image = Image::open(path).unwrap();
    let mut names = BTreeSet::new();
    for function in image.functions().as_slice().iter().take(1000) {
        let mut at = function.start;
        while at < function.end {
            let bytes = image.bytes_at(at, 15).unwrap();
            let Some(instruction) = Instruction::decode(bytes, at.0) else {
                break;
            };
            at = Svma(instruction.next());
            if matches!(instruction.flow(), Flow::Call(Some(_))) {
                names.extend(image.call_target_name(at));
            }
        }
    }
    assert!(names.contains("memcpy"), "{names:?}");
}

#[test]
fn a_function_returns_where_it_goes_on() {
    let function = |name: &str, code: &str| {
        format!(
            ".globl {name}\n.type {name}, @function\n{name}:\n{code}\n.size {name}, . - {name}\n"
        )
    };
    let source = [
        ".text\n".to_owned(),
        function("give", "test rdi, rdi\nje slow\nret\n1: call other\njmp 1b"),
        function("slow", "nop\njmp linked@plt"),
        function("linked", "nop\nret"),
        function("other", "nop\nret"),
    ];
    let built = assembly(&source.concat());
    let returns = built.image.returns_of(built.start("give"));
    let within = |at: &Svma| built.image.function_at(*at).and_then(|f| f.name.clone());
    let names: Vec<_> = returns.iter().filter_map(within).collect();
    assert_eq!(names, ["give".into(), "linked".into()]);
    assert!(built.image.returns_of(Svma(1)).is_empty());
}
