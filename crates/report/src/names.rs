//! What things are called: the raced-on object, places in code, and function
//! names short enough for one line.

use redhanded_model::{AccessReport, Creation, Frame, Pointee, Race, Region, What};

/// The longest name of a function of which no part is left out behind the stack's thread.
const MOST_OF_FRAME: usize = 40;

/// The raced-on object by name: variable and field, as far as they are known; or type and
/// member of what is behind a pointer.
pub(crate) fn object(what: &What) -> Option<String> {
    let name = what.name.as_deref().unwrap_or_default();
    let field = what.field.as_deref().unwrap_or_default();
    let path = format!("{name}{field}");
    if !path.is_empty() {
        return Some(path);
    }
    what.pointee.as_ref().map(pointee)
}

/// Where the object lies. A block of an allocator says more than the mapping that it is in.
pub(crate) fn region(what: &What) -> String {
    let placed = what.block.and_then(|block| {
        let offset = block.offset_of(what.address)?;
        Some((bytes(block.size), offset))
    });
    match (&what.region, placed) {
        (_, Some((size, 0))) => format!("heap block of {size}"),
        (_, Some((size, offset))) => format!("heap block of {size}, {offset} into it"),
        (Region::Unknown, None) => "unknown region".to_owned(),
        (region @ Region::Stack { .. }, None) => match &what.frame {
            Some(function) => format!("{region} in {}", shorten(function, MOST_OF_FRAME, "…")),
            None => region.to_string(),
        },
        (region, None) => region.to_string(),
    }
}

/// `allocated by thread 4711 (main)`.
pub(crate) fn allocation(allocated: &Creation) -> String {
    format!("allocated by {}", allocated.thread)
}

/// What is behind a pointer, with a word of doubt if there is any.
pub(crate) fn pointee(pointee: &Pointee) -> String {
    let doubt = if pointee.doubtful { "perhaps " } else { "" };
    format!("{doubt}{}", pointee.name())
}

/// What each side takes the bytes for, if that is not the same.
pub(crate) fn sides_differ(race: &Race) -> Option<String> {
    if !race.what.sides_differ {
        return None;
    }
    if race.what.name.is_some() {
        let own = object(&race.what)?;
        let mut sides = ["held", "caught"].into_iter().zip(&race.accesses);
        return sides.find_map(|(side, access)| {
            let meant = access.pointee.as_ref().filter(|pointee| pointee.outside)?;
            let name = meant.expression.clone().unwrap_or_else(|| meant.name());
            Some(format!(
                "The {side} thread takes these bytes for {name}, which is outside the array: \
                 they are {own}."
            ))
        });
    }
    let mut sides = race
        .accesses
        .iter()
        .filter_map(|side| side.pointee.as_ref());
    let (one, other) = (sides.next()?, sides.next()?);
    Some(format!(
        "The held thread takes these bytes for {}, the caught one for {}: one of them may be \
         outside its object, or use memory that has become another's.",
        pointee(one),
        pointee(other)
    ))
}

/// The type and how many bytes are accessed, which may be a part of what has that type:
/// `unsigned int, 4 bytes`, `16 bytes of Record`.
pub(crate) fn typed_bytes(race: &Race, type_name: &str) -> String {
    let what = &race.what;
    let is_whole = race.values.typed.is_some()
        || type_name.starts_with("enum ")
        || type_name.ends_with(['*', '&'])
        || what.size <= 8 && crate::values::is_number(type_name);
    let size = bytes(what.size);
    if is_whole {
        format!("{type_name}, {size}")
    } else {
        format!("{size} of {type_name}")
    }
}

/// `1 byte`, `4 bytes`.
pub(crate) fn bytes(size: u64) -> String {
    crate::numbers::counted(size, "byte", "bytes")
}

/// Where an access is in code if its function has no name: module and offset, or
/// the bare address.
pub(crate) fn code_address(access: &AccessReport) -> String {
    match access.stack.first() {
        Some(frame) if frame.module.is_some() => frame_address(frame),
        _ => format!("{:#x}", access.pc),
    }
}

