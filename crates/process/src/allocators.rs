//! The functions by which programs get memory and give it back: of the C library, and of those
//! that take its place.

use redhanded_image::{Flow, Image, Instruction};
use redhanded_model::{Register, Registers, Svma};
use std::collections::{BTreeMap, HashMap};

/// What a call of such a function does, by its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Whether the block in the first argument ends with it.
    pub frees: bool,
    /// What it gives, if anything.
    pub gives: Option<Gives>,
}

/// A block that a call gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gives {
    /// The arguments whose product is its size.
    size: (usize, Option<usize>),
    /// The argument that says where its address is stored. The call returns zero then.
    at: Option<usize>,
}

impl Gives {
    /// How many bytes are asked for.
    pub fn size(&self, registers: &Registers) -> u64 {
        let (one, other) = self.size;
        let times = other.map_or(1, |other| argument(registers, other));
        argument(registers, one).saturating_mul(times)
    }

    /// Where the address of the block is stored, if it is not returned.
    pub fn at(&self, registers: &Registers) -> Option<u64> {
        Some(argument(registers, self.at?))
    }
}

/// An argument of a function that has just been called.
pub fn argument(registers: &Registers, at: usize) -> u64 {
    registers.get(Register::ARGUMENTS[at])
}

const FREES: Call = Call {
    frees: true,
    gives: None,
};

/// It may change the size of the block in its first argument, which stays where it is. Nothing is
/// known of the block then.
const RESIZES: Call = FREES;

const fn gives(size: usize) -> Call {
    Call {
        frees: false,
        gives: Some(Gives {
            size: (size, None),
            at: None,
        }),
    }
}

const fn gives_many(one: usize, other: usize) -> Call {
    Call {
        frees: false,
        gives: Some(Gives {
            size: (one, Some(other)),
            at: None,
        }),
    }
}

/// The address is stored where argument `at` says.
const fn gives_at(at: usize, size: usize) -> Call {
    Call {
        frees: false,
        gives: Some(Gives {
            size: (size, None),
            at: Some(at),
        }),
    }
}

/// It may also give the block in its first argument another place.
const fn moves(call: Call) -> Call {
    Call {
        frees: true,
        ..call
    }
}

