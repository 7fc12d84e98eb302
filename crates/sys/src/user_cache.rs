//! Where the user's caches are.

use std::env;
use std::path::PathBuf;

/// The folder for cached files of one kind in the user's home, if there is one.
#[must_use]
pub fn user_cache(name: &str) -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.filter(|path| path.is_absolute());
    let caches = caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
    Some(caches.join("redhanded").join(name))
}