/// An access by its function, shortened by `shorten`: the program's own, and what a library did
/// for it.
pub(crate) fn told(
    access: &AccessReport,
    shorten: impl Fn(&str) -> String,
) -> (String, Option<String>) {
    let own = match &access.function {
        Some(name) => shorten(name),
        None => code_address(access),
    };
    match access.caller() {
        Some((_, frame)) => {
            let function = frame.function.as_deref();
            let caller = function.map_or_else(|| frame_address(frame), &shorten);
            (caller, Some(own))
        }
        None => (own, None),
    }
}

/// `libc.so.6+0x89134`, or the bare address outside any module.
pub(crate) fn frame_address(frame: &Frame) -> String {
    match &frame.module {
        Some(module) => format!("{module}+{:#x}", frame.address),
        None => format!("{:#x}", frame.address),
    }
}

/// `file:line` as debug information gives it.
pub(crate) fn place(file: Option<&str>, line: Option<u32>) -> Option<String> {
    let file = file?;
    Some(match line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    })
}

/// A place cut down to the last parts of its path that fit `limit`: at least
/// the file's name.
pub(crate) fn short_place(place: &str, limit: usize, ellipsis: &str) -> String {
    if place.chars().count() <= limit {
        return place.to_owned();
    }
    let mut best = place.rsplit('/').next().unwrap_or(place);
    for (at, _) in place.rmatch_indices('/') {
        let tail = &place[at + 1..];
        if tail.chars().count() + ellipsis.chars().count() + 1 > limit {
            break;
        }
        best = tail;
    }
    format!("{ellipsis}/{best}")
}

/// A function's name in at most `limit` columns where that is possible without
/// cutting an identifier: template arguments and parameters go first, then
/// leading namespaces.
pub(crate) fn shorten(name: &str, limit: usize, ellipsis: &str) -> String {
    let fits = |name: &str| name.chars().count() <= limit;
    if fits(name) {
        return name.to_owned();
    }
    let collapsed = collapse(name, ellipsis);
    if fits(&collapsed) {
        return collapsed;
    }
    let segments = segments(&collapsed);
    let dropped: String = (1..segments.len())
        .map(|from| format!("{ellipsis}::{}", segments[from..].join("::")))
        .find(|tail| fits(tail))
        .or_else(|| {
            let last = segments.last().filter(|_| segments.len() > 1)?;
            Some(format!("{ellipsis}::{last}"))
        })
        .unwrap_or_else(|| collapsed.clone());
    // Replacing one short namespace by an ellipsis may save nothing.
    if dropped.chars().count() < collapsed.chars().count() {
        dropped
    } else {
        collapsed
    }
}

/// Operators whose names hold brackets, longest first.
const OPERATORS: [&str; 13] = [
    "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "->", "<=", ">=", "<", ">",
];

/// The part of `text` in brackets that open at its start, brackets included.
fn bracketed(text: &str) -> &str {
    let mut depth = 0usize;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            // The arrow of a function type closes nothing.
            '>' if previous == '-' => {}
            '>' | ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &text[..at + c.len_utf8()];
                }
            }
            _ => {}
        }
        previous = c;
    }
    text
}

