//! Names as people write them.

use cpp_demangle::{DemangleOptions, Symbol};

/// Longer mangled names may take too long to demangle.
const MAX_MANGLED: usize = 16 << 10;

/// The demangled form of a linkage name: C++ without parameters, Rust without the hash. A
/// name that is not mangled is returned as it is.
pub(super) fn demangle(name: &str) -> String {
    if name.len() > MAX_MANGLED {
        return name.to_owned();
    }
    // Before C++, because old Rust names look like C++ ones.
    if let Ok(rust) = rustc_demangle::try_demangle(name)
        && (name.starts_with("_R") || has_rust_hash(name))
    {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    Symbol::new(name)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .map_or_else(|| name.to_owned(), |name| shorten(&name))
}

/// Old Rust names end in `17h` and sixteen hexadecimal digits.
fn has_rust_hash(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.windows(19).any(|window| {
        window.starts_with(b"17h") && window.iter().skip(3).all(u8::is_ascii_hexdigit)
    })
}

/// A C++ type or function name without what its author did not write: default allocators,
/// inline namespaces of the library, and the long form of strings.
pub(super) fn shorten(name: &str) -> String {
    let mut name = name.replace("std::__cxx11::", "std::");
    name = name.replace(
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        "std::string",
    );
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(at) = rest.find(", std::allocator<") {
        out.push_str(&rest[..at]);
        let inner = &rest[at + ", std::allocator<".len()..];
        match closing(inner) {
            Some(end) => rest = inner[end + 1..].trim_start_matches(' '),
            None => {
                rest = &rest[at..];
                break;
            }
        }
    }
    out.push_str(rest);
    while out.contains("> >") {
        out = out.replace("> >", ">>");
    }
    out
}

/// The index of the `>` that closes a list whose `<` is just before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if depth == 0 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rust_manglings_and_cpp_are_read() {
        assert_eq!(
            demangle("_ZN4core3ptr13read_volatile17h0123456789abcdefE"),
            "core::ptr::read_volatile"
        );
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(
            demangle("_ZNKSt13__atomic_baseIiE4loadESt12memory_order"),
            "std::__atomic_base<int>::load"
        );
        assert_eq!(demangle("_ZN2ns3addEii"), "ns::add");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn default_allocators_go() {
        assert_eq!(
            shorten("std::vector<int, std::allocator<int> >"),
            "std::vector<int>"
        );
        assert_eq!(
            shorten(
                "std::vector<std::vector<int, std::allocator<int> >, std::allocator<std::vector<int, std::allocator<int> > > >"
            ),
            "std::vector<std::vector<int>>"
        );
    }
}
