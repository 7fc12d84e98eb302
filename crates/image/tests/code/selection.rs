//! Selecting sites by module, file and function.

use crate::fixture::{Built, assembly, c};
use redhanded_image::{Selected, Selection, SourceFacts, Spots};
use redhanded_model::{Candidate, Excluded, Spot, Svma};
use std::collections::BTreeSet;

const SOURCE: &str = r#"
    #include <string.h>
    int x; char buffer[100];
    __attribute__((noinline)) void parse_line(int n) { x = n; }
    __attribute__((noinline)) void parse_file(int n) { x += n; }
    __attribute__((noinline)) void print(int n) { buffer[n] = 0; }
    int main(int argc, char **argv) {
        parse_line(argc); parse_file(argc); print(argc); strcpy(buffer, argv[0]); return x;
    }
"#;

/// The named functions that have selected sites.
fn functions(built: &Built, selected: &Selected) -> BTreeSet<String> {
    let functions = built.image.functions();
    selected
        .sites
        .iter()
        .filter_map(|site| functions.get(site.function)?.name.as_deref())
        .map(str::to_owned)
        .collect()
}

fn select(built: &Built, files: &[&str], globs: &[&str], weights: &[&str]) -> Selected {
    let strings = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let selection =
        Selection::new(&[], &strings(files), &strings(globs), &strings(weights)).unwrap();
    choose(built, &selection)
}

fn choose(built: &Built, selection: &Selection) -> Selected {
    // Stands for debug information: the program's own functions have it.
    let own: Vec<(u64, u64)> = ["parse_line", "parse_file", "print", "main"]
        .iter()
        .map(|name| {
            let function = built.image.function_at(built.start(name)).unwrap();
            (function.start.0, function.end.0)
        })
        .collect();
    let covers = |svma: Svma| {
        own.iter()
            .any(|(start, end)| (*start..*end).contains(&svma.0))
    };
    let facts = SourceFacts {
        has_debug_info: &covers,
        is_toolchain: &|_| false,
        file: &|svma| {
            let name = built.image.function_at(svma)?.name.as_deref()?.to_owned();
            covers(svma).then(|| format!("/src/{}.c", name.split('_').next().unwrap_or("")))
        },
        sightings: &|spots, at| Spots::new(spots).sightings(&built.image, &at),
    };
    selection.select(&built.image, &facts)
}

#[test]
fn the_c_library_inside_a_static_program_is_the_runtime() {
    let built = c(SOURCE, &["-O2", "-static"]);
    let plain = select(&built, &[], &[], &[]);
    let names = functions(&built, &plain);
    assert!(
        names.contains("parse_line") && names.contains("print"),
        "{names:?}"
    );
    assert!(names.len() <= 4, "{names:?}");
    assert!(plain.excluded.0[&Excluded::Runtime] > 1000);
    // What is asked for by name is sampled.
    let asked = functions(&built, &select(&built, &[], &["parse_*", "_IO_*"], &[]));
    assert!(asked.contains("parse_line") && !asked.contains("print"));
    assert!(
        asked.iter().any(|name| name.starts_with("_IO_")),
        "{asked:?}"
    );
}

#[test]
fn functions_and_files_by_glob() {
    let built = c(SOURCE, &["-O2"]);
    let names = |files: &[&str], globs: &[&str]| {
        let names = functions(&built, &select(&built, files, globs, &[]));
        names
            .into_iter()
            .filter(|n| n.starts_with('p'))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[], &["parse_*"]), ["parse_file", "parse_line"]);
    assert_eq!(names(&[], &["!parse_*"]), ["print"]);
    assert_eq!(names(&[], &["p*", "!parse_f*"]), ["parse_line", "print"]);
    assert_eq!(names(&["parse.c"], &[]), ["parse_file", "parse_line"]);
    assert_eq!(
        names(&["/src/*"], &["!print"]),
        ["parse_file", "parse_line"]
    );
    let selected = select(&built, &["nowhere.c"], &[], &[]);
    assert!(selected.sites.is_empty());
    assert!(selected.excluded.0[&Excluded::NotSelected] >= 3);
}

#[test]
fn weights_bias_functions_files_and_modules() {
    let built = c(SOURCE, &["-O2"]);
    let weights = ["built=3", "parse.c=5", "parse_line=0.5", "print=0"];
    let selected = select(&built, &[], &[], &weights);
    assert!(!selected.weights.is_empty());
    let weight = |name: &str| {
        let sites = built.sites_at(built.start(name));
        selected.weight(sites.first().unwrap())
    };
    assert_eq!(weight("parse_line"), 0.5);
    assert_eq!(weight("parse_file"), 5.0);
    assert!(!functions(&built, &selected).contains("print"));
    assert!(select(&built, &[], &[], &[]).weights.is_empty());
}

#[test]
fn only_what_is_suspected_is_sampled_and_known_by_its_side() {
    let built = c(SOURCE, &["-O2", "-g"]);
    let function = |name: &str| Spot {
        function: Some(name.to_owned()),
        ..Spot::default()
    };
    let candidates = [
        Candidate::new([function("nowhere"), function("print")]),
        Candidate::new([function("parse_file"), function("print")]),
    ];
    let selected = choose(&built, &Selection::default().suspecting(&candidates));
    let names = functions(&built, &selected);
    assert_eq!(names, ["parse_file", "print"].map(str::to_owned).into());
    let sides = |name: &str| {
        let site = built.sites_at(built.start(name)).first().unwrap().svma;
        let sides = selected.suspicions(site).iter();
        sides
            .map(|one| (one.candidate, one.side))
            .collect::<Vec<_>>()
    };
    assert_eq!(sides("print"), [(0, 1), (1, 1)]);
    assert_eq!(sides("parse_file"), [(1, 0)]);
    assert_eq!(sides("parse_line"), []);
}

/// The sections and symbols of a Go program, without its compiler.
#[test]
fn the_runtime_of_a_go_program_is_a_runtime_library() {
    let function = |name: &str| {
        format!(
            ".type \"{name}\", @function\n\"{name}\":\nmov eax, [rdi]\nret\n\
             .size \"{name}\", . - \"{name}\"\n"
        )
    };
    let own = ["main.count", "example.org/sync/pool.Get"];
    let runtime = [
        "runtime.mallocgc",
        "internal/runtime/maps.(*Map).Get",
        "sync.(*Mutex).Lock",
    ];
    let code: String = own
        .iter()
        .chain(&runtime)
        .map(|name| function(name))
        .collect();
    let marked = format!("{code}.section .go.buildinfo,\"a\"\n.byte 1\n");
    let select = |built: &Built, globs: &[&str]| {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        let facts = SourceFacts {
            has_debug_info: &|_| false,
            is_toolchain: &|_| false,
            file: &|_| None,
            sightings: &|_, _| Vec::new(),
        };
        let selection = Selection::new(&[], &[], &globs, &[]).unwrap();
        selection.select(&built.image, &facts)
    };
    let built = assembly(&marked);
    let selected = select(&built, &[]);
    assert_eq!(functions(&built, &selected), own.map(str::to_owned).into());
    assert_eq!(selected.excluded.0[&Excluded::Runtime], 3);
    let asked_for = select(&built, &["runtime.*"]);
    let names = functions(&built, &asked_for);
    assert_eq!(names, ["runtime.mallocgc".to_owned()].into());
    // In a program of another language these are names like any other.
    let other = assembly(&code);
    assert_eq!(functions(&other, &select(&other, &[])).len(), 5);
}
