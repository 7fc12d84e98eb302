//! What `redhanded sites` reports about a file.

use redhanded_model::{Exclusions, rounded};
use serde::{Serialize, Serializer};

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
    #[serde(serialize_with = "most_sites_first")]
    pub by_function: Vec<FunctionSites>,
    /// How long it took, in seconds.
    #[serde(serialize_with = "to_the_microsecond")]
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

/// The functions with most sites first, then by name.
pub(crate) fn sorted(functions: &[FunctionSites]) -> Vec<&FunctionSites> {
    let mut functions: Vec<_> = functions.iter().collect();
    functions.sort_by(|a, b| b.sites.cmp(&a.sites).then_with(|| a.name.cmp(&b.name)));
    functions
}

fn most_sites_first<S: Serializer>(functions: &[FunctionSites], out: S) -> Result<S::Ok, S::Error> {
    sorted(functions).serialize(out)
}

fn to_the_microsecond<S: Serializer>(seconds: &f64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(rounded(*seconds))
}
