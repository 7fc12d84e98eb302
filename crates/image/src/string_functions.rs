//! String functions that read more than they were asked for: whole words or vectors, of which
//! only some bytes belong to the string.
//!
//! They are recognised by name, in any module. In a stripped C library the variants for each
//! processor have no names; they are what the resolver of the named function can return.
//! A library's function without a name that searches whole words or vectors for a byte is taken
//! for one of which nothing else is known. One of the program itself may be a string function as
//! well, or a loop over its own data.

mod arguments;

use crate::layout::elf_file;
use crate::{Image, is_runtime};
use iced_x86::{Mnemonic, OpKind};
use object::elf;
use object::{Object, ObjectSymbol};
use redhanded_model::{Register, Svma};
use std::collections::HashMap;

/// One string that a function reads from one end on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text {
    /// The argument that points to it.
    pub string: usize,
    /// How many bytes a character has.
    pub unit: u64,
    /// The argument with the most characters to read.
    pub count: Option<usize>,
    /// Whether it is read from its last character on, which the count tells.
    pub backwards: bool,
    /// Whether a zero ends it.
    pub zero: bool,
    /// What else ends it.
    pub stop: Stop,
}

/// What ends a string besides its zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing.
    Nothing,
    /// The character in this argument.
    Byte(usize),
    /// A byte that is in the string of this argument.
    OneOf(usize),
    /// A byte that is not.
    NoneOf(usize),
    /// The string of this argument.
    Occurrence {
        /// The argument.
        of: usize,
        /// The argument with its length, if it does not end with a zero.
        count: Option<usize>,
        /// Whether capitals are the same as other letters.
        any_case: bool,
    },
    /// A difference from the string that this argument points to.
    Difference(usize),
}

/// What is known of a function that may read past its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StringFunction {
    /// The strings that it reads; empty if that is not known.
    pub texts: &'static [Text],
    /// The narrowest read that may go too far.
    pub narrowest: u64,
    /// The registers that hold its arguments now.
    pub arguments: [Option<Register>; 4],
}

/// The functions that resolvers can return, by where they start.
#[derive(Debug, Default)]
pub(crate) struct Variants(HashMap<u64, Variant>);

#[derive(Debug)]
struct Variant {
    /// The name of the function that it is a variant of.
    name: String,
    /// What it reads; `None` if that is no more than it was asked for.
    texts: Option<&'static [Text]>,
}

const fn text(string: usize) -> Text {
    Text {
        string,
        unit: 1,
        count: None,
        backwards: false,
        zero: true,
        stop: Stop::Nothing,
    }
}

const fn counted(string: usize, count: usize) -> Text {
    Text {
        count: Some(count),
        ..text(string)
    }
}

const fn searched(string: usize) -> Text {
    Text {
        stop: Stop::Byte(1),
        ..text(string)
    }
}

/// The same of wide characters.
const fn wide(text: Text) -> Text {
    Text { unit: WIDE, ..text }
}

/// A string that is read up to where another one is in it.
const fn containing(any_case: bool) -> Text {
    Text {
        stop: Stop::Occurrence {
            of: 1,
            count: None,
            any_case,
        },
        ..text(0)
    }
}

/// What counts its bytes alone.
const fn bytes(text: Text) -> Text {
    Text {
        zero: false,
        ..text
    }
}

const fn differing(text: Text, from: usize) -> Text {
    Text {
        stop: Stop::Difference(from),
        ..text
    }
}

const COMPARED: &[Text] = &[differing(text(0), 1), differing(text(1), 0)];

const COMPARED_AND_COUNTED: &[Text] = &[differing(counted(0, 2), 1), differing(counted(1, 2), 0)];

/// What lies behind a difference changes nothing. Compilers make such a call of several compares,
/// of which the source makes none behind the first that fails.
const COUNTED_PAIR: &[Text] = &[
    differing(bytes(counted(0, 2)), 1),
    differing(bytes(counted(1, 2)), 0),
];

/// The size of `wchar_t`.
const WIDE: u64 = 4;

/// The first of several bytes is looked for.
const SOUGHT: &[Text] = &[
    Text {
        stop: Stop::OneOf(1),
        ..text(0)
    },
    text(1),
];

const UNKNOWN: &[Text] = &[];

