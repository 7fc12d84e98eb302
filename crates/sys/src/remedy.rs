//! Files that cannot be written.

use std::io::{Error, ErrorKind};

/// What helps against a failure to write a file, to be said after the failure itself;
/// nothing where the failure says it.
#[must_use]
pub fn remedy(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room there, or name a file elsewhere"
        }
        ErrorKind::FileTooLarge => "; let files grow larger (ulimit -f)",
        ErrorKind::ReadOnlyFilesystem => "; name a file elsewhere",
        _ => "",
    }
}
