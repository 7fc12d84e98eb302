//! Hearing of libraries the moment they are mapped.
//!
//! The dynamic linker calls an empty function, `_dl_debug_state`, whenever it
//! has mapped or is about to unmap something; debuggers put a breakpoint there.
//! Ours stays there for good, and is never stepped over: the function is a bare
//! `ret`, which the tracer carries out in its stead.

use redhanded_image::{Flow, Image, Instruction};
use redhanded_model::Svma;

/// Where the notification arrives.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// The `ret` of the function.
    pub ret: u64,
    /// Its first byte.
    pub original: u8,
}

impl Notification {
    /// Finds the function in the dynamic linker's image.
    pub fn find(linker: &Image, bias: u64) -> Option<Self> {
        let mut at = linker.dynamic_symbol("_dl_debug_state")?;
        // Where control-flow protection is on, `endbr64` comes first.
        for _ in 0..2 {
            let bytes = linker.bytes_at(at, 15)?;
            let instruction = Instruction::decode(bytes, at.0)?;
            if instruction.flow() == Flow::Return {
                return Some(Self {
                    ret: at.0.wrapping_add(bias),
                    original: *bytes.first()?,
                });
            }
            at = Svma(instruction.next());
        }
        None
    }
}
