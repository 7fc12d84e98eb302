//! Fuzzes one parser of foreign bytes, named by `REDHANDED_FUZZ_TARGET`, guided by what
//! the inputs reach. The engine is libFuzzer. `cargo xtask fuzz` builds this with
//! coverage, makes the seeds and runs all targets: see `docs/fuzzing.md`.
#![no_main]

mod guest;
mod kernel;
mod mutation;
mod protocol;
mod questions;
mod replays;
mod servants;
mod settings;
mod targets;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(init: targets::chosen().prepare(), |bytes: &[u8]| targets::chosen().run(bytes));

// Half of the mutants of an ELF file are damaged where its parsers look, which a blind
// engine finds rarely in so many bytes.
fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
    let mut random = mutation::Random::new(seed.into());
    if targets::chosen().takes_elf() && random.below(2) == 0 {
        if let Some(bytes) = bytes.get_mut(..size) {
            mutation::damage(bytes, &mut random);
        }
        size
    } else {
        fuzzer_mutate(bytes, size, most)
    }
});
