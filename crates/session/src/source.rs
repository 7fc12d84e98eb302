//! Lines of source text, where the source is available.

use redhanded_sys::read_source;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Reads source files as reports ask for their lines, each file once.
///
/// The names come from debug information, which may say anything. [`read_source`]
/// reads only what can be a source, and what the target's user may read.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    files: Mutex<HashMap<String, Option<Arc<Vec<u8>>>>>,
}

impl SourceFiles {
    /// The text of one line, counted from 1.
    pub(crate) fn line(&self, file: &str, line: u32) -> Option<String> {
        let text = self
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(file.to_owned())
            .or_insert_with(|| read_source(Path::new(file)).map(Arc::new))
            .clone()?;
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        let bytes = text.split(|byte| *byte == b'\n').nth(index)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lines_count_from_one_and_strange_files_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, "int x;\nx++; /* \u{fc} */\n").unwrap();
        let name = path.to_str().unwrap();
        let files = SourceFiles::default();
        assert_eq!(files.line(name, 1).unwrap(), "int x;");
        assert_eq!(files.line(name, 2).unwrap(), "x++; /* \u{fc} */");
        assert_eq!(files.line(name, 0), None);
        assert_eq!(files.line(name, 99), None);
        assert_eq!(files.line("/dev/zero", 1), None);
        assert_eq!(files.line(folder.path().to_str().unwrap(), 1), None);
    }
}
