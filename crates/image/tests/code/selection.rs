//! Selecting sites by module, file and function.

use crate::fixture::{Built, c};
use redhanded_image::{Selected, Selection, SourceFacts};
use redhanded_model::{Excluded, Svma};
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