/// What allocators put in front of the names of the C library.
const PREFIXES: [&str; 6] = ["", "je_", "_rjem_", "mi_", "tc_", "scalable_"];
const FUNCTIONS: [(&str, Call); 13] = [
    ("malloc", gives(0)),
    ("calloc", gives_many(0, 1)),
    ("realloc", moves(gives(1))),
    ("reallocarray", moves(gives_many(1, 2))),
    ("memalign", gives(1)),
    ("aligned_alloc", gives(1)),
    ("posix_memalign", gives_at(0, 2)),
    ("valloc", gives(0)),
    ("pvalloc", gives(0)),
    ("free", FREES),
    ("cfree", FREES),
    ("free_sized", FREES),
    ("free_aligned_sized", FREES),
];
/// What jemalloc, mimalloc and tcmalloc have besides.
const OF_THEIR_OWN: [(&str, Call); 32] = [
    ("mallocx", gives(0)),
    ("rallocx", moves(gives(1))),
    ("xallocx", RESIZES),
    ("dallocx", FREES),
    ("sdallocx", FREES),
    ("je_mallocx", gives(0)),
    ("je_rallocx", moves(gives(1))),
    ("je_xallocx", RESIZES),
    ("je_dallocx", FREES),
    ("je_sdallocx", FREES),
    ("_rjem_mallocx", gives(0)),
    ("_rjem_rallocx", moves(gives(1))),
    ("_rjem_xallocx", RESIZES),
    ("_rjem_dallocx", FREES),
    ("_rjem_sdallocx", FREES),
    ("mi_zalloc", gives(0)),
    ("mi_malloc_small", gives(0)),
    ("mi_zalloc_small", gives(0)),
    ("mi_malloc_aligned", gives(0)),
    ("mi_zalloc_aligned", gives(0)),
    ("mi_realloc_aligned", moves(gives(1))),
    ("mi_rezalloc", moves(gives(1))),
    ("mi_expand", RESIZES),
    ("mi_free_size", FREES),
    ("mi_free_size_aligned", FREES),
    ("mi_free_aligned", FREES),
    ("mi_new", gives(0)),
    ("mi_new_nothrow", gives(0)),
    ("tc_new", gives(0)),
    ("tc_newarray", gives(0)),
    ("tc_delete", FREES),
    ("tc_deletearray", FREES),
];
/// Operators of C++. Those of the standard library call `malloc` and `free`, so they count only
/// where these are, too.
const OPERATORS: [(&str, Call); 20] = [
    ("_Znwm", gives(0)),
    ("_Znam", gives(0)),
    ("_ZnwmRKSt9nothrow_t", gives(0)),
    ("_ZnamRKSt9nothrow_t", gives(0)),
    ("_ZnwmSt11align_val_t", gives(0)),
    ("_ZnamSt11align_val_t", gives(0)),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", gives(0)),
    ("_ZnamSt11align_val_tRKSt9nothrow_t", gives(0)),
    ("_ZdlPv", FREES),
    ("_ZdaPv", FREES),
    ("_ZdlPvm", FREES),
    ("_ZdaPvm", FREES),
    ("_ZdlPvRKSt9nothrow_t", FREES),
    ("_ZdaPvRKSt9nothrow_t", FREES),
    ("_ZdlPvSt11align_val_t", FREES),
    ("_ZdaPvSt11align_val_t", FREES),
    ("_ZdlPvmSt11align_val_t", FREES),
    ("_ZdaPvmSt11align_val_t", FREES),
    ("_ZdlPvSt11align_val_tRKSt9nothrow_t", FREES),
    ("_ZdaPvSt11align_val_tRKSt9nothrow_t", FREES),
];

/// The entries of an image's allocating functions, and where they return.
#[derive(Debug, Default)]
pub struct Entries {
    /// What each does, by its first instruction.
    pub calls: BTreeMap<Svma, Call>,
    /// Where those return that give blocks.
    pub returns: Vec<Svma>,
    /// The functions whose first instruction cannot be carried out.
    pub refused: Vec<String>,
}

impl Entries {
    /// Those of an image.
    pub fn of(image: &Image) -> Self {
        let known = FUNCTIONS
            .iter()
            .flat_map(|(name, call)| PREFIXES.map(|prefix| (format!("{prefix}{name}"), *call)));
        let others = OF_THEIR_OWN.iter().chain(&OPERATORS);
        let others = others.map(|(name, call)| ((*name).to_owned(), *call));
        let known: HashMap<String, Call> = known.chain(others).collect();
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let mut found = image.symbols_named(&names);
        if !found.contains_key("malloc") {
            found.retain(|name, _| !name.starts_with("_Z"));
        }
        let mut entries = Self::default();
        for (name, at) in found {
            let Some(call) = known.get(&name) else {
                continue;
            };
            let is_function = image.function_at(at).is_some_and(|f| f.start == at);
            let first = image.bytes_at(at, 1).and(image.instruction_at(at));
            let Some(first) = first.filter(|_| is_function) else {
                continue;
            };
            if first.can_be_carried_out() {
                entries.calls.insert(at, *call);
            } else if !is_alias(&first) {
                entries.refused.push(name);
            }
        }
        let giving = entries
            .calls
            .iter()
            .filter(|(_, call)| call.gives.is_some());
        let returns = giving.flat_map(|(at, _)| image.returns_of(*at));
        entries.returns = returns
            .filter(|at| {
                let ends = image.instruction_at(*at);
                ends.is_some_and(|instruction| instruction.can_be_carried_out())
            })
            .collect();
        entries.returns.sort_unstable();
        entries.returns.dedup();
        entries
    }
}

/// Whether a function is another one by another name, which is asked for under that.
fn is_alias(first: &Instruction) -> bool {
    matches!(first.flow(), Flow::Jump(_))
}
