//! The bytes of a foreign file, and of its compressed sections.

use crate::budget::Budget;
use object::ObjectSection;
use redhanded_sys::{FileMap, open_regular};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A mapped file, with the budget for what is compressed in it.
#[derive(Debug)]
pub(crate) struct FileBytes {
    map: FileMap,
    budget: Budget,
}

impl FileBytes {
    /// Maps the regular file at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&open_regular(path)?)
    }

    pub fn of(file: &File) -> io::Result<Self> {
        let map = FileMap::new(file)?;
        Ok(Self {
            budget: Budget::of_file(map.len()),
            map,
        })
    }

    /// The contents of one of its sections, decompressed if necessary.
    pub fn section<'d>(&self, section: &impl ObjectSection<'d>) -> Option<Cow<'d, [u8]>> {
        self.budget.section(section.compressed_data().ok()?).ok()
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
