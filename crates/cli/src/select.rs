//! Turns the user's globs into the sites that can be drawn.

use crate::arguments::Select;
use crate::exit::Failure;
use crate::observe::Display;
use redhanded_image::{
    DebugSearch, Image, Selected, Selection, SiteCache, SourceFacts, SourceSync, user_cache,
};
use redhanded_model::{Excluded, Site, Svma};
use redhanded_target::images::Images;
use std::sync::Arc;

/// Up to this number, sites whose source calls them atomic are left out. In larger programs,
/// looking at all of them would take longer than sampling some in vain.
const MOST_ASKED: usize = 20_000;

/// The selection from the command line.
pub fn selection(arguments: &Select) -> Result<Selection, Failure> {
    Selection::new(
        &arguments.module,
        &arguments.file,
        &arguments.function,
        &arguments.weight,
    )
    .map_err(|error| Failure::Usage(error.to_string()))
}

/// Where to search for debug information and sources.
pub fn search(arguments: &Select) -> Result<DebugSearch, Failure> {
    let mut sources = Vec::new();
    for place in &arguments.sources {
        // Absolute, because the folder's name tells which project the sources belong to.
        match place.canonicalize() {
            Ok(folder) if folder.is_dir() => sources.push(folder),
            _ => {
                return Err(Failure::Usage(format!(
                    "there are no sources in {}: it is not a folder",
                    place.display()
                )));
            }
        }
    }
    Ok(DebugSearch {
        sources,
        ..DebugSearch::default()
    })
}

/// The cache of sites from earlier runs. It only saves time: without it, files are indexed
/// again.
pub fn cache() -> Option<SiteCache> {
    SiteCache::open(&user_cache("index")?).ok()
}

/// A store of images, whose sites are selected by the user's globs.
pub fn images(arguments: &Select, display: &Arc<Display>) -> Result<Arc<Images>, Failure> {
    let selection = selection(arguments)?;
    let display = Arc::clone(display);
    let left_out = if arguments.module.is_empty() {
        "runtime library, not sampled unless --module names it"
    } else {
        "not selected by --module"
    };
    let search = search(arguments)?;
    let cache = cache();
    Ok(Arc::new(Images::new(search, move |image| {
        if !selection.takes_module(image) {
            return Selected {
                why_none: Some(left_out.to_owned()),
                ..Selected::default()
            };
        }
        display.index(image, cache.as_ref());
        let mut selected = sites(&selection, image);
        if selected.sites.is_empty() {
            selected.why_none = Some("has no sites that may be sampled".to_owned());
        }
        selected
    })))
}

/// The selected sites of an image, without those that its source calls atomic.
pub fn sites(selection: &Selection, image: &Image) -> Selected {
    let debug = image.debug();
    let facts = SourceFacts {
        has_debug_info: &|svma| debug.covers(svma),
        is_toolchain: &|svma| debug.is_toolchain(svma),
        file: &|svma| debug.frames(svma).pop().and_then(|frame| frame.file),
    };
    let mut selected = selection.select(image, &facts);
    if debug.available() && selected.sites.len() <= MOST_ASKED {
        let is_plain = |site: &&Site| match marked(image, site.svma) {
            Some(reason) => {
                selected.excluded.add(reason);
                false
            }
            None => true,
        };
        selected.sites = Arc::new(selected.sites.iter().filter(is_plain).copied().collect());
    }
    selected
}

/// Why a site is left out because of its source.
fn marked(image: &Image, svma: Svma) -> Option<Excluded> {
    match image.debug().synchronisation(svma) {
        SourceSync::Marked(how) if how.contains("volatile") => Some(Excluded::Volatile),
        SourceSync::Marked(_) => Some(Excluded::Atomic),
        SourceSync::Plain | SourceSync::Unknown => None,
    }
}
