//! The types (BTF) in a file, read on first use.

use super::Btf;
use crate::file_bytes::FileBytes;
use object::Object;
use std::sync::{Arc, OnceLock};

/// The section that makes a file a module.
pub const THIS_MODULE: &str = ".gnu.linkonce.this_module";

/// The types in a kernel or module.
pub struct CarriedTypes {
    file: Arc<FileBytes>,
    /// For a module: the types of its kernel, which its own continue.
    base: OnceLock<Arc<Self>>,
    parsed: OnceLock<Option<Arc<Btf>>>,
}

impl CarriedTypes {
    pub fn of(file: Arc<FileBytes>) -> Self {
        Self {
            file,
            base: OnceLock::new(),
            parsed: OnceLock::new(),
        }
    }

    pub fn go_on_from(&self, kernel: &Arc<Self>) {
        // A module that has one keeps it.
        let _ = self.base.set(Arc::clone(kernel));
    }

    /// `None` if there are none, or if those of the kernel are missing.
    pub fn get(&self) -> Option<Arc<Btf>> {
        self.parsed.get_or_init(|| self.parse()).clone()
    }

    fn parse(&self) -> Option<Arc<Btf>> {
        let file = object::File::parse(&**self.file).ok()?;
        let section = file.section_by_name(".BTF")?;
        let base = match file.section_by_name(THIS_MODULE) {
            Some(_) => Some(self.base.get()?.get()?),
            None => None,
        };
        let types = Btf::parse(&self.file.section(&section)?, base);
        types.ok().map(Arc::new)
    }
}
