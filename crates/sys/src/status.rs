//! `/proc/TID/status`.

use super::Tid;
use std::fs;

/// The value of a field in the status of a thread; `field` ends with a colon. `None` if
/// the thread is gone. Not all of the file need be UTF-8, because of the thread's name.
#[must_use]
pub fn status_field(tid: Tid, field: &str) -> Option<String> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(field.as_bytes()))?;
    Some(String::from_utf8_lossy(value).trim().to_owned())
}
