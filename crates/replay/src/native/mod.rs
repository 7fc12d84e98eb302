//! Runs one instruction on the real processor.
//!
//! An instruction that only computes is run as it is, between code that loads the registers
//! it uses and code that stores them again: a *stub*. Its memory operand, if it has one, is
//! re-encoded to a pointer that the caller passes. So everything the processor can compute
//! is replayed exactly, AVX-512 included, and nothing else ever runs: [`allowed`] decides
//! what only computes.
//!
//! Only the worker, a locked-down process, has a [`Native`].

mod allowed;
mod area;
mod stub;

pub(crate) use allowed::allowed;
pub(crate) use area::{Native, Raised};
pub(crate) use stub::{Built, Level, NotBuilt, build, rflags};
