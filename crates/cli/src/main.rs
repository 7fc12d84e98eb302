//! The `redhanded` binary.
fn main() {}
