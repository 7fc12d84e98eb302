//! Writing a report to a file so that a failure loses nothing.

use crate::format::Writer;
use redhanded_model::Report;
use redhanded_sys::{
    Draft, Folder, effective_user, folder_of, link_target, open_for_reader, open_without_reader,
    remedy, reopen, write_stderr, write_unless_told_to_end,
};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

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
    #[error("cannot write the report to {}: {source}{}", .path.display(), remedy(.source))]
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
        Destination::Pipe(_) => Ok(()),
        Destination::File(folder, _, None) => draft(&folder, 0o666).map(drop),
        Destination::File(_, _, Some(old)) => reopen(&old, &append()).map(drop),
    })
}

/// Opens a pipe or a device for writing while a program runs, or makes a file, which must not
/// exist. Nobody waits for the reader of a pipe, neither here nor when it is written to.
///
/// # Errors
/// When that cannot be, or `path` leads to another user's link.
pub fn open_stream(path: &Path) -> io::Result<File> {
    let is_stream = |about: &fs::Metadata| {
        let kind = about.file_type();
        kind.is_fifo() || kind.is_char_device()
    };
    match destination(path)? {
        Destination::Stderr => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        Destination::Stream(path) => open_without_reader(&|options| options.open(&path)),
        Destination::Pipe(pipe) => {
            if !is_stream(&pipe.metadata()?) {
                return Err(io::Error::other("it is neither a pipe nor a terminal"));
            }
            open_without_reader(&|options| reopen(&pipe, options))
        }
        Destination::File(_, _, Some(_)) => Err(ErrorKind::AlreadyExists.into()),
        Destination::File(folder, path, None) => {
            folder.create_new(path.file_name().unwrap_or_default(), 0o666)
        }
    }
}

/// Makes a file for what is written piece by piece and is nobody else's to read. It takes the
/// place of a file of this name. A device of `/dev` that takes characters is opened as it is.
///
/// # Errors
/// When that cannot be, or `path` leads to another user's link, to a pipe or another device.
pub fn open_private(path: &Path) -> io::Result<File> {
    let (folder, path, old) = match destination(path)? {
        Destination::File(folder, path, old) => (folder, path, old),
        Destination::Stream(path) if is_character_device(&path)? => return append().open(path),
        Destination::Stderr | Destination::Stream(_) | Destination::Pipe(_) => {
            return Err(io::Error::other("it is not a regular file"));
        }
    };
    let Some(old) = old else {
        return folder.create_new(path.file_name().unwrap_or_default(), PRIVATE);
    };
    // The folder's permissions alone would let the rename pass.
    reopen(&old, &append())?;
    let made = draft(&folder, PRIVATE).and_then(|draft| {
        let file = draft.file().try_clone()?;
        draft.place(&path)?;
        Ok(file)
    });
    match made {
        // As for reports, but not into a file that its owner could read.
        Err(error) if only_in_place(&error) && is_ours(&old.metadata()?) => {
            reopen(&old, OpenOptions::new().write(true).truncate(true))
        }
        made => made,
    }
}

/// The mode of what is nobody else's to read.
const PRIVATE: u32 = 0o600;

fn is_character_device(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.file_type().is_char_device())
}

fn is_ours(about: &fs::Metadata) -> bool {
    [0, effective_user()].contains(&about.uid())
}

fn write(path: &Path, text: &[u8]) -> Result<(), WriteError> {
    reached(path, || match destination(path)? {
        Destination::Stderr => write_stderr(text),
        Destination::Stream(path) => {
            write_to_reader(&fs::metadata(&path)?, &|options| options.open(&path), text)
        }
        Destination::Pipe(pipe) => {
            write_to_reader(&pipe.metadata()?, &|options| reopen(&pipe, options), text)
        }
        Destination::File(folder, path, old) => replace(&folder, &path, old.as_ref(), text),
    })
}