/// What each function reads: up to where the C standard says that it looks. Only names that a
/// program may not use for functions of its own are here; so `index` is not.
const FUNCTIONS: &[(&str, &[Text])] = &[
    ("strlen", &[text(0)]),
    ("strnlen", &[counted(0, 1)]),
    ("strcpy", &[text(1)]),
    ("stpcpy", &[text(1)]),
    ("strlcpy", &[text(1)]),
    ("strncpy", &[counted(1, 2)]),
    ("stpncpy", &[counted(1, 2)]),
    ("strscpy", &[counted(1, 2)]),
    ("sized_strscpy", &[counted(1, 2)]),
    ("strcat", &[text(0), text(1)]),
    ("strncat", &[text(0), counted(1, 2)]),
    ("strcmp", COMPARED),
    ("strcasecmp", COMPARED),
    ("strncmp", COMPARED_AND_COUNTED),
    ("strncasecmp", COMPARED_AND_COUNTED),
    ("strchr", &[searched(0)]),
    ("strchrnul", &[searched(0)]),
    ("strrchr", &[text(0)]),
    (
        "memchr",
        &[Text {
            zero: false,
            count: Some(2),
            ..searched(0)
        }],
    ),
    (
        "rawmemchr",
        &[Text {
            zero: false,
            ..searched(0)
        }],
    ),
    ("memcmp", COUNTED_PAIR),
    ("memcmpeq", COUNTED_PAIR),
    ("bcmp", COUNTED_PAIR),
    (
        "memrchr",
        &[Text {
            backwards: true,
            count: Some(2),
            ..bytes(searched(0))
        }],
    ),
    (
        "memccpy",
        &[Text {
            stop: Stop::Byte(2),
            ..bytes(counted(1, 3))
        }],
    ),
    (
        "memmem",
        &[
            Text {
                stop: Stop::Occurrence {
                    of: 2,
                    count: Some(3),
                    any_case: false,
                },
                ..bytes(counted(0, 1))
            },
            bytes(counted(2, 3)),
        ],
    ),
    ("strstr", &[containing(false), text(1)]),
    ("strcasestr", &[containing(true), text(1)]),
    (
        "strspn",
        &[
            Text {
                stop: Stop::NoneOf(1),
                ..text(0)
            },
            text(1),
        ],
    ),
    ("strcspn", SOUGHT),
    ("strpbrk", SOUGHT),
    ("strlcat", &[counted(0, 2), text(1)]),
    ("wcslen", &[wide(text(0))]),
    ("wcsnlen", &[wide(counted(0, 1))]),
    ("wcschr", &[wide(searched(0))]),
    ("wcsrchr", &[wide(text(0))]),
    (
        "wcscmp",
        &[wide(differing(text(0), 1)), wide(differing(text(1), 0))],
    ),
    (
        "wcsncmp",
        &[
            wide(differing(counted(0, 2), 1)),
            wide(differing(counted(1, 2), 0)),
        ],
    ),
    (
        "wmemchr",
        &[wide(Text {
            count: Some(2),
            ..bytes(searched(0))
        })],
    ),
    (
        "wmemcmp",
        &[
            wide(differing(bytes(counted(0, 2)), 1)),
            wide(differing(bytes(counted(1, 2)), 0)),
        ],
    ),
];

/// What follows a function's name in the names of its variants: `__strlen_avx2_rtm`,
/// `__strcasecmp_l_evex`, `__strcpy_chk`.
const VARIANTS: &[&str] = &[
    "sse2", "sse3", "ssse3", "sse4", "sse42", "sse4_1", "sse4_2", "avx", "avx2", "avx512", "evex",
    "evex256", "evex512", "generic", "chk", "l", "c", "asm", "ifunc",
];

/// What the function with this name reads, if it may read past its data.
fn by_name(name: &str) -> Option<&'static [Text]> {
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let name = name.trim_start_matches('_');
    FUNCTIONS
        .iter()
        .find(|(known, _)| {
            name.strip_prefix(known).is_some_and(|rest| {
                rest.is_empty()
                    || rest.strip_prefix('_').is_some_and(|rest| {
                        let first = rest.split('_').next().unwrap_or(rest);
                        VARIANTS.contains(&first)
                    })
            })
        })
        .map(|(_, texts)| *texts)
}

impl Image {
    /// What is known of the function at `svma` if it may read past its data. With `ran` its
    /// arguments are where they are after the instruction at `svma`, and else before it.
    #[must_use]
    pub fn string_function(&self, svma: Svma, ran: bool) -> Option<StringFunction> {
        let function = self.function_at(svma)?;
        let named = match &function.name {
            Some(name) => Some(by_name(name)),
            None => self
                .variants()
                .0
                .get(&function.start.0)
                .map(|variant| variant.texts),
        };
        if let Some(texts) = named {
            let texts = texts?;
            let arguments = if texts.is_empty() {
                [None; 4]
            } else {
                arguments::registers(self, function, svma, ran)
            };
            return Some(StringFunction {
                texts,
                narrowest: 2,
                arguments,
            });
        }
        // What a program's own function looks like is no proof.
        if !is_runtime(self.path()) {
            return None;
        }
        let narrowest = self.narrowest_searched(function)?;
        Some(StringFunction {
            texts: UNKNOWN,
            narrowest,
            arguments: [None; 4],
        })
    }

