//! What the source says about the code and data of a file: names, lines,
//! inlined frames, variables and their parts.

use crate::Image;

/// The debug information of one image.
#[derive(Debug)]
pub struct DebugInfo;

impl Image {
    /// Its debug information, found on first use.
    #[must_use]
    pub fn debug(&self) -> &DebugInfo {
        self.debug.get_or_init(|| DebugInfo)
    }
}

impl DebugInfo {
    pub(crate) fn section(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }
}