/// Writes to what `open` opens, for whose reader nobody waits who is told to end.
fn write_to_reader(
    about: &fs::Metadata,
    open: &dyn Fn(&OpenOptions) -> io::Result<File>,
    text: &[u8],
) -> io::Result<()> {
    let file = if about.file_type().is_fifo() {
        open_for_reader(open)?
    } else {
        open(&append())?
    };
    write_unless_told_to_end(file.as_fd(), text)
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

/// What a path stands for. Files are descriptors, because the owner of a folder could
/// exchange what a path leads to.
enum Destination {
    /// This process's own standard error, written through the descriptor it
    /// has: a socket cannot be opened a second time by name.
    Stderr,
    /// A device, or an open file named by its descriptor, in `/dev` or `/proc`.
    Stream(PathBuf),
    /// A pipe or a device elsewhere.
    Pipe(File),
    /// A regular file in a folder, with what is there already.
    File(Folder, PathBuf, Option<File>),
}

/// More symbolic links than the kernel follows are a loop.
const LINKS: usize = 40;

/// Follows the links of `path` one by one. `/dev/stderr` and `/dev/fd/3` may end
/// at a regular file, but somebody has it open and writes to it: it must not be
/// replaced. Other users' links are not followed: through one, the kernel would let
/// root write to any file outside of sticky folders.
fn destination(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if names_stderr(&path) {
            return Ok(Destination::Stderr);
        }
        let above = folder_of(&path);
        let folder = Folder::open(above).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                io::Error::other(format!("there is no folder {}", above.display()))
            }
            _ => error,
        })?;
        let place = folder.path()?;
        if place == Path::new("/dev") || place.starts_with("/proc") {
            return Ok(Destination::Stream(path));
        }
        let Some(name) = path.file_name() else {
            return Err(io::Error::other("it is a folder"));
        };
        let found = match folder.look(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Destination::File(folder, path, None));
            }
            found => found?,
        };
        let about = found.metadata()?;
        if about.is_symlink() {
            if !is_ours(&about) {
                return Err(io::Error::other(
                    "it is another user's symbolic link; name the file itself",
                ));
            }
            path = place.join(link_target(&found)?);
        } else if about.is_dir() {
            return Err(io::Error::other("it is a folder"));
        } else if about.is_file() {
            return Ok(Destination::File(folder, path, Some(found)));
        } else {
            return Ok(Destination::Pipe(found));
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn names_stderr(path: &Path) -> bool {
    ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"]
        .iter()
        .any(|name| path == Path::new(name))
}

/// An open file reached by its descriptor may have content.
fn append() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true);
    options
}

/// A file that may take the report's name.
fn draft(folder: &Folder, mode: u32) -> io::Result<Draft<'_>> {
    folder.draft(mode).map_err(|error| {
        let (kind, place) = (error.kind(), folder.path().unwrap_or_default());
        let place = place.display();
        io::Error::new(kind, format!("no file can be made in {place}: {kind}"))
    })
}

/// Whether a file can be written but not replaced: it may be writable where its folder is not,
/// or be a mount point of its own, as in containers.
fn only_in_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ResourceBusy
    )
}