    /// The narrowest read of the program's nameless function at `svma` that may go past its data,
    /// if the function looks like a search: it may be a string function that was linked into the
    /// program, or one that it has instead.
    #[must_use]
    pub fn may_search(&self, svma: Svma) -> Option<u64> {
        let function = self.function_at(svma)?;
        let nameless =
            function.name.is_none() && !self.variants().0.contains_key(&function.start.0);
        if !nameless || is_runtime(self.path()) {
            return None;
        }
        self.narrowest_searched(function)
    }

    /// The name of the library function that the nameless function at `svma` is a variant of, for
    /// some processors.
    #[must_use]
    pub fn variant_of(&self, svma: Svma) -> Option<&str> {
        let function = self.function_at(svma)?;
        if function.name.is_some() {
            return None;
        }
        let variant = self.variants().0.get(&function.start.0)?;
        Some(&variant.name)
    }

    fn variants(&self) -> &Variants {
        self.code.variants.get_or_init(|| Variants::of(self))
    }

    /// The narrowest read of a function without a name that looks for a byte in whole words
    /// (2) or vectors (9); `None` if it does not.
    fn narrowest_searched(&self, function: &crate::Function) -> Option<u64> {
        let mut narrowest = None;
        for raw in self.instructions(function) {
            if tests_bytes_of_a_word(&raw) {
                return Some(2);
            }
            if compares_elements(raw.mnemonic()) {
                narrowest = Some(9);
            }
        }
        narrowest
    }
}

/// Whether it loads one of the numbers that find a zero byte in a word.
fn tests_bytes_of_a_word(raw: &iced_x86::Instruction) -> bool {
    (0..raw.op_count()).any(|i| {
        raw.op_kind(i) == OpKind::Immediate64
            && matches!(
                raw.immediate(i),
                0x0101_0101_0101_0101
                    | 0xfefe_fefe_fefe_fefe
                    | 0xfefe_fefe_fefe_feff
                    | 0x8080_8080_8080_8080
                    | 0x7f7f_7f7f_7f7f_7f7f
            )
    })
}

/// Whether it looks for elements in a vector.
fn compares_elements(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Pcmpeqb
            | M::Pcmpeqd
            | M::Vpcmpeqb
            | M::Vpcmpeqd
            | M::Vpcmpb
            | M::Vpcmpub
            | M::Vpcmpd
            | M::Vpcmpud
            | M::Vptestnmb
            | M::Vptestnmd
            | M::Vpminub
            | M::Vpminud
            | M::Pminub
            | M::Pcmpistri
            | M::Pcmpistrm
            | M::Vpcmpistri
    )
}

impl Variants {
    /// The functions that the resolvers of string functions can return.
    fn of(image: &Image) -> Self {
        let mut variants = Self::default();
        let Some(file) = elf_file(image) else {
            return variants;
        };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.elf_symbol().st_type() != elf::STT_GNU_IFUNC {
                continue;
            }
            let name = symbol.name().unwrap_or_default();
            let name = name.split('@').next().unwrap_or(name);
            if let Some(resolver) = image.function_at(Svma(symbol.address())) {
                let texts = by_name(name);
                for raw in image.instructions(resolver) {
                    if raw.mnemonic() == Mnemonic::Lea && raw.is_ip_rel_memory_operand() {
                        variants.add(raw.memory_displacement64(), name, texts);
                    }
                }
            }
        }
        variants
    }

    /// One function may serve two names (`strchr`, `index`). If it is known what both read, and
    /// it is not the same, nothing is known but that it may read too much.
    fn add(&mut self, start: u64, name: &str, texts: Option<&'static [Text]>) {
        let known = self.0.entry(start).or_insert_with(|| Variant {
            name: name.to_owned(),
            texts,
        });
        match (known.texts, texts) {
            (Some(one), Some(other)) if one != other => known.texts = Some(UNKNOWN),
            (None, Some(_)) => known.texts = texts,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_name_and_so_are_their_variants() {
        for name in [
            "strlen",
            "__strlen_avx2",
            "__strlen_evex512",
            "__strlen_sse2",
            "__GI_strlen",
            "__strlen_avx2_rtm",
        ] {
            assert_eq!(by_name(name), Some(&[text(0)][..]), "{name}");
        }
        assert_eq!(by_name("__strncasecmp_l_avx2"), Some(COMPARED_AND_COUNTED));
        assert_eq!(by_name("__strcpy_chk"), Some(&[text(1)][..]));
        assert_eq!(by_name("__memcmp_avx2_movbe"), Some(COUNTED_PAIR));
        for name in [
            "memcpy",
            "__memmove_avx_unaligned_erms",
            "strlen_of_all",
            "strlength",
            "index",
            "main",
            "_ZN3foo6strlenEv",
        ] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }
}
