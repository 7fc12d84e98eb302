//! Accesses that a library makes with code that the compiler put into the program.

use crate::fixtures::side;
use redhanded_model::{AccessKind, AccessReport};

/// A side in a container of C++, whose code is in the program, that `function` of `file` called.
pub fn in_container(kind: AccessKind, function: &str, file: &str) -> AccessReport {
    const HEADER: &str = "/usr/include/c++/12/bits/stl_vector.h";
    let mut side = side(
        kind,
        "std::vector<int>::push_back",
        HEADER,
        &[("app", function)],
    );
    side.stack[0].file = Some(HEADER.to_owned());
    side.stack[1].file = Some(file.to_owned());
    side
}
