//! The licences of everything that is linked into a binary, which must go with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::done;
use crate::paths;

/// How the names of files with licences begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The notices of the crates that a package of the workspace is linked with. Equal texts
/// are given once.
pub fn of_dependencies(package: &str) -> Result<String> {
    let metadata = done(
        Command::new(paths::cargo())
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(paths::root()),
    )?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut notices = "The binary contains these libraries, under these licences. The standard \
                       library of Rust\nis in it as well: MIT or Apache-2.0.\n\n"
        .to_owned();
    for linked in linked(&metadata, package)? {
        let word = |key: &str| linked[key].as_str().unwrap_or_default();
        let title = format!("{} {}", word("name"), word("version"));
        notices.push_str(&format!("{title}: {}\n", word("license")));
        let folder = Path::new(word("manifest_path"))
            .parent()
            .unwrap_or(Path::new("/"));
        for text in licences(folder)? {
            texts.entry(text).or_default().insert(title.clone());
        }
    }
    for (text, titles) in texts {
        let titles: Vec<_> = titles.into_iter().collect();
        notices.push_str(&format!("\n==== {} ====\n\n{text}\n", titles.join(", ")));
    }
    Ok(notices)
}

/// The crates from the registry that `package` is linked with, itself or through others.
fn linked<'m>(metadata: &'m Value, package: &str) -> Result<Vec<&'m Value>> {
    let list = |value: &'m Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let of_workspace = |it: &&Value| it["name"] == package && it["source"].is_null();
    let first = packages.iter().find(of_workspace);
    let mut open = vec![
        first
            .and_then(|it| it["id"].as_str())
            .context("no such package")?,
    ];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in list(&nodes.get(id).context("a package without a node")?["deps"]) {
            // Neither what only tests need nor what only build scripts do.
            let normal = |kind: &Value| kind["kind"].is_null();
            if list(&dependency["dep_kinds"]).iter().any(normal) {
                open.extend(dependency["pkg"].as_str());
            }
        }
    }
    let from_registry = |it: &&Value| {
        it["source"].is_string() && it["id"].as_str().is_some_and(|id| seen.contains(id))
    };
    let linked: Vec<_> = packages.iter().filter(from_registry).collect();
    ensure!(!linked.is_empty(), "{package} is linked with nothing");
    Ok(linked)
}

/// The texts in a package's folder.
fn licences(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|known| name.starts_with(known)) && entry.file_type()?.is_file() {
            let text = fs::read(entry.path())?;
            texts.push(String::from_utf8_lossy(&text).trim().to_owned());
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_linked_counts() {
        let package = |name: &str, source: Option<&str>| json!({ "name": name, "id": name, "source": source });
        let needs = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: &[Value]| json!({ "id": name, "deps": deps });
        let metadata = json!({
            "packages": [
                package("tool", None), package("own", None), package("far", Some("r")),
                package("cc", Some("r")), package("test", Some("r")),
            ],
            "resolve": { "nodes": [
                node("tool", &[needs("own", None), needs("test", Some("dev"))]),
                node("own", &[needs("far", None), needs("cc", Some("build"))]),
                node("far", &[needs("own", None)]), node("cc", &[]), node("test", &[]),
            ] },
        });
        let linked = linked(&metadata, "tool").unwrap();
        let names: Vec<_> = linked.iter().map(|it| it["name"].as_str()).collect();
        assert_eq!(names, [Some("far")]);
    }
}
