//! What the documents name is there: readers find their way by it.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The documents of the project, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let files = [root().to_owned(), root().join("docs")]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    files
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The code spans of a text that name a source file below `src` or `tests`.
fn source_files(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let is_path = span
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
        let below = span.contains("/src/") || span.contains("/tests/");
        is_path && below && span.ends_with(".rs")
    })
}

/// The targets of a text's links to files, without the place in them.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        target.split('#').next()
    });
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn source_files_that_documents_name_are_there() {
    let mut missing = Vec::new();
    for (document, text) in documents() {
        for file in source_files(&text) {
            // Rust's own library is named as well.
            let is_elsewhere = file.starts_with("library/");
            let is_there = root().join(file).exists() || root().join("crates").join(file).exists();
            if !is_there && !is_elsewhere {
                missing.push(format!("{}: {file}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn links_lead_somewhere() {
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let folder = document.parent().unwrap();
        for target in links(&text) {
            if !folder.join(target).exists() {
                missing.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The crates, by the names of their folders.
fn crates() -> impl Iterator<Item = String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    folders.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

#[test]
fn contributors_find_every_crate() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let listed = |name: &String| text.contains(&format!("| `crates/{name}` |"));
    let missing: Vec<_> = crates().filter(|name| !listed(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The code map has a section for each crate, which names all files at its top.
#[test]
fn the_code_map_names_every_file() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut missing = Vec::new();
    for name in crates() {
        let title = format!("`crates/{name}`");
        let is_its = |section: &&str| section.lines().next().unwrap_or("").contains(&title);
        let section = text.split("\n### ").find(is_its).unwrap_or_default();
        for entry in fs::read_dir(root().join("crates").join(&name).join("src")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            // What every crate has.
            let is_plain = matches!(file.as_str(), "lib.rs" | "main.rs" | "tests.rs");
            if file.ends_with(".rs") && !is_plain && !section.contains(&format!("`{file}`")) {
                missing.push(format!("{name}: {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
