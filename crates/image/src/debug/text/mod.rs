//! Source text of C, C++ and Rust: its tokens, its macros, and the statements that a position
//! belongs to. The text is foreign, so everything here is bounded.

pub(super) mod conditions;
pub(super) mod lexer;
mod loops;
pub(super) mod macros;
mod prefixes;
pub(super) mod regions;
pub(super) mod rust;