/// Puts `text` in the place of `path` in one step, so that a full disk leaves
/// whatever was there.
fn replace(folder: &Folder, path: &Path, old: Option<&File>, text: &[u8]) -> io::Result<()> {
    let Some(old) = old else {
        // A new file gets the mode that the umask gives it.
        let draft = draft(folder, 0o666)?;
        draft.file().write_all(text)?;
        draft.file().sync_all()?;
        return draft.place(path);
    };
    // The folder's permissions alone would let the rename pass.
    reopen(old, &append())?;
    let about = old.metadata()?;
    // One that replaces another is nobody else's to read until it has the mode of the
    // old one.
    let replaced = draft(folder, 0o600).and_then(|draft| {
        draft.file().write_all(text)?;
        // Run as root, the report still belongs to whoever made it.
        let _ = fchown(draft.file(), Some(about.uid()), Some(about.gid()));
        let mode = Permissions::from_mode(about.mode() & 0o777);
        draft.file().set_permissions(mode)?;
        // Some file systems run out of space only now.
        draft.file().sync_all()?;
        draft.place(path)
    });
    match replaced {
        Err(error) if only_in_place(&error) => {
            let mut file = reopen(old, OpenOptions::new().write(true).truncate(true))?;
            file.write_all(text)
        }
        replaced => replaced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{lchown, symlink};

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
    fn a_stream_is_a_pipe_or_a_new_file_and_never_another_users_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        open_stream(&at("pipe")).unwrap().write_all(b"one").unwrap();
        open_stream(&at("new")).unwrap().write_all(b"one").unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"one");
        let again = open_stream(&at("new")).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        symlink("pipe", at("own")).unwrap();
        open_stream(&at("own")).unwrap();
        open_stream(Path::new("/dev/null")).unwrap();
        open_stream(Path::new("/dev/stderr")).unwrap();
        assert!(open_stream(folder.path()).is_err());
        if effective_user() == 0 {
            lchown(at("own"), Some(12345), None).unwrap();
            let error = open_stream(&at("own")).unwrap_err().to_string();
            assert!(error.contains("another user's symbolic link"), "{error}");
        }
    }

    #[test]
    fn a_private_file_takes_the_place_of_a_file_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), "longer than the new one").unwrap();
        fs::hard_link(at("old"), at("kept")).unwrap();
        symlink("old", at("link")).unwrap();
        for name in ["new", "old", "link"] {
            open_private(&at(name)).unwrap().write_all(b"new").unwrap();
            let about = fs::metadata(at(name)).unwrap();
            assert_eq!((about.len(), about.mode() & 0o777), (3, 0o600), "{name}");
        }
        assert_eq!(fs::read(at("kept")).unwrap(), b"longer than the new one");
        assert_eq!(files_in(folder.path()), ["kept", "link", "new", "old"]);
        open_private(Path::new("/dev/null")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        for path in [at("pipe"), "/dev/stderr".into(), "/tmp".into()] {
            assert!(open_private(&path).is_err(), "{}", path.display());
        }
        if effective_user() == 0 {
            lchown(at("link"), Some(12345), None).unwrap();
            let error = open_private(&at("link")).unwrap_err().to_string();
            assert!(error.contains("another user's symbolic link"), "{error}");
        }
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
    fn another_users_link_is_not_followed() {
        if effective_user() != 0 {
            eprintln!("skipped: only root can make a link for somebody else");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").unwrap();
        symlink("file", &link).unwrap();
        lchown(&link, Some(4711), None).unwrap();
        for outcome in [check(&link), write(&link, b"text")] {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("another user's symbolic link"), "{error}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        assert_eq!(files_in(folder.path()), ["file", "link"]);
    }

    #[test]
    fn what_is_exchanged_after_it_was_found_is_not_touched() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::create_dir(at("ours")).unwrap();
        fs::write(at("folder/report"), "old").unwrap();
        fs::write(at("ours/report"), "precious").unwrap();
        let Destination::File(folder, path, old) = destination(&at("folder/report")).unwrap()
        else {
            panic!("it is a file");
        };
        // The owner of the folder puts a link in the place of the file, then of the folder.
        fs::remove_file(&path).unwrap();
        symlink(at("ours/report"), &path).unwrap();
        replace(&folder, &path, old.as_ref(), b"one").unwrap();
        fs::rename(at("folder"), at("moved")).unwrap();
        symlink(at("ours"), at("folder")).unwrap();
        replace(&folder, &path, None, b"two").unwrap();
        assert_eq!(fs::read(at("ours/report")).unwrap(), b"precious");
        assert_eq!(files_in(&at("ours")), ["report"]);
        assert_eq!(fs::read(at("moved/report")).unwrap(), b"two");
        assert_eq!(files_in(&at("moved")), ["report"]);
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
