//! The licence check: what `cargo deny check licenses` says where it is
//! installed, else the same allow-list held against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::spdx::Expression;
use crate::{command, paths};

/// As much of `deny.toml` as the check reads.
#[derive(Debug, Deserialize)]
struct Deny {
    graph: Graph,
    licenses: Licenses,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// A crate that may have licences which others may not.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

/// As much of `cargo metadata` as the check reads.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
}

/// Checks all dependencies; an error names each one that is not allowed.
pub fn run() -> Result<()> {
    let cargo = paths::cargo();
    let mut probe = Command::new(&cargo);
    probe.args(["deny", "--version"]).current_dir(paths::root());
    if command::captured(&mut probe, Duration::from_secs(20))?.success() {
        let passed = command::shown(&cargo, &["deny", "check", "licenses", "bans", "sources"])?;
        ensure!(passed, "cargo deny found something");
        return Ok(());
    }
    println!("cargo-deny is not installed: checking deny.toml's licences against cargo metadata");
    let file = paths::root().join("deny.toml");
    let text = fs::read_to_string(&file).context("cannot read deny.toml")?;
    let deny: Deny = toml::from_str(&text).context("deny.toml is not as expected")?;
    let metadata = metadata(&cargo, &deny.graph.targets)?;
    let found = check(&deny.licenses, &metadata)?;
    for (licence, crates) in found {
        println!("{crates:>4}  {licence}");
    }
    Ok(())
}

fn metadata(cargo: &str, targets: &[String]) -> Result<Metadata> {
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--format-version", "1", "--all-features"])
        .current_dir(paths::root());
    for target in targets {
        command.args(["--filter-platform", target]);
    }
    let outcome = command::captured(&mut command, Duration::from_secs(300))?;
    ensure!(
        outcome.success(),
        "cargo metadata failed: {}",
        outcome.stderr
    );
    serde_json::from_str(&outcome.stdout).context("cargo metadata is not as expected")
}

/// How many crates have which licence, or an error that names the refused ones.
fn check(licenses: &Licenses, metadata: &Metadata) -> Result<BTreeMap<String, usize>> {
    let used: BTreeSet<&str> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| node.id.as_str())
        .collect();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused = Vec::new();
    for package in metadata
        .packages
        .iter()
        .filter(|one| used.contains(one.id.as_str()))
    {
        let name = format!("{} {}", package.name, package.version);
        match allowed(licenses, package) {
            Ok(true) => {
                let licence = package.license.clone().unwrap_or_default();
                *found.entry(licence).or_default() += 1;
            }
            Ok(false) => refused.push(format!(
                "{name}: {}",
                package.license.as_deref().unwrap_or("states no licence")
            )),
            Err(error) => refused.push(format!("{name}: {error:#}")),
        }
    }
    if !refused.is_empty() {
        bail!(
            "not allowed by deny.toml:\n  {}\nuse another crate, or add an exception with its reason",
            refused.join("\n  ")
        );
    }
    Ok(found)
}

fn allowed(licenses: &Licenses, package: &Package) -> Result<bool> {
    let Some(text) = &package.license else {
        return Ok(false);
    };
    let expression = Expression::parse(text)?;
    Ok(expression.satisfied(&|name| {
        let general = licenses.allow.iter().any(|one| one == name);
        let own = licenses
            .exceptions
            .iter()
            .filter(|one| one.name == package.name);
        general || own.flat_map(|one| &one.allow).any(|one| one == name)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(list: &[(&str, Option<&str>)]) -> Metadata {
        let package = |(name, license): &(&str, Option<&str>)| Package {
            id: (*name).to_owned(),
            name: (*name).to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
        };
        Metadata {
            packages: list.iter().map(package).collect(),
            resolve: Resolve {
                nodes: list
                    .iter()
                    .map(|(name, _)| Node {
                        id: (*name).to_owned(),
                    })
                    .collect(),
            },
        }
    }

    fn licenses() -> Licenses {
        toml::from_str(
            r#"allow = ["MIT"]
               exceptions = [{ crate = "odd", allow = ["OFL-1.1"] }]"#,
        )
        .unwrap()
    }

    #[test]
    fn an_exception_holds_for_its_crate_only() {
        let good = packages(&[("a", Some("MIT OR GPL-3.0")), ("odd", Some("OFL-1.1"))]);
        assert_eq!(check(&licenses(), &good).unwrap().len(), 2);
        let bad = packages(&[("other", Some("OFL-1.1"))]);
        assert!(
            check(&licenses(), &bad)
                .unwrap_err()
                .to_string()
                .contains("other 1.0.0: OFL-1.1")
        );
    }

    #[test]
    fn a_crate_without_a_licence_is_refused() {
        let silent = packages(&[("silent", None)]);
        let error = check(&licenses(), &silent).unwrap_err().to_string();
        assert!(error.contains("silent 1.0.0: states no licence"));
    }

    #[test]
    fn a_crate_that_no_target_uses_does_not_matter() {
        let mut metadata = packages(&[("a", Some("MIT")), ("windows-only", Some("Proprietary"))]);
        metadata.resolve.nodes.retain(|node| node.id == "a");
        assert_eq!(check(&licenses(), &metadata).unwrap().len(), 1);
    }

    #[test]
    fn the_projects_own_list_is_readable_and_allows_its_own_licence() {
        let text = fs::read_to_string(paths::root().join("deny.toml")).unwrap();
        let deny: Deny = toml::from_str(&text).unwrap();
        let own = packages(&[("redhanded", Some("MIT OR Apache-2.0"))]);
        assert!(check(&deny.licenses, &own).is_ok());
        let copyleft = packages(&[("x", Some("GPL-3.0-only"))]);
        assert!(check(&deny.licenses, &copyleft).is_err());
    }
}
