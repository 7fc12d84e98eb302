//! Where things are: the repository, its target folder, the binary to test.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Cargo's target folder, wherever the user has put it.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The cargo that started this program, to stay with one toolchain.
pub fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// The binary to test: the one that is named, else one built here for release.
pub fn redhanded(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let built = command::shown(&cargo(), &["build", "--release", "--package", "redhanded"])?;
    ensure!(built, "redhanded does not build");
    let binary = target().join("release/redhanded");
    binary
        .canonicalize()
        .with_context(|| format!("no binary at {} after building it", binary.display()))
}
