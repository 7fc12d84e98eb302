//! Writing a report to a file so that a failure loses nothing.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
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

impl ReportError {
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// Writes `text` to `path`.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), ReportError> {
    if path == Path::new("-") {
        return Err(ReportError::Stdout);
    }
    let written = match destination(path) {
        Ok(Destination::Stderr) => io::stderr().lock().write_all(text),
        Ok(Destination::Stream(path)) => stream(&path, text),
        Ok(Destination::File(path, old)) => replace(&path, old.as_ref(), text),
        Err(error) => Err(error),
    };
    written.map_err(|source| ReportError::write(path, source))
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

/// Follows the links of `path` one by one: `/dev/stderr` and `/dev/fd/3` may end
/// at a regular file, but one that somebody has open and writes to, which must
/// not be replaced under them.
fn destination(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if names_stderr(&path) {
            return Ok(Destination::Stderr);
        }
        let folder = folder_of(&path).canonicalize()?;
        if folder == Path::new("/dev") || folder.starts_with("/proc") {
            return Ok(Destination::Stream(path));
        }
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Destination::File(path, None));
            }
            Err(error) => return Err(error),
            Ok(found) if found.is_symlink() => path = folder.join(fs::read_link(&path)?),
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
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

/// Appends, because an open file reached by its descriptor may have content.
fn stream(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(text)?;
    file.flush()
}

/// Puts `text` in the place of `path` in one step, so that a full disk leaves
/// whatever was there.
fn replace(path: &Path, old: Option<&Metadata>, text: &[u8]) -> io::Result<()> {
    if old.is_some() {
        // The folder's permissions alone would let the rename pass.
        OpenOptions::new().append(true).open(path)?;
    }
    let replaced = Draft::create(folder_of(path)).and_then(|mut draft| {
        draft.file.write_all(text)?;
        if let Some(old) = old {
            draft.file.set_permissions(old.permissions())?;
            // Run as root, the report stays the file of whoever made it.
            let _ = chown(&draft.path, Some(old.uid()), Some(old.gid()));
        }
        // Some file systems run out of space only now.
        draft.file.sync_all()?;
        draft.rename(path)
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
            File::options()
                .write(true)
                .truncate(true)
                .open(path)?
                .write_all(text)
        }
        replaced => replaced,
    }
}

/// A file on its way to its name; removed if it does not get there.
struct Draft {
    path: PathBuf,
    file: File,
    named: bool,
}

impl Draft {
    fn create(folder: &Path) -> io::Result<Self> {
        for attempt in 0..100 {
            let path = folder.join(format!(".redhanded-{}-{attempt}.tmp", process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    return Ok(Self {
                        path,
                        file,
                        named: false,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn rename(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(files_in(folder.path()), ["report.json"]);
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
            gone.contains("no/such/folder/r.json") && gone.contains("No such file"),
            "{gone}"
        );
        let folder = tempfile::tempdir().unwrap();
        let taken = write(folder.path(), b"text").unwrap_err().to_string();
        assert!(taken.contains("is a directory"), "{taken}");
        assert!(matches!(
            write(Path::new("-"), b""),
            Err(ReportError::Stdout)
        ));
    }
}
