//! The files mapped into a target.

use redhanded_image::Image;
use redhanded_model::{Avma, ModuleId, SpaceId, Svma};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// The name of the kernel itself among its modules.
pub const VMLINUX: &str = "vmlinux";

/// One file mapped into the target. A session log keeps where it is; the reader
/// attaches the image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Module {
    /// Its number.
    pub id: ModuleId,
    /// The space it is mapped in.
    pub space: SpaceId,
    /// The name of its file.
    pub name: String,
    /// What an [`Svma`] of the file needs added to be an [`Avma`], wrapping.
    pub bias: u64,
    /// The addresses it spans.
    pub range: Range<u64>,
    /// Its file; a module of a scripted target has none.
    #[serde(skip)]
    pub image: Option<Arc<Image>>,
}

impl Module {
    /// Whether `avma` is in one of its file's segments.
    #[must_use]
    pub fn has_segment(&self, avma: Avma) -> bool {
        let segment = |image: &Arc<Image>| image.segment_at(self.svma(avma)).is_some();
        self.contains(avma) && self.image.as_ref().is_some_and(segment)
    }

    /// Whether `avma` is within its range.
    #[must_use]
    pub fn contains(&self, avma: Avma) -> bool {
        self.range.contains(&avma.0)
    }

    /// The address in the file of a live address.
    #[must_use]
    pub const fn svma(&self, avma: Avma) -> Svma {
        Svma(avma.0.wrapping_sub(self.bias))
    }

    /// The live address of an address in the file.
    #[must_use]
    pub const fn avma(&self, svma: Svma) -> Avma {
        Avma(svma.0.wrapping_add(self.bias))
    }
}

/// The module that contains an address. The ranges of two modules may overlap; then
/// the one with a segment there is meant.
#[must_use]
pub fn module_at(modules: &[Arc<Module>], address: Avma) -> Option<&Arc<Module>> {
    let around = || modules.iter().filter(|module| module.contains(address));
    let here = around().find(|module| module.has_segment(address));
    here.or_else(|| around().next())
}