/// `name` with what is in brackets left out.
fn collapse(name: &str, ellipsis: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    if rest.starts_with('<') {
        // Rust's `<Type as Trait>::method`: both are what the name is about.
        let qualified = bracketed(rest);
        rest = &rest[qualified.len()..];
        let inner = qualified.trim_start_matches('<').trim_end_matches('>');
        let names: Vec<String> = inner
            .split(" as ")
            .map(|part| {
                let part = brackets_out(part, ellipsis);
                segments(&part)
                    .last()
                    .copied()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect();
        short.push('<');
        short.push_str(&names.join(" as "));
        short.push('>');
    }
    short.push_str(&brackets_out(rest, ellipsis));
    short
}

fn brackets_out(name: &str, ellipsis: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        if let Some(after) = rest.strip_prefix("operator")
            && let Some(operator) = OPERATORS.iter().find(|op| after.starts_with(**op))
        {
            taken = "operator".len() + operator.len();
            short.push_str(&rest[..taken]);
        } else if rest.starts_with("(anonymous namespace)") {
            taken = "(anonymous namespace)".len();
            short.push_str(&rest[..taken]);
        } else if c == '<' || c == '(' {
            let group = bracketed(rest);
            taken = group.len();
            if taken > 2 {
                short.push(c);
                short.push_str(ellipsis);
                short.push(if c == '<' { '>' } else { ')' });
            } else {
                short.push_str(group);
            }
        } else {
            short.push(c);
        }
        rest = &rest[taken..];
    }
    short
}

/// `a::b<c::d>::e` at its outer `::`.
fn segments(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => {
                parts.push(&name[start..at]);
                at += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&name[start..]);
    parts
}

/// What a race is on, by name or by where it lies.
pub fn race_object(race: &Race) -> String {
    object(&race.what).unwrap_or_else(|| race.what.region.to_string())
}

/// A glob that matches this text and nothing else.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut glob = String::new();
    for part in text.chars() {
        match part {
            '*' | '?' | '[' | ']' | '{' | '}' => glob.extend(['[', part, ']']),
            '\\' => glob.push_str("\\\\"),
            _ => glob.push(part),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(name: &str, limit: usize, expect: &str) {
        assert_eq!(shorten(name, limit, "…"), expect);
    }

    #[test]
    fn a_name_that_fits_is_left_alone() {
        check(
            "std::vector<int>::push_back(int&&)",
            60,
            "std::vector<int>::push_back(int&&)",
        );
    }

    #[test]
    fn templates_and_parameters_go_first() {
        check(
            "std::map<int, Foo<Bar>, std::less<int>>::insert(std::pair<int const, Foo<Bar>>&&)",
            40,
            "std::map<…>::insert(…)",
        );
        check(
            "app::Cache<Key>::operator()(Key const&, unsigned long) const",
            45,
            "app::Cache<…>::operator()(…) const",
        );
        check(
            "std::ostream& operator<< <char>(std::ostream&, char const*)",
            40,
            "std::ostream& operator<< <…>(…)",
        );
        check(
            "(anonymous namespace)::refresh(std::string const&)",
            35,
            "(anonymous namespace)::refresh(…)",
        );
    }

    #[test]
    fn leading_namespaces_go_next_and_identifiers_stay_whole() {
        check(
            "a_project::a_module::a_class::a_method",
            25,
            "…::a_class::a_method",
        );
        check(
            "one_single_identifier_longer_than_all",
            10,
            "one_single_identifier_longer_than_all",
        );
        check("ab::one_single_identifier", 5, "…::one_single_identifier");
        check("a::one_single_identifier", 5, "a::one_single_identifier");
    }

    #[test]
    fn a_qualified_rust_name_keeps_type_and_trait() {
        check(
            "<demo::stats::Shared<alloc::sync::Arc<u64>> as core::ops::drop::Drop>::drop",
            40,
            "<Shared<…> as Drop>::drop",
        );
        check(
            "demo::worker::<impl Fn(u32) -> Vec<u8>>::call::{{closure}}",
            40,
            "demo::worker::<…>::call::{{closure}}",
        );
    }

    #[test]
    fn places_lose_leading_folders() {
        assert_eq!(short_place("src/a.c:3", 20, "…"), "src/a.c:3");
        assert_eq!(
            short_place("/build/pkg-1.2/src/a.c:3", 14, "…"),
            "…/src/a.c:3"
        );
        assert_eq!(
            short_place("/b/a_long_file_name.c:3", 5, "…"),
            "…/a_long_file_name.c:3"
        );
    }

    proptest! {
        #[test]
        fn shortening_takes_any_name_and_never_lengthens(
            name in "(operator|::|<|>|\\(|\\)|\\{|->| as |[a-zé]{1,4}| ){0,30}", limit in 0usize..60
        ) {
            let short = shorten(&name, limit, "…");
            prop_assert!(short.chars().count() <= name.chars().count().max(2) + 2, "{short}");
        }

        #[test]
        fn any_text_can_be_a_name(name in any::<String>(), limit in 0usize..60) {
            shorten(&name, limit, "...");
            short_place(&name, limit, "...");
        }
    }
}
