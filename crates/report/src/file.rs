//! Writing a report to a file so that a failure loses nothing.

use crate::format::Writer;
use redhanded_model::Report;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file `-` was asked for.
    #[error(
        "cannot write the report to '-': standard output belongs to the program; \
         name a file, or /dev/stderr"
    )]
    Stdout,
    /// Writing failed.
    #[error("cannot write the report to {}: {source}", .path.display())]
    Write {
        /// The file, as it was named.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Writes a report to the file `path`: whole, or not at all where that is
/// possible. A regular file is replaced in one step. A pipe, a device, or what
/// `/dev/stderr` and `/dev/fd/N` stand for, is written directly.
///
/// # Errors
/// When the file cannot be written, or `path` is `-`: standard output belongs to
/// the program.
pub fn write_file(
    writer: &dyn Writer,
    report: &Report,
    path: impl AsRef<Path>,
) -> Result<(), WriteError> {
    let path = path.as_ref();
    let mut text = Vec::new();
    reached(path, || writer.write(report, &mut text))?;
    write(path, &text)
}

/// Whether a report can be written to `path`, as far as that can be known
/// without writing one: an hour's run should not end with that news.
///
/// # Errors
/// What [`write_file`] would say.
pub fn check(path: &Path) -> Result<(), WriteError> {
    reached(path, || match destination(path)? {
        Destination::Stderr => Ok(()),
        // Opening a pipe would wait for its reader.
        Destination::Stream(path) => fs::metadata(path).map(drop),
        Destination::File(path, None) => draft(&path, None).map(drop),
        Destination::File(path, Some(_)) => open(&path).map(drop),
    })
}

fn write(path: &Path, text: &[u8]) -> Result<(), WriteError> {
    reached(path, || match destination(path)? {
        Destination::Stderr => io::stderr().lock().write_all(text),
        Destination::Stream(path) => open(&path)?.write_all(text),
        Destination::File(path, old) => replace(&path, old.as_ref(), text),
    })
}

/// Does something to the file `path`, which errors name.
fn reached(path: &Path, act: impl FnOnce() -> io::Result<()>) -> Result<(), WriteError> {
    if path == Path::new("-") {
        return Err(WriteError::Stdout);
    }
    act().map_err(|source| WriteError::Write {
        path: path.to_owned(),
        source,
    })
}

/// What a path stands for.
enum Destination {
    /// This process's own standard error, written through the descriptor it
    /// has: a socket cannot be opened a second time by name.
    Stderr,
    /// Something that takes bytes as they come: a pipe, a device, or an open
    /// file named by its descriptor.
    Stream(PathBuf),
    /// A regular file, with what is there already.
    File(PathBuf, Option<Metadata>),
}

/// More symbolic links than the kernel follows are a loop.
const LINKS: usize = 40;

/// Follows the links of `path` one by one. `/dev/stderr` and `/dev/fd/3` may end
/// at a regular file, but somebody has it open and writes to it: it must not be
/// replaced.
fn destination(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if names_stderr(&path) {
            return Ok(Destination::Stderr);
        }
        let folder = folder_of(&path);
        let folder = folder.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                io::Error::other(format!("there is no folder {}", folder.display()))
            }
            _ => error,
        })?;
        if folder == Path::new("/dev") || folder.starts_with("/proc") {
            return Ok(Destination::Stream(path));
        }
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Destination::File(path, None));
            }
            Err(error) => return Err(error),
            Ok(found) if found.is_symlink() => path = folder.join(fs::read_link(&path)?),
            Ok(found) if found.is_dir() => return Err(io::Error::other("it is a folder")),
            Ok(found) if found.is_file() => return Ok(Destination::File(path, Some(found))),
            Ok(_) => return Ok(Destination::Stream(path)),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn names_stderr(path: &Path) -> bool {
    ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"]
        .iter()
        .any(|name| path == Path::new(name))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Opens what is there. To append, because an open file reached by its descriptor
/// may have content.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// A file beside `path` that may take its name. Nobody else can have made it, and
/// it goes away unless it gets there.
fn draft(path: &Path, old: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut draft = tempfile::Builder::new();
    let draft = draft.prefix(".redhanded-").suffix(".tmp");
    // A new file gets the mode that the umask gives it. One that replaces another
    // is nobody else's to read until it has the mode of the old one.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let draft = draft.permissions(Permissions::from_mode(mode));
    let folder = folder_of(path);
    draft.tempfile_in(folder).map_err(|error| {
        let kind = error.kind();
        io::Error::new(
            kind,
            format!("no file can be made in {}: {kind}", folder.display()),
        )
    })
}

/// Puts `text` in the place of `path` in one step, so that a full disk leaves
/// whatever was there.
fn replace(path: &Path, old: Option<&Metadata>, text: &[u8]) -> io::Result<()> {
    if old.is_some() {
        // The folder's permissions alone would let the rename pass.
        open(path)?;
    }
    let replaced = draft(path, old).and_then(|mut draft| {
        draft.write_all(text)?;
        if let Some(old) = old {
            // Run as root, the report still belongs to whoever made it.
            let _ = fchown(draft.as_file(), Some(old.uid()), Some(old.gid()));
            draft.as_file().set_permissions(old.permissions())?;
        }
        // Some file systems run out of space only now.
        draft.as_file().sync_all()?;
        draft.persist(path)?;
        Ok(())
    });
    match replaced {
        // A file may be writable where its folder is not, or be a mount point
        // of its own, as in containers: then in place is the only way.
        Err(error)
            if old.is_some()
                && matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ResourceBusy
                ) =>
        {
            let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
            file.write_all(text)
        }
        replaced => replaced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    fn files_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write(&path, b"one, which is longer").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(files_in(folder.path()), ["report.json"]);
    }

    #[test]
    fn what_cannot_be_written_is_known_without_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        check(&path).unwrap();
        assert!(files_in(folder.path()).is_empty());
        write(&path, b"one").unwrap();
        check(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        check(Path::new("/dev/stderr")).unwrap();
        // Nobody can make a file there, root included.
        for (path, why) in [
            ("/sys/r.json", "no file can be made in /sys: "),
            ("/dev/fd/4711", "No such file"),
            ("no/such/folder/r.json", "there is no folder no/such"),
            ("/tmp", "it is a folder"),
        ] {
            let error = check(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink("file", &link).unwrap();
        write(&link, b"text").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"text");
    }

    #[test]
    fn a_looping_link_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("link", &link).unwrap();
        let error = write(&link, b"text").unwrap_err().to_string();
        assert!(error.contains("too many symbolic links"), "{error}");
    }

    #[test]
    fn an_open_file_named_by_descriptor_is_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "before ").unwrap();
        let open = OpenOptions::new().append(true).open(&path).unwrap();
        write(
            Path::new(&format!("/dev/fd/{}", open.as_raw_fd())),
            b"after",
        )
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before after");
        assert_eq!(files_in(folder.path()), ["log"]);
    }

    #[test]
    fn a_pipe_is_written_directly() {
        use std::io::Read;
        let (mut reader, writer) = io::pipe().unwrap();
        write(
            Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())),
            b"text",
        )
        .unwrap();
        drop(writer);
        let mut got = String::new();
        reader.read_to_string(&mut got).unwrap();
        assert_eq!(got, "text");
    }

    #[test]
    fn errors_name_the_file_and_the_cause() {
        let full = write(Path::new("/dev/full"), b"text")
            .unwrap_err()
            .to_string();
        assert!(
            full.contains("/dev/full") && full.contains("No space left"),
            "{full}"
        );
        let gone = write(Path::new("no/such/folder/r.json"), b"text")
            .unwrap_err()
            .to_string();
        assert!(
            gone.contains("no/such/folder/r.json") && gone.contains("there is no folder no/such"),
            "{gone}"
        );
        let folder = tempfile::tempdir().unwrap();
        let taken = write(folder.path(), b"text").unwrap_err().to_string();
        assert!(taken.contains("it is a folder"), "{taken}");
        assert!(matches!(
            write(Path::new("-"), b""),
            Err(WriteError::Stdout)
        ));
    }
}
