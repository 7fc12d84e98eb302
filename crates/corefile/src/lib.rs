//! Writes an ELF core file of a process that lives on.
//!
//! It takes the registers of the threads, the memory as a file, and a function that
//! puts the original bytes over breakpoint bytes. It gives a file that gdb opens with
//! `gdb PROGRAM CORE`, with every thread where it was. It never writes to the process
//! and stops no thread: if threads run meanwhile, memory and registers are of slightly
//! different moments.
//!
//! Mappings are stored by the kernel's rule for its own cores (core(5),
//! `/proc/PID/coredump_filter`, `MADV_DONTDUMP`), with one addition: loaded files are
//! stored whole, so that the core can be read on a machine without them.

mod facts;
mod fields;
mod layout;
mod mappings;
mod memory;
mod notes;

use facts::Facts;
use mappings::Mapping;
use redhanded_sys::{Folder, folder_of};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

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
    /// The signal that it is stopped by, or 0.
    pub signal: i32,
}

/// The process to write a core of.
pub struct CoreProcess<'a> {
    /// Its number.
    pub pid: i32,
    /// Its threads. A debugger shows the first one as the current thread.
    pub threads: &'a [CoreThread],
    /// Its memory: `/proc/PID/mem`, opened for reading.
    pub memory: &'a File,
    /// Puts the original bytes over breakpoint bytes in a buffer that was read from
    /// this address.
    pub hide: &'a dyn Fn(u64, &mut [u8]),
}

/// Writes the core of `process` to `path`. Returns the number of bytes written, not
/// counting pages of zeros, which are holes in the file.
///
/// The file appears under its name when it is complete. Only its owner may read it,
/// because memory holds secrets.
///
/// # Errors
/// If the process is gone, its map cannot be read, or the file cannot be written.
/// Nothing is left behind then.
pub fn write(process: &CoreProcess<'_>, path: &Path) -> io::Result<u64> {
    let first = process.threads.first().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a core needs at least one thread",
        )
    })?;
    // Through a thread that exists: a leader that has ended has no memory any more.
    let mappings = mappings::read(first.tid)?;
    let facts = Facts::read(process.pid, process.threads)?;
    let notes = notes::all(process.threads, &facts, &mappings);
    let loads: Vec<_> = mappings.iter().map(Mapping::load).collect();
    let layout = layout::lay_out(&loads, &notes)?;
    let mut written = layout.head.len() as u64;
    let mut write = || {
        let folder = Folder::open(folder_of(path))?;
        let partial = folder.draft(0o600)?;
        partial.file().write_all_at(&layout.head, 0)?;
        let mut source = memory::ProcessMemory::new(process, first.tid);
        for (mapping, offset) in mappings.iter().zip(&layout.offsets) {
            written += source.copy(mapping, partial.file(), *offset)?;
        }
        // The last pages may be a hole.
        partial.file().set_len(layout.length)?;
        partial.place(path)
    };
    write().map_err(|error: io::Error| {
        let told = format!("cannot write the core {}: {error}", path.display());
        io::Error::new(error.kind(), told)
    })?;
    Ok(written)
}
