//! From the user's globs to the sites that are drawn from.

use crate::arguments::Select;
use crate::debuginfod;
use crate::exit::Failure;
use crate::observe::Display;
use log::{debug, info};
use redhanded_image::{DebugSearch, Image, Selected, Selection, SiteCache, SourceFacts};
use redhanded_model::{AccessKind, Candidate, Marking, Sighting, Spot, Svma, excluded};
use redhanded_session::{About, Answer, Asker, Fact, ImageFile, Question};
use redhanded_sys::user_cache;
use redhanded_target::images::Images;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Up to this number, sites whose source calls them atomic are left out. In larger programs,
/// looking at all of them would take longer than sampling some in vain.
const MOST_ASKED: usize = 20_000;

/// How many addresses the namer is asked about at once where there may be a million.
const ASKED_AT_ONCE: usize = 20_000;

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
    let mut search = DebugSearch {
        sources,
        ..DebugSearch::default()
    };
    search.roots.extend(debuginfod::root());
    Ok(search)
}

/// The cache of sites from earlier runs. It only saves time: without it, files are indexed
/// again.
pub fn cache() -> Option<SiteCache> {
    SiteCache::open(&user_cache("index")?).ok()
}

/// How sites are to be selected.
pub struct Selecting {
    selection: Selection,
    /// Where to search for debug information and sources.
    pub search: DebugSearch,
    /// Why a module is not sampled.
    left_out: &'static str,
    /// Why nothing of a module is.
    nothing_left: &'static str,
    display: Arc<Display>,
}

impl Selecting {
    /// By the user's globs.
    pub fn new(arguments: &Select, display: &Arc<Display>) -> Result<Self, Failure> {
        Ok(Self {
            selection: selection(arguments)?,
            search: search(arguments)?,
            left_out: if arguments.module.is_empty() {
                "runtime library, not sampled unless --module names it"
            } else {
                "not selected by --module"
            },
            nothing_left: "has no sites that may be sampled",
            display: Arc::clone(display),
        })
    }

    /// Narrows it to the code that these candidates name.
    pub fn suspect(&mut self, candidates: &[Candidate]) {
        self.selection = std::mem::take(&mut self.selection).suspecting(candidates);
        self.nothing_left = "has no code that is suspected";
    }

    /// The options whose globs matched nothing that was loaded so far.
    pub fn unmatched(&self) -> Vec<String> {
        self.selection.unmatched()
    }

    /// A store of images, whose sites are selected so. What the source says is asked of the
    /// namer.
    pub fn images(&self, namer: &Arc<Mutex<Asker>>) -> Arc<Images> {
        let (selection, left_out) = (self.selection.clone(), self.left_out);
        let nothing_left = self.nothing_left;
        let (display, namer) = (Arc::clone(&self.display), Arc::clone(namer));
        let cache = cache();
        Arc::new(Images::new(self.search.clone(), move |image| {
            if !selection.takes_module(image) {
                debug!("{}: {left_out}", image.path().display());
                return Selected {
                    why_none: Some(left_out.to_owned()),
                    ..Selected::default()
                };
            }
            display.index(image, cache.as_ref());
            let mut namer = namer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut selected = sites(&selection, image, &mut namer);
            info!(
                "{}: {} sites, debug information {}",
                image.path().display(),
                selected.sites.len(),
                if image.debug().available() {
                    "found"
                } else {
                    "not found"
                },
            );
            if selected.sites.is_empty() {
                selected.why_none = Some(nothing_left.to_owned());
            }
            selected
        }))
    }
}

/// The selected sites of an image, without those that its source calls atomic.
pub fn sites(selection: &Selection, image: &Image, namer: &mut Asker) -> Selected {
    let source = RefCell::new(Source::new(image, namer));
    let fact = |about, svma| source.borrow_mut().of_function(about, svma);
    let mut selected = selection.select(
        image,
        &SourceFacts {
            has_debug_info: &|svma| fact(About::Covered, svma).covered,
            is_toolchain: &|svma| fact(About::Toolchain, svma).toolchain,
            file: &|svma| fact(About::Function, svma).file,
            sightings: &|spots, at| source.borrow_mut().sightings(spots, &at),
        },
    );
    if image.debug().available() && selected.sites.len() <= MOST_ASKED {
        let at = selected.sites.iter().map(|site| site.svma).collect();
        let facts = source.into_inner().facts(About::Marking, at);
        let mut facts = facts.iter();
        let copies = image.has_memory_functions();
        let mut sites = Vec::with_capacity(selected.sites.len());
        for site in selected.sites.iter() {
            let reason = facts.next().and_then(|fact| {
                let marking = fact.marking.as_ref()?;
                // It takes a look at the code around the site to tell an update.
                let is_update = matches!(marking, Marking::Volatile { .. })
                    && (site.kind == AccessKind::Update || image.half_of_update(site.svma));
                // Compilers make no call to copy or clear a single number.
                excluded(marking, is_update, copies && !fact.whole)
            });
            match reason {
                Some(reason) => selected.excluded.add(reason),
                None => sites.push(*site),
            }
        }
        selected.sites = Arc::new(sites);
    }
    selected
}

/// What the source of an image says, as the namer reads it. If the namer is lost, it says
/// nothing.
pub struct Source<'a> {
    image: &'a Image,
    namer: &'a mut Asker,
    file: OnceCell<ImageFile>,
    /// What is known of all functions, by what was asked.
    functions: HashMap<About, HashMap<Svma, Fact>>,
}

impl<'a> Source<'a> {
    /// The source of `image`, asked of `namer`.
    pub fn new(image: &'a Image, namer: &'a mut Asker) -> Self {
        Self {
            image,
            namer,
            file: OnceCell::new(),
            functions: HashMap::new(),
        }
    }

    /// What is known of the function that begins at `start`. All functions are asked about at
    /// once, because each question is a round trip.
    pub fn of_function(&mut self, about: About, start: Svma) -> Fact {
        if !self.functions.contains_key(&about) {
            let functions = self.image.functions().as_slice().iter();
            let at: Vec<Svma> = functions.map(|function| function.start).collect();
            let facts = self.facts(about, at.clone());
            let known = at.into_iter().zip(facts).collect();
            self.functions.insert(about, known);
        }
        let known = self.functions.get(&about);
        known
            .and_then(|known| known.get(&start).cloned())
            .unwrap_or_default()
    }

    /// Which of these addresses fit one of these places; none if the namer is lost. A large
    /// program has so many that they are asked about in parts.
    fn sightings(&mut self, spots: &[Spot], at: &[Svma]) -> Vec<Sighting> {
        let file = self.file.get_or_init(|| ImageFile::of(self.image)).clone();
        let mut sightings = Vec::new();
        for part in at.chunks(ASKED_AT_ONCE) {
            let question = Question::Sightings {
                file: file.clone(),
                spots: spots.to_vec(),
                at: part.to_vec(),
            };
            match self.namer.ask(&question, redhanded_sys::beat) {
                Some(Answer::Sightings(some)) => sightings.extend(some),
                _ => break,
            }
        }
        sightings
    }

    /// What is known of these addresses; nothing if the namer is lost.
    fn facts(&mut self, about: About, at: Vec<Svma>) -> Vec<Fact> {
        let file = self.file.get_or_init(|| ImageFile::of(self.image)).clone();
        match self
            .namer
            .ask(&Question::Facts { file, about, at }, redhanded_sys::beat)
        {
            Some(Answer::Facts(facts)) => facts,
            _ => Vec::new(),
        }
    }
}
