//! What a program sees of the tool: nothing but time. Each test is a row of the
//! matrix in `docs/fidelity.md`: a small program that checks its own behaviour is
//! run alone and observed, and must be the same both times.
//!
//! `REDHANDED_TEST_OPTIONS` gives more options to every run of the tool.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write into folders of their own"
)]

mod code;
mod endings;
mod left_alone;
mod processes;
mod row;
mod signals;
mod sleeping;
mod surroundings;
mod terminal;

#[path = "../redhanded/place.rs"]
#[expect(dead_code, reason = "the other tests need more of it")]
mod place;
