//! Expressions of C and C++: which memory a statement accesses, of which type, and which of
//! these accesses an instruction makes.

mod calls;
pub(super) mod choose;
mod described;
mod fragment;
mod places;
pub(super) mod values;
pub(super) mod walk;
