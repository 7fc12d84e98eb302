//! `/proc/TID/status`.

use super::Tid;
use std::fs;

/// What the status of a thread says behind `field`, which ends with a colon; `None` if
/// the thread is gone. A thread may have any bytes for a name.
#[must_use]
pub fn status_field(tid: Tid, field: &str) -> Option<String> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(field.as_bytes()))?;
    Some(String::from_utf8_lossy(value).trim().to_owned())
}
