//! Where the recorder is.

use std::env;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folder beside the binary, and in the data folder.
const FOLDER: &str = "recorder";
/// DynamoRIO.
const LIBRARY: &str = "libdynamorio.so";
/// Our client of it.
const CLIENT: &str = "libredhanded_recorder.so";

/// The recorder, as `cargo xtask recorder` built it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engine {
    /// DynamoRIO, which is executed in place of the program and loads it.
    pub library: PathBuf,
    /// What runs inside the program.
    pub client: PathBuf,
}

/// There is no recorder.
#[derive(Debug, Error)]
#[error(
    "the recorder is not there (looked for it in {}); build it with `cargo xtask recorder`, which \
     needs cmake and gcc, or set XDG_DATA_HOME to where redhanded/recorder is",
    list(.0)
)]
pub struct NoEngine(Vec<PathBuf>);

fn list(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    names.join(" and ")
}

impl Engine {
    /// Finds it beside the binary, or in the user's data folder.
    ///
    /// # Errors
    /// Where it was looked for.
    pub fn find() -> Result<Self, NoEngine> {
        let mut folders = Vec::new();
        let beside = env::current_exe().ok();
        if let Some(folder) = beside.as_deref().and_then(Path::parent) {
            folders.push(folder.join(FOLDER));
        }
        if let Some(folder) = data_folder() {
            folders.push(folder.join("redhanded").join(FOLDER));
        }
        let found = folders.iter().find_map(|folder| Self::within(folder));
        found.ok_or(NoEngine(folders))
    }

    /// The recorder in `folder`, if it is there.
    #[must_use]
    pub fn within(folder: &Path) -> Option<Self> {
        let engine = Self {
            library: folder.join(LIBRARY),
            client: folder.join(CLIENT),
        };
        (engine.library.is_file() && engine.client.is_file()).then_some(engine)
    }
}

/// Where a user's programs keep their data, by the usual convention.
fn data_folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    named("XDG_DATA_HOME").filter(absolute).or_else(|| {
        let home = named("HOME").filter(absolute)?;
        Some(home.join(".local/share"))
    })
}
