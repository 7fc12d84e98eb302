//! Lines of source text, where the source is available.

use redhanded_image::DebugSearch;
use redhanded_model::{AccessReport, Quote};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Reads source files as reports ask for their lines, each file once.
///
/// The names come from debug information, which may say anything. [`DebugSearch::source`]
/// reads only what can be a source, and what the target's user may read.
#[derive(Debug)]
pub(crate) struct SourceFiles<'a> {
    search: &'a DebugSearch,
    files: Mutex<HashMap<String, Option<Text>>>,
}

type Text = Arc<Cow<'static, [u8]>>;

impl<'a> SourceFiles<'a> {
    pub(crate) fn new(search: &'a DebugSearch) -> Self {
        Self {
            search,
            files: Mutex::default(),
        }
    }

    /// The text of one line, counted from 1.
    pub(crate) fn line(&self, file: &str, line: u32) -> Option<String> {
        let text = self
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(file.to_owned())
            .or_insert_with(|| {
                let text = self.search.source(Path::new(file))?;
                Some(Arc::new(text.bytes))
            })
            .clone()?;
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        let bytes = text.split(|byte| *byte == b'\n').nth(index)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The lines with which a report shows these accesses.
    pub(crate) fn quotes(&self, accesses: &[AccessReport]) -> Vec<Quote> {
        let lines = accesses.iter().filter_map(|access| {
            let shown = access.shown_place()?;
            let (file, line) = (shown.file.to_owned(), shown.line?);
            let text = self.line(&file, line)?;
            Some(Quote { file, line, text })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn lines_count_from_one_and_strange_files_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, "int x;\nx++; /* \u{fc} */\n").unwrap();
        let name = path.to_str().unwrap();
        let search = DebugSearch::nowhere();
        let files = SourceFiles::new(&search);
        assert_eq!(files.line(name, 1).unwrap(), "int x;");
        assert_eq!(files.line(name, 2).unwrap(), "x++; /* \u{fc} */");
        assert_eq!(files.line(name, 0), None);
        assert_eq!(files.line(name, 99), None);
        assert_eq!(files.line("/dev/zero", 1), None);
        assert_eq!(files.line(folder.path().to_str().unwrap(), 1), None);
    }

    #[test]
    fn the_line_of_the_frame_that_is_shown_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cc");
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let own = path.to_str().unwrap();
        let frame = |function: &str, file: Option<&str>, line: Option<u32>| {
            json!({ "function": function, "file": file, "line": line, "module": "a",
                    "address": "0x1", "inlined": false })
        };
        let quoted = |file: Option<&str>, line: Option<u32>| {
            let access = json!({
                "thread": { "tid": 1, "name": "a" }, "kind": "read", "size": 4, "pc": "0x1",
                "instruction": null, "atomic": false, "function": "f", "file": file,
                "line": line, "system_call": null,
                "stack": [frame("f", file, line), frame("g", Some(own), Some(2))],
            });
            let access: AccessReport = serde_json::from_value(access).unwrap();
            let quotes = SourceFiles::new(&DebugSearch::nowhere()).quotes(&[access]);
            quotes
                .into_iter()
                .map(|quote| quote.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(quoted(Some(own), Some(3)), ["three"]);
        // A header of the compiler is nobody's own code, even where it can be read.
        assert_eq!(quoted(Some("/usr/include/stdio.h"), Some(1)), ["two"]);
        assert_eq!(quoted(None, None), ["two"], "nothing is known of its own");
    }
}
