//! Where things are: the repository, its target folder, the release binary.

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

/// The cargo that started this program, so that toolchains are not mixed.
pub fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Builds `redhanded` for release and says where it is.
pub fn build_redhanded() -> Result<PathBuf> {
    let built = command::shown(&cargo(), &["build", "--release", "--package", "redhanded"])?;
    ensure!(built, "redhanded does not build");
    let binary = target().join("release/redhanded");
    binary
        .canonicalize()
        .with_context(|| format!("no binary at {} after building it", binary.display()))
}
