//! Files of the host that are put into the guest.
//!
//! A program names its interpreter and its libraries, and whoever owns it chooses the names.
//! So root reads them with the rights of that user, and nobody reads more than the machine
//! has room for.

use redhanded_sys::{Rights, effective_user, open_regular};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Who decides which files are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chooser(Option<Rights>);

impl Chooser {
    /// Whoever runs this.
    pub const CALLER: Self = Self(None);

    /// Who decides what is at a path that this one names, and the path without links where
    /// that is looked at. Rights are only ever lost on the way.
    pub fn at(&self, path: &Path) -> io::Result<(PathBuf, Self)> {
        if self.0.is_some() || effective_user() != 0 {
            return Ok((path.to_owned(), self.clone()));
        }
        let (path, rights) = Rights::over(path)?;
        Ok((path, Self(rights)))
    }

    /// Does something that concerns files with these rights.
    pub fn with<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.0 {
            Some(rights) => rights.with(what),
            None => what(),
        }
    }

    /// Opens a regular file that this one names, and says who decides what is in it.
    pub fn open(&self, path: &Path) -> io::Result<(File, Self)> {
        let (path, chooser) = self.at(path)?;
        let file = chooser.with(|| open_regular(&path))?;
        Ok((file, chooser))
    }
}

/// How many bytes may still be read.
pub struct Room {
    most: u64,
    left: u64,
}

impl Room {
    /// So many.
    pub const fn new(bytes: u64) -> Self {
        Self {
            most: bytes,
            left: bytes,
        }
    }

    /// What is left.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// All that comes from there, if there is room for it.
    pub fn read(&mut self, from: impl Read) -> io::Result<Vec<u8>> {
        let bytes = self.look(from)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// The same for what takes no room, because it is there already.
    pub fn look(&self, from: impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        from.take(self.most.saturating_add(1))
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 <= self.most {
            true => Ok(bytes),
            false => Err(no_room()),
        }
    }

    /// Takes so many of them.
    pub fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(no_room)?;
        Ok(())
    }
}

fn no_room() -> io::Error {
    let why = "the machine has too little memory for it";
    io::Error::new(ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        let mut room = Room::new(10);
        assert_eq!(room.read(&b"12345678"[..]).unwrap(), b"12345678");
        assert_eq!(room.read(&b"12"[..]).unwrap(), b"12");
        assert_eq!(room.read(&b""[..]).unwrap(), b"");
        assert!(room.read(&b"1"[..]).is_err());
        assert_eq!(room.look(&b"1234567890"[..]).unwrap(), b"1234567890");
        for room in [&mut room, &mut Room::new(10)] {
            let error = room.read(io::repeat(0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn root_reads_what_others_name_with_their_rights() {
        if effective_user() != 0 {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        fs::set_permissions(at("secret"), Permissions::from_mode(0o600)).unwrap();
        fs::write(at("program"), "").unwrap();
        let (_, ours) = Chooser::CALLER.open(&at("program")).unwrap();
        assert!(ours.open(&at("secret")).is_ok());
        chown(at("program"), Some(4711), None).unwrap();
        let (_, theirs) = Chooser::CALLER.open(&at("program")).unwrap();
        assert!(theirs.open(&at("secret")).is_err());
        // A folder of theirs that leads to it.
        fs::create_dir(at("folder")).unwrap();
        symlink("../secret", at("folder/link")).unwrap();
        chown(at("folder"), Some(4711), None).unwrap();
        let (_, folder) = Chooser::CALLER.at(&at("folder")).unwrap();
        assert!(folder.open(&at("folder/link")).is_err());
    }
}
