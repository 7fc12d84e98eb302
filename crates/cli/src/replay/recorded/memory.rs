//! What a thread finds in memory where nothing was logged: its code.

use redhanded_recording::Code;
use redhanded_replay::{Bytes, Fetched, Memory, PAGE, Page};

/// A breakpoint. Where no code was recorded, none can run; and what a thread reads was logged.
const NOTHING: u8 = 0xcc;

/// No instruction is longer.
const LONGEST: u64 = 15;

/// The code of a process.
pub struct CodeMemory<'a>(pub &'a Code);

impl Memory for CodeMemory<'_> {
    fn fetch(&mut self, page: u64) -> Fetched {
        let mut bytes = Box::new(Bytes([NOTHING; PAGE as usize]));
        let within = page.saturating_sub(LONGEST)..page.saturating_add(PAGE);
        for (address, instruction) in self.0.range(within) {
            if instruction.changed {
                continue;
            }
            for (at, byte) in (address..).zip(instruction.bytes()) {
                let offset = at.wrapping_sub(page);
                if let Some(place) = bytes.0.get_mut(offset as usize) {
                    *place = *byte;
                }
            }
        }
        Fetched::Page(Page {
            bytes,
            writable: true,
            executable: true,
        })
    }
}
