//! The names a function goes by.

use cpp_demangle::{DemangleOptions, Symbol};

/// A longer name is matched as it is.
const MAX_MANGLED: usize = 4096;

/// The names a glob may match: as in the symbol table, demangled in full,
/// demangled without templates, parameters and hashes, and its last part alone.
pub(super) fn forms(name: &str) -> Vec<String> {
    let mut forms = vec![name.to_owned()];
    if name.len() > MAX_MANGLED {
        return forms;
    }
    // A part that the compiler split off goes by its function's name.
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

/// A demangled name without template arguments, parameters and what comes after
/// them. Operators that look like brackets are kept.
fn plain(full: &str) -> String {
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
                // What came so far is a return type.
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

/// How long the operator's name at the start of `text` is.
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
