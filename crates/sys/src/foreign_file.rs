//! Files that belong to others, who may change them at any time.

use std::ffi::{c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Opens a regular file for reading, and nothing else. It never waits: not for the other
/// end of a FIFO, and not for the holder of a lease. A device is not even opened, because
/// that alone can have effects, such as starting a watchdog.
///
/// # Errors
/// If it is something else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let open = |path: &Path, flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
    // With `O_PATH` the file is found but not opened.
    let found = open(path, libc::O_PATH)?;
    if !found.metadata()?.is_file() {
        let why = "not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // Not `/proc/self`: threads may have tables of open files of their own.
    let found_file = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
    open(Path::new(&found_file), libc::O_NONBLOCK)
}

/// All that is in a regular file of at most `most` bytes.
///
/// # Errors
/// If it is longer or something else, or cannot be read.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let why = format!("it is longer than {} MB", most >> 20);
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    let mut bytes = Vec::new();
    let file = open_regular(path)?;
    if file.metadata()?.len() > most {
        return Err(too_long());
    }
    // It may grow meanwhile.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

/// The same for a text.
///
/// # Errors
/// If it is no text, too.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read_regular(path, most)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// A regular file, mapped for reading.
///
/// If the file is cut short while it is mapped, the lost bytes read as zero. Whoever may
/// write to the file can change its bytes under our eyes, so nothing about them holds twice.
///
/// Reading files into memory instead would need no signal handler, but costs about half a
/// second and 589 MB for a kernel with debug information, in each process that opens it, and
/// most of it is never looked at.
#[derive(Debug)]
pub struct FileMap {
    len: usize,
    /// `None` for an empty file.
    range: Option<&'static MappedRange>,
}

/// The addresses of a mapping. They are never freed, because the signal handler may look at
/// them at any time.
#[derive(Debug)]
struct MappedRange {
    start: usize,
    end: usize,
    mapped: AtomicBool,
    next: *const Self,
}

// SAFETY: nothing but the flag changes, and `next` is only read.
unsafe impl Sync for MappedRange {}
// SAFETY: as above.
unsafe impl Send for MappedRange {}

/// All ranges that were ever mapped, newest first.
static RANGES: AtomicPtr<MappedRange> = AtomicPtr::new(ptr::null_mut());

/// The action for SIGBUS before ours.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

/// The smallest page. Larger ones are multiples of it.
const PAGE: usize = 4096;

impl FileMap {
    /// Maps the regular file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened or mapped, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(&open_regular(path)?)
    }

    /// Maps a whole file.
    ///
    /// # Errors
    /// If there is not enough address space, or the file cannot be mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let len = usize::try_from(file.metadata()?.len()).map_err(too_large)?;
        if len == 0 {
            return Ok(Self { len, range: None });
        }
        survive_bus_errors();
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.expose_provenance();
        let range = Box::leak(Box::new(MappedRange {
            start,
            end: start + len.next_multiple_of(PAGE),
            mapped: AtomicBool::new(true),
            next: ptr::null(),
        }));
        let mut next = RANGES.load(Ordering::Acquire);
        loop {
            range.next = next;
            match RANGES.compare_exchange(next, range, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(newer) => next = newer,
            }
        }
        Ok(Self {
            len,
            range: Some(range),
        })
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped as long as we live, and a page without a file behind
        // it is replaced by the signal handler.
        self.range.map_or(&[], |range| unsafe {
            std::slice::from_raw_parts(ptr::with_exposed_provenance(range.start), self.len)
        })
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if let Some(range) = self.range {
            // First, so that the handler never touches what is mapped here next.
            range.mapped.store(false, Ordering::Release);
            // SAFETY: nobody borrows from us any more.
            unsafe {
                libc::munmap(ptr::with_exposed_provenance_mut(range.start), self.len);
            }
        }
    }
}

/// Installs the handler, once per process.
fn survive_bus_errors() {
    FORMER.get_or_init(|| {
        // SAFETY: sigaction is plain data, initialised before it is passed on. The handler
        // only does what a signal handler may do.
        unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            let mut former: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
            ours.sa_sigaction = handler as libc::sighandler_t;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut former);
            former
        }
    });
}

/// Replaces the pages that a file no longer has, or that its disk does not give, by zeros.
/// Everything behind the first of them is replaced at once.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo, and for the codes of a fault it has an
    // address. Ranges are never freed. Only a range of ours that is still mapped is
    // replaced: its thread stands at an access to it, so that nobody unmaps it meanwhile.
    unsafe {
        if (*info).si_code > 0 {
            let at = (*info).si_addr().addr();
            let mut next = RANGES.load(Ordering::Acquire).cast_const();
            while let Some(range) = next.as_ref() {
                if range.mapped.load(Ordering::Acquire) && (range.start..range.end).contains(&at) {
                    let lost = at - at % PAGE;
                    let zeros = libc::mmap(
                        ptr::with_exposed_provenance_mut(lost),
                        range.end - lost,
                        libc::PROT_READ,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                        -1,
                        0,
                    );
                    if zeros != libc::MAP_FAILED {
                        return;
                    }
                }
                next = range.next;
            }
        }
        // Not ours: the access is repeated, and the former action has it then.
        let default: libc::sigaction = std::mem::zeroed();
        let former = FORMER.get().unwrap_or(&default);
        libc::sigaction(signal, former, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn what_is_read_whole_is_a_regular_file_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(read_regular(&path, 100).unwrap(), [b'x'; 100]);
        assert_eq!(read_regular_text(&path, 100).unwrap(), "x".repeat(100));
        assert!(read_regular(&path, 99).is_err());
        fs::write(&path, [0xff]).unwrap();
        assert!(read_regular_text(&path, 100).is_err());
        assert!(read_regular(Path::new("/dev/zero"), 100).is_err());
    }

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let fifo = CString::new(path("fifo").to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        symlink("/dev/zero", path("device")).unwrap();
        symlink(path("fifo"), path("link")).unwrap();
        fs::write(path("file"), "text").unwrap();
        symlink(path("file"), path("link to the file")).unwrap();
        let (tell, told) = mpsc::channel();
        let all = ["fifo", "device", "link", ".", "file", "link to the file"].map(path);
        std::thread::spawn(move || all.map(|path| tell.send(open_regular(&path))));
        let next = || {
            told.recv_timeout(Duration::from_secs(60))
                .expect("it waits")
        };
        for _ in 0..4 {
            assert_eq!(next().unwrap_err().to_string(), "not a regular file");
        }
        for _ in 0..2 {
            assert_eq!(&*FileMap::new(&next().unwrap()).unwrap(), b"text");
        }
        assert!(open_regular(&path("missing")).is_err());
    }

    #[test]
    fn a_file_that_is_cut_short_reads_as_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let pages = 5 * PAGE - 7;
        fs::write(&path, vec![7; pages]).unwrap();
        let map = |path: &Path| FileMap::open(path).unwrap();
        let (cut, untouched) = (map(&path), map(&path));
        let other = folder.path().join("other");
        fs::write(&other, vec![9; pages]).unwrap();
        let other = map(&other);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(PAGE as u64 + 1)
            .unwrap();
        // From the end, so that there are several faults.
        for at in [pages - 1, 3 * PAGE, 2 * PAGE, PAGE + 1] {
            assert_eq!(cut[at], 0);
        }
        assert_eq!((cut.len(), cut[PAGE]), (pages, 7));
        assert!(other.iter().all(|byte| *byte == 9));
        drop(untouched);
        fs::write(&path, "").unwrap();
        assert!(map(&path).is_empty());
    }
}
