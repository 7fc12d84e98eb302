//! What `redhanded sites` has to say about a file.

use redhanded_model::Exclusions;
use serde::Serialize;

/// The sampling set of one file, counted.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SitesReport {
    /// The file, as it was named.
    pub file: String,
    /// Bytes of code looked at.
    pub text_bytes: u64,
    /// Functions found.
    pub functions: u64,
    /// Sites found.
    pub sites: u64,
    /// What was left out, by reason.
    pub excluded: Exclusions,
    /// The same by function, in any order.
    pub by_function: Vec<FunctionSites>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// The sites of one function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FunctionSites {
    /// Its demangled name.
    pub name: String,
    /// Its source file, where it is known.
    pub file: Option<String>,
    /// Sites in it.
    pub sites: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that write.
    pub writes: u64,
    /// Those that do both in one instruction.
    pub updates: u64,
    /// Instructions with a memory operand that were left out.
    pub excluded: u64,
}

impl SitesReport {
    /// The functions with sites, most sites first, then by name.
    pub(crate) fn sorted(&self) -> Vec<&FunctionSites> {
        let mut functions: Vec<_> = self.by_function.iter().collect();
        functions.sort_by(|a, b| b.sites.cmp(&a.sites).then_with(|| a.name.cmp(&b.name)));
        functions
    }
}
