//! What a viewer says of each kind of finding.

use redhanded_model::{Class, Race};

/// A kind of finding: its name, what it says in short, in full and with what to do, and how
/// serious it is.
pub(super) struct RuleText {
    pub(super) id: &'static str,
    pub(super) short: &'static str,
    pub(super) full: &'static str,
    /// What to do, as Markdown whose marks may stay where it is shown as text.
    pub(super) help: &'static str,
    pub(super) level: &'static str,
}

/// All of them. Results name them by their place here, so new ones come last.
pub(super) const RULES: [RuleText; 4] = [
    RuleText {
        id: "data-race",
        short: "Two threads accessed the same memory at the same time, at least one of them to write, \
                and at least one of the accesses was not atomic.",
        full: "One thread was stopped just before it accessed these bytes, and another thread accessed \
               them meanwhile: nothing ordered the two. At least one of the accesses writes, and at \
               least one is a plain access. The two could just as well have happened in the other \
               order, or at once.",
        help: "Both threads' stacks are the code flows of the result. Which thread came first is \
               chance.\n\n\
               - Look for the lock that should be held at both places, and is not at one of them.\n\
               - Where no lock is meant, make both accesses atomic: relaxed for counters, release \
               and acquire where one announces other data.\n\
               - Or give each thread data of its own.\n\n\
               `redhanded run --function NAME` samples the functions of the two sides only, to see \
               whether a change has helped.",
        level: "error",
    },
    RuleText {
        id: "possibly-atomic",
        short: "Two threads accessed the same memory at the same time. Nothing shows that one of the \
                accesses is not atomic in the source.",
        full: "Two threads accessed these bytes and nothing ordered them. Both accesses are plain \
               moves in the machine's code, and relaxed atomic accesses in the source may compile to \
               the same. Neither debug information nor source tells which it is.",
        help: "- Look at the two lines. `std::atomic`, `_Atomic`, `AtomicU32`, `volatile` or \
               `READ_ONCE` on both sides means that it is not a race.\n\
               - Build with `-g`, or install the separate debug file, and have the source where the \
               debug information says it is: then Redhanded can tell.",
        level: "note",
    },
    RuleText {
        id: "special-variable",
        short: "Two threads accessed a variable that is accessed without a lock on purpose.",
        full: "Two threads accessed these bytes and nothing ordered them. The variable is one that the \
               kernel accesses without a lock by design.",
        help: "Nothing needs to be done. The message says which variable it is.",
        level: "note",
    },
    RuleText {
        id: "freed-while-it-stood",
        short: "A thread was about to access a block of memory when another thread gave it back.",
        full: "One thread was stopped just before it accessed a block, and meanwhile an allocator freed \
               or moved the block for another thread, or the memory was unmapped: a use after free, \
               whatever the access looks like. In a recording, nothing orders the access with the call that \
               gives the block back.",
        help: "The result's other location is where the block was given back.\n\n\
               - Keep the block alive as long as anybody may use it: count its users, or free it \
               under the lock that they hold.\n\
               - Or end the threads that use it first.",
        level: "error",
    },
];

/// The rule of a race, by its place in [`RULES`].
pub(super) fn rule_of(race: &Race) -> usize {
    match race.class {
        Class::PossiblyAtomic => 1,
        Class::Special => 2,
        _ if race.is_freed() => 3,
        _ => 0,
    }
}
