//! What is built for xtask serves the tests and the fuzzer as well: it has the same features.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The features with which each package is built, once for each set of them.
fn features(of: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none"])
        .args(["--format", "{p}|{f}"])
        .args(of)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it is there");
    assert!(output.status.success(), "{output:#?}");
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        // A package that was listed before is marked.
        let line = line.trim_end_matches(" (*)");
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let sets = packages.entry(package.to_owned()).or_default();
        sets.insert(features.to_owned());
    }
    packages
}

#[test]
fn nothing_is_compiled_twice_for_other_features() {
    let tests = features(&["--workspace", "--edges", "normal,build,dev"]);
    let xtask = features(&["--package", "xtask", "--edges", "normal,build"]);
    assert!(xtask.len() > 100, "{xtask:#?}");
    let differing: Vec<_> = xtask
        .iter()
        .filter(|(package, sets)| tests.get(*package) != Some(sets))
        .map(|(package, sets)| format!("{package}: {sets:?}, but {:?}", tests.get(package)))
        .collect();
    assert!(
        differing.is_empty(),
        "xtask/Cargo.toml lacks a dependency that asks for the same features: {differing:#?}"
    );
}
