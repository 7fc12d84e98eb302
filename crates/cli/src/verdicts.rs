//! How races are judged, as the command line says.

use crate::arguments::{Show, Verdicts};
use crate::exit::Failure;
use redhanded_sys::read_regular_text;
use redhanded_verdict::Annotations;
use std::path::Path;

/// What people write by hand, or other tools for them, is shorter.
pub const MOST_TEXT: u64 = 64 << 20;

/// The annotations in a file, if one is named.
pub fn read_annotations(path: Option<&Path>) -> Result<Annotations, Failure> {
    let Some(path) = path else {
        return Ok(Annotations::default());
    };
    let text = read_regular_text(path, MOST_TEXT).map_err(|error| {
        let file = path.display();
        Failure::Usage(format!("cannot read the annotations in {file}: {error}"))
    })?;
    Annotations::parse(&text, path).map_err(|error| Failure::Usage(error.to_string()))
}

impl Verdicts {
    /// The user's annotations.
    pub fn read(&self) -> Result<Annotations, Failure> {
        read_annotations(self.annotations.as_deref())
    }

    /// Whether races that are likely benign are told in full.
    pub fn shows_benign(&self) -> bool {
        self.show == Some(Show::Benign)
    }
}
