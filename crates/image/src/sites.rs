//! The sampling set of an image: every instruction that may be sampled, and how many other
//! memory accesses were left out for which reason.

mod cache;
mod encoding;
mod scan;
mod slots;
mod text;

pub use cache::SiteCache;
pub use encoding::decode_forged_sites;

use crate::{Image, parallel};
use redhanded_model::{Excluded, Exclusions, Site, Svma};
use scan::{Scanned, Scanner};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All sites of an image.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct SamplingSet {
    /// Sorted by address, and shared with a selection that takes all of them.
    pub sites: Arc<Vec<Site>>,
    /// What was left out, by reason.
    pub excluded: Exclusions,
    excluded_in: Vec<u32>,
}

impl SamplingSet {
    /// The sites of the function with this number.
    #[must_use]
    pub fn of_function(&self, function: u32) -> &[Site] {
        // Functions are numbered by address, so sites are sorted by both.
        let start = self.sites.partition_point(|s| s.function < function);
        let rest = self.sites.get(start..).unwrap_or_default();
        let len = rest.partition_point(|s| s.function == function);
        rest.get(..len).unwrap_or_default()
    }

    /// How many instructions of the function with this number were left out.
    #[must_use]
    pub fn excluded_in(&self, function: u32) -> u32 {
        usize::try_from(function)
            .ok()
            .and_then(|index| self.excluded_in.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// The site at `svma`.
    #[must_use]
    pub fn at(&self, svma: Svma) -> Option<&Site> {
        let index = self.sites.binary_search_by_key(&svma, |s| s.svma).ok()?;
        self.sites.get(index)
    }
}

/// Bytes of text that one task decodes: enough to be worth a task, few enough to spread the
/// work evenly and to report progress.
const CHUNK: u64 = 128 << 10;

impl Image {
    /// The sampling set, computed on all cores on first use.
    #[must_use]
    pub fn sites(&self) -> &SamplingSet {
        self.index(None, &|_, _| {})
    }

    /// Like [`sites`](Self::sites), but loaded from `cache` if it is there, and stored in it
    /// otherwise. `progress` receives the bytes of text that are done and their total. It is
    /// called from several threads, and not at all if nothing has to be decoded.
    pub fn index(
        &self,
        cache: Option<&SiteCache>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> &SamplingSet {
        self.code.sites.get_or_init(|| {
            if let Some(set) = cache.and_then(|cache| cache.load(self)) {
                return set;
            }
            let set = build(self, progress);
            if let Some(cache) = cache {
                cache.store(self, &set);
            }
            set
        })
    }
}

fn build(image: &Image, progress: &(dyn Fn(u64, u64) + Sync)) -> SamplingSet {
    let functions = image.functions().as_slice();
    let size = |index: usize| functions.get(index).map_or(0, |f| f.end.0 - f.start.0);
    let total: u64 = (0..functions.len()).map(size).sum();
    let done = AtomicU64::new(0);
    let chunks: Vec<Scanned> = parallel::map(chunks(functions.len(), size), |range| {
        let bytes: u64 = range.clone().map(size).sum();
        let scanned = Scanner::new(image).scan(range);
        let before = done.fetch_add(bytes, Ordering::Relaxed);
        progress(before + bytes, total);
        scanned
    });
    let mut set = merge(image, chunks);
    set.excluded
        .add_many(Excluded::Plt, scan::count_stub_accesses(image));
    set
}

/// Splits the functions into ranges of about [`CHUNK`] bytes each.
fn chunks(count: usize, size: impl Fn(usize) -> u64) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0u64);
    for index in 0..count {
        bytes = bytes.saturating_add(size(index));
        if bytes >= CHUNK || index + 1 == count {
            chunks.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    chunks
}

/// Joins the chunks, and drops functions that another instruction of the module treats as
/// data.
fn merge(image: &Image, chunks: Vec<Scanned>) -> SamplingSet {
    let functions = image.functions();
    let kernel = image.is_kernel();
    let mut is_data = vec![false; functions.as_slice().len()];
    for (referred, whole) in chunks.iter().flat_map(|chunk| &chunk.references) {
        // A reference to a function's start is a function pointer. A read from it, or
        // a pointer into its middle, means data; but kernels also point into functions
        // to record code positions.
        if (*whole || !kernel)
            && let Some(index) = functions.index_at(Svma(*referred))
            && let Some(function) = functions.as_slice().get(index)
            && (*whole || function.start.0 != *referred)
            && let Some(flag) = is_data.get_mut(index)
        {
            *flag = true;
        }
    }
    let mut set = SamplingSet::default();
    let mut sites = Vec::with_capacity(chunks.iter().map(|chunk| chunk.sites.len()).sum());
    set.excluded_in.reserve_exact(is_data.len());
    for chunk in chunks {
        set.excluded.merge(&chunk.excluded);
        set.excluded_in.extend(chunk.excluded_in);
        for site in chunk.sites {
            let function = site.function as usize;
            if is_data.get(function) == Some(&false) {
                sites.push(site);
            } else {
                set.excluded.add(Excluded::DataInText);
                if let Some(count) = set.excluded_in.get_mut(function) {
                    *count += 1;
                }
            }
        }
    }
    set.sites = Arc::new(sites);
    set
}
