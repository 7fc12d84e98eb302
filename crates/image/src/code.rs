//! What is known about an image's code; each part is computed on first use.

use crate::frames::Frames;
use crate::functions::Functions;
use crate::kernel_text::KernelText;
use crate::layout::Layout;
use crate::plt::Linkage;
use crate::sites::SamplingSet;
use crate::string_functions::Variants;
use crate::unwind::Orc;
use crate::usage::Writers;
use std::sync::{Arc, OnceLock};

/// The parts of an [`Image`](crate::Image) that are computed on first use.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub layout: OnceLock<Layout>,
    pub frames: OnceLock<Frames>,
    pub functions: OnceLock<Functions>,
    pub linkage: OnceLock<Linkage>,
    pub variants: OnceLock<Variants>,
    pub sites: OnceLock<SamplingSet>,
    pub kernel: OnceLock<Option<KernelText>>,
    pub orc: OnceLock<Option<Arc<Orc>>>,
    /// The instructions that write to a fixed address, and the calls of each function.
    pub writers: OnceLock<Writers>,
}
