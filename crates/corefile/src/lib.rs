//! An ELF core file of a process that goes on living.
//!
//! What comes in: the registers of its threads, its memory as a file, and a way
//! to put the original bytes over breakpoint bytes. What comes out: a file that
//! gdb opens with `gdb PROGRAM CORE`, every thread where it stood. Nothing is
//! written to the process and no thread is stopped here; of threads that run
//! meanwhile, memory and registers are of slightly different moments.
//!
//! Which mappings are stored follows the kernel's rule for its own cores
//! (core(5), `/proc/PID/coredump_filter`, `MADV_DONTDUMP`), with one addition:
//! loaded images are stored wholly, so that the core can be read where the
//! program and its libraries are not.

mod facts;
mod fields;
mod layout;
mod mappings;
mod memory;
mod notes;

use facts::Facts;
use mappings::Mapping;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// One thread of the process.
#[derive(Clone, Debug)]
pub struct CoreThread {
    /// Its number.
    pub tid: i32,
    /// Its integer registers, in the order of the kernel's `user_regs_struct`:
    /// r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi,
    /// `orig_rax`, rip, cs, eflags, rsp, ss, `fs_base`, `gs_base`, ds, es, fs, gs.
    pub registers: [u64; 27],
    /// The 512 bytes that `fxsave` stores; empty when unknown.
    pub floating: Vec<u8>,
    /// The extended state as `PTRACE_GETREGSET` gave it for `NT_X86_XSTATE`;
    /// empty when unknown.
    pub xstate: Vec<u8>,
    /// The signal it stands at, or 0.
    pub signal: i32,
}

/// The process a core is written of.
pub struct CoreProcess<'a> {
    /// Its number.
    pub pid: i32,
    /// Its threads. A debugger takes the first one as the current thread.
    pub threads: &'a [CoreThread],
    /// Its memory: `/proc/PID/mem`, opened for reading.
    pub memory: &'a File,
    /// Puts the original bytes over breakpoint bytes in a buffer that was read
    /// from this address.
    pub hide: &'a dyn Fn(u64, &mut [u8]),
}

/// Writes the core of `process` to `path`, and gives the number of bytes written:
/// pages of zeros are holes in the file and not counted.
///
/// The file appears under its name when it is complete, readable for its owner
/// alone: memory holds secrets.
///
/// # Errors
/// When the process is gone, its map cannot be read, or the file cannot be
/// written (a full disk, say). Nothing is left behind then.
pub fn write(process: &CoreProcess<'_>, path: &Path) -> io::Result<u64> {
    let first = process.threads.first().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a core needs at least one thread",
        )
    })?;
    // The memory is asked of through a thread that is there: a leader that has
    // ended no longer has any.
    let mappings = mappings::read(first.tid)?;
    let facts = Facts::read(process.pid, process.threads)?;
    let notes = notes::all(process.threads, &facts, &mappings);
    let loads: Vec<_> = mappings.iter().map(Mapping::load).collect();
    let layout = layout::lay_out(&loads, &notes)?;
    let partial = beside(path)?;
    let file = partial.as_file();
    let mut written = layout.head.len() as u64;
    file.write_all_at(&layout.head, 0)
        .and_then(|()| {
            let mut source = memory::Source::new(process, first.tid);
            for (mapping, offset) in mappings.iter().zip(&layout.offsets) {
                written += source.copy(mapping, file, *offset)?;
            }
            // The last pages may be a hole.
            file.set_len(layout.length)
        })
        .map_err(|error| named(&error, path))?;
    partial
        .persist(path)
        .map_err(|error| named(&error.error, path))?;
    Ok(written)
}

fn named(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot write the core {}: {error}", path.display()),
    )
}

/// A new file in the folder of `path`, which it is renamed to when it is complete:
/// a rename works only within one file system.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} names no file", path.display()),
        )
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    tempfile::Builder::new()
        .prefix(&hidden)
        .suffix(".partial")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| named(&error, path))
}
