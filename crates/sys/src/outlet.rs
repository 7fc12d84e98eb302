//! Writing to pipes and terminals that nobody may ever read.
//!
//! Like any program, the tool waits for a reader. But its signals are held while it
//! writes, so a reader that never reads would keep it from ending. So it looks for a request
//! to end meanwhile, and then waits for a reader only a little longer.

use crate::signals::is_told_to_end;
use crate::socket::{ReadyTo, wait_ready};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a reader may take nothing once the tool was told to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time between two looks whether it was.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So much a pipe takes at once, or it is not ready (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// Standard error was given up: nobody reads it.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// How long somebody who does not read is waited for.
#[derive(Default)]
struct Patience(Option<Instant>);

impl Patience {
    fn check(&mut self) -> io::Result<()> {
        if !is_told_to_end() {
            return Ok(());
        }
        if self.0.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::TimedOut, "nobody reads it"))
    }
}

/// Writes `bytes` to a file, pipe or terminal.
///
/// # Errors
/// If that fails; [`ErrorKind::TimedOut`] if the tool was told to end and nobody reads.
pub fn write_unless_told_to_end(file: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut patience = Patience::default();
    while !bytes.is_empty() {
        match write_some(file, bytes, LOOK_EVERY)? {
            0 => patience.check()?,
            written => {
                bytes = bytes.get(written..).unwrap_or_default();
                patience = Patience::default();
            }
        }
    }
    Ok(())
}

/// Writes as much as goes without waiting for a reader longer than `limit`; how much.
///
/// # Errors
/// If that fails.
pub fn write_some(file: BorrowedFd<'_>, bytes: &[u8], limit: Duration) -> io::Result<usize> {
    match wait_ready(file, ReadyTo::Write, limit) {
        Ok(true) => {}
        Ok(false) => return Ok(0),
        Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
        Err(error) => return Err(error),
    }
    match nix::unistd::write(file, part(bytes)).map_err(io::Error::from) {
        Ok(0) => Err(ErrorKind::WriteZero.into()),
        Ok(written) => Ok(written),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
        // There is some room, but too little for this.
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            thread::sleep(limit);
            Ok(0)
        }
        Err(error) => Err(error),
    }
}

/// What is written at once: whole lines if possible, because a program may write there too.
fn part(bytes: &[u8]) -> &[u8] {
    let Some(most) = bytes.get(..AT_ONCE) else {
        return bytes;
    };
    let lines = most.iter().rposition(|byte| *byte == b'\n');
    most.get(..=lines.unwrap_or(AT_ONCE - 1)).unwrap_or(most)
}

/// Writes `bytes` to standard error, unless nobody read it before.
///
/// # Errors
/// As [`write_unless_told_to_end`].
pub fn write_stderr(bytes: &[u8]) -> io::Result<()> {
    let stderr = io::stderr().lock();
    if GIVEN_UP.load(Ordering::Relaxed) {
        return Err(ErrorKind::TimedOut.into());
    }
    let written = write_unless_told_to_end(stderr.as_fd(), bytes);
    if matches!(&written, Err(error) if error.kind() == ErrorKind::TimedOut) {
        GIVEN_UP.store(true, Ordering::Relaxed);
    }
    written
}

/// What opens a file by the options that it is given.
type Open<'a> = &'a dyn Fn(&OpenOptions) -> io::Result<File>;

/// Opens something for writing, and waits until a pipe has a reader.
///
/// # Errors
/// As [`write_unless_told_to_end`].
pub fn open_for_reader(open: Open<'_>) -> io::Result<File> {
    let mut patience = Patience::default();
    loop {
        match open(&unwaiting()) {
            Err(error) if lacks_reader(&error) => patience.check()?,
            opened => return opened,
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Opens something for writing, whether a pipe has a reader or not. One that has none is
/// opened as its own reader, too. Otherwise it is not, so as to notice when the last reader
/// is gone.
///
/// # Errors
/// If it cannot be opened.
pub fn open_without_reader(open: Open<'_>) -> io::Result<File> {
    match open(&unwaiting()) {
        Err(error) if lacks_reader(&error) => open(unwaiting().read(true)),
        opened => opened,
    }
}

fn unwaiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_NONBLOCK);
    options
}

/// Also said of sockets, which cannot be opened.
fn lacks_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_long_text_arrives_whole_whoever_reads_it_slowly() {
        let (mut reader, writer) = pipe().unwrap();
        let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = text.clone();
        let writing = thread::spawn(move || write_unless_told_to_end(writer.as_fd(), &text));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap().unwrap();
        assert_eq!(read, expected);
    }

    #[test]
    fn nothing_is_written_that_would_have_to_wait() {
        let (_reader, writer) = pipe().unwrap();
        let text = [0; 3 * AT_ONCE];
        let mut written = 0;
        loop {
            match write_some(writer.as_fd(), &text, Duration::ZERO).unwrap() {
                0 => break,
                more => written += more,
            }
        }
        assert!(written >= AT_ONCE);
    }

    #[test]
    fn parts_end_where_lines_do() {
        let mut text = vec![b'x'; 2 * AT_ONCE];
        assert_eq!(part(&text).len(), AT_ONCE);
        text[100] = b'\n';
        assert_eq!(part(&text).len(), 101);
        assert_eq!(part(&text[..200]).len(), 200);
    }

    #[test]
    fn the_end_of_the_last_reader_is_noticed() {
        let (reader, writer) = pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let open: Open<'_> = &|options| options.open(&path);
        let noticing = open_without_reader(open).unwrap();
        drop(reader);
        let written = write_some(noticing.as_fd(), b"text", Duration::ZERO);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
