//! The names by which a glob can match a function.

use cpp_demangle::{DemangleOptions, Symbol};

/// A longer name is not demangled.
const MAX_MANGLED: usize = 4096;

/// The names that a glob can match: the symbol's, the demangled one in full, the same without
/// template arguments, parameters and hashes, and the last part of that.
pub(super) fn forms(name: &str) -> Vec<String> {
    let mut forms = vec![name.to_owned()];
    if name.len() > MAX_MANGLED {
        return forms;
    }
    // A part that the compiler split off has its function's name, too.
    let whole = name.split('.').next().unwrap_or(name);
    let full = if let Ok(rust) = rustc_demangle::try_demangle(name) {
        forms.push(format!("{rust}"));
        format!("{rust:#}")
    } else if let Ok(symbol) = Symbol::new(whole) {
        let options = DemangleOptions::new().recursion_limit(64);
        symbol
            .demangle_with_options(&options)
            .unwrap_or_else(|_| whole.to_owned())
    } else {
        whole.to_owned()
    };
    let short = plain(&full);
    if let Some((_, last)) = short.rsplit_once("::") {
        forms.push(last.to_owned());
    }
    forms.push(short);
    forms.push(full);
    forms
}

/// A demangled name up to its parameters and without template arguments. Operators that look
/// like brackets are kept.
pub(super) fn plain(full: &str) -> String {
    let mut plain = String::new();
    let mut rest = full;
    let mut depth = 0usize;
    while let Some(c) = rest.chars().next() {
        if depth == 0 && rest.starts_with("operator") {
            let end = operator_end(rest);
            let (operator, after) = rest.split_at(end);
            plain.push_str(operator);
            rest = after;
            continue;
        }
        // "(anonymous namespace)" and "{closure}" are names, not arguments.
        if depth == 0 && rest.starts_with("(anonymous namespace)") {
            plain.push_str("(anonymous namespace)");
            rest = rest
                .get("(anonymous namespace)".len()..)
                .unwrap_or_default();
            continue;
        }
        match c {
            '(' if depth == 0 && !plain.is_empty() => break,
            '<' if depth == 0 && plain.is_empty() => plain.push(c),
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            ' ' if depth == 0 && !plain.is_empty() && !plain.starts_with('<') => {
                // So far it was a return type.
                plain.clear();
            }
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    if plain.is_empty() {
        full.to_owned()
    } else {
        plain
    }
}

/// The length of the operator name at the start of `text`.
fn operator_end(text: &str) -> usize {
    let word = "operator".len();
    let rest = text.get(word..).unwrap_or_default();
    let symbols = [
        "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">",
    ];
    symbols
        .iter()
        .find(|symbol| rest.starts_with(**symbol))
        .map_or(word, |symbol| word + symbol.len())
}

#[cfg(test)]
mod tests {
    use super::forms;

    #[track_caller]
    fn check(name: &str, expect: &[&str]) {
        let forms = forms(name);
        for form in expect {
            assert!(forms.iter().any(|f| f == form), "{form} not in {forms:?}");
        }
    }

    #[test]
    fn c_cpp_and_rust_names() {
        check("parse_line", &["parse_line"]);
        check("parse_line.part.0", &["parse_line", "parse_line.part.0"]);
        check(
            "_ZN3net6Parser4feedESt6vectorIiSaIiEE",
            &[
                "feed",
                "net::Parser::feed",
                "net::Parser::feed(std::vector<int, std::allocator<int> >)",
            ],
        );
        check("_ZN3BoxIiE3getEv", &["Box::get", "Box<int>::get()", "get"]);
        check("_Z3addIiET_S0_", &["add"]);
        check("_ZN1AltERKS_", &["A::operator<"]);
        check("_ZN1AclEv", &["A::operator()"]);
        check("_ZN12_GLOBAL__N_13runEv", &["(anonymous namespace)::run"]);
        check(
            "_ZN4core3ptr4read17h0123456789abcdefE",
            &[
                "core::ptr::read",
                "read",
                "core::ptr::read::h0123456789abcdef",
            ],
        );
    }
}
