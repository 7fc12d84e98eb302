//! Reads kernel files: the ELF image in a vmlinuz, and the symbols and types in that.
//!
//! A kernel without its debug package has no symbol table, but it contains the one that it
//! uses itself (kallsyms) and its types (BTF). They are read here, and the symbols are put
//! where [`Image`](crate::Image) looks for them. None of these bytes is trusted: a lie gives
//! an error.

mod btf;
mod carried;
mod kallsyms;
mod prepare;
mod symbols;
mod vmlinuz;

pub use btf::{Btf, Field};
pub(crate) use carried::{CarriedTypes, THIS_MODULE};
pub use kallsyms::{KernelSymbol, symbols};
pub use prepare::{Stage, prepare};
pub use symbols::with_symbols;
pub use vmlinuz::unpack;

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a kernel's file cannot be used.
#[derive(Debug, Error)]
pub enum KernelFileError {
    /// A file cannot be read or written.
    #[error("cannot {act} {path}: {source}")]
    File {
        /// What was tried with it.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Neither a vmlinuz nor a vmlinux.
    #[error("it is {what}, not an x86-64 Linux kernel (a vmlinuz or a vmlinux)")]
    NotKernel {
        /// What it is instead.
        what: String,
    },
    /// A vmlinuz whose boot header does not say where the kernel is.
    #[error(
        "its boot protocol is {}.{:02}; where the kernel is in the file is told since 2.08 (Linux 2.6.26)",
        version >> 8, version & 0xff
    )]
    TooOld {
        /// The version of the boot protocol.
        version: u16,
    },
    /// The kernel inside does not unpack.
    #[error("its kernel, packed with {format}, does not unpack: {source}; copy the file again")]
    Unpack {
        /// The compression format.
        format: &'static str,
        /// The decoder's error.
        source: io::Error,
    },
    /// A part of it is inconsistent.
    #[error("its {part} is damaged: {why}")]
    Malformed {
        /// Which part.
        part: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// There are no symbols inside.
    #[error(
        "it holds no symbol names that can be read ({why}); give its vmlinux with debug information"
    )]
    NoSymbols {
        /// What was searched for.
        why: &'static str,
    },
}

impl KernelFileError {
    fn malformed(part: &'static str, why: impl ToString) -> Self {
        Self::Malformed {
            part,
            why: why.to_string(),
        }
    }
}

/// The `N` bytes at `at`, if there are as many.
fn bytes_at<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    bytes_at(data, at).map(u16::from_le_bytes)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    bytes_at(data, at).map(u32::from_le_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    bytes_at(data, at).map(u64::from_le_bytes)
}
