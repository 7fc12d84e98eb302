//! The user's globs: which modules, source files and functions are sampled, and with which
//! weights.

mod names;
mod runtime;
mod suspected;

use crate::{Function, Image};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use redhanded_model::{Candidate, Excluded, Exclusions, Sighting, Site, Spot, Svma};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

use runtime::is_go_runtime;
pub use runtime::{is_runtime, is_within_rust_runtime};
pub use suspected::{Spots, Suspected, fit_of_race};

/// Why a selection cannot be used.
#[derive(Debug, Error)]
pub enum SelectionError {
    /// A glob that does not parse.
    #[error("bad glob '{glob}': {why}; use *, ?, [a-z] and {{a,b}}")]
    Glob {
        /// What was written.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// A weight that is not a number from 0 up.
    #[error("bad weight '{text}': write GLOB=NUMBER with a number from 0 up, like 'parse_*=10'")]
    Weight {
        /// What was written.
        text: String,
    },
}

/// A list of globs, some of which exclude.
#[derive(Debug, Clone)]
struct Globs {
    include: Listed,
    exclude: Listed,
}

impl Globs {
    fn new(texts: &[String]) -> Result<Self, SelectionError> {
        let (exclude, include) = texts
            .iter()
            .partition::<Vec<_>, _>(|text| text.starts_with('!'));
        let exclude = exclude.iter().map(|text| &text[1..]);
        Ok(Self {
            include: Listed::new(include.iter().map(|text| text.as_str()))?,
            exclude: Listed::new(exclude)?,
        })
    }

    fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether something with these names is included; `None` if no glob says so.
    fn decide(&self, names: &[String]) -> Option<bool> {
        let included = self.include.matches(names);
        if self.exclude.matches(names) {
            return Some(false);
        }
        (!self.include.is_empty()).then_some(included)
    }
}

/// Globs, and which of them have matched anything.
#[derive(Debug, Clone)]
struct Listed {
    texts: Arc<[String]>,
    /// The forms of each text, one after the other.
    set: GlobSet,
    matched: Arc<[AtomicBool]>,
}

impl Listed {
    /// A file name matches in any folder.
    const FORMS: usize = 2;

    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, SelectionError> {
        let texts: Arc<[String]> = texts.map(str::to_owned).collect();
        let mut set = GlobSetBuilder::new();
        for text in &*texts {
            let forms: [String; Self::FORMS] = [text.clone(), format!("*/{text}")];
            for form in forms {
                let glob = GlobBuilder::new(&form).build();
                set.add(glob.map_err(|error| bad_glob(text, &error))?);
            }
        }
        let set = set.build();
        Ok(Self {
            set: set.map_err(|error| bad_glob(&texts.join(" "), &error))?,
            matched: texts.iter().map(|_| AtomicBool::new(false)).collect(),
            texts,
        })
    }

    fn empty() -> Self {
        Self {
            texts: Arc::default(),
            set: GlobSet::empty(),
            matched: Arc::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn matches(&self, names: &[String]) -> bool {
        let mut any = false;
        for form in names.iter().flat_map(|name| self.set.matches(name)) {
            self.matched[form / Self::FORMS].store(true, Ordering::Relaxed);
            any = true;
        }
        any
    }

    fn unmatched(&self) -> impl Iterator<Item = &str> {
        let all = self.texts.iter().zip(&*self.matched);
        all.filter(|(_, matched)| !matched.load(Ordering::Relaxed))
            .map(|(text, _)| text.as_str())
    }
}

fn bad_glob(glob: &str, error: &globset::Error) -> SelectionError {
    SelectionError::Glob {
        glob: glob.to_owned(),
        why: error.kind().to_string(),
    }
}

/// Finds the addresses that fit one of some places.
pub type Seeing<'a> = &'a dyn Fn(&[Spot], Vec<Svma>) -> Vec<Sighting>;

/// What a selection needs to know from debug information.
pub struct SourceFacts<'a> {
    /// Whether a compilation unit covers the address.
    pub has_debug_info: &'a dyn Fn(Svma) -> bool,
    /// Whether the code at the address was compiled with the toolchain, not by the user.
    pub is_toolchain: &'a dyn Fn(Svma) -> bool,
    /// The source file of the address.
    pub file: &'a dyn Fn(Svma) -> Option<String>,
    /// Which of these addresses fit one of these places.
    pub sightings: Seeing<'a>,
}

/// What to sample. Without globs, that is all modules except runtime libraries, with all
/// weights 1.
#[derive(Debug, Clone)]
pub struct Selection {
    modules: Globs,
    files: Globs,
    functions: Globs,
    weights: Vec<(Globs, f64)>,
    /// Both places of each candidate, one candidate after the other. If there are any, only
    /// what is suspected is sampled.
    suspects: Arc<[Spot]>,
}

/// The sites of an image that are sampled.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selected {
    /// Sorted by address.
    pub sites: Arc<Vec<Site>>,
    /// What the selection left out, by reason.
    pub excluded: Exclusions,
    /// By function; empty when all weigh 1.
    pub weights: Vec<f32>,
    /// Which of them are suspected of what, sorted; empty if nothing is.
    pub suspected: Vec<Suspected>,
    /// Why there are no sites, if there are none.
    pub why_none: Option<String>,
}

impl Selected {
    /// How much more likely the site is drawn than one with weight 1.
    #[must_use]
    pub fn weight(&self, site: &Site) -> f64 {
        let weight = usize::try_from(site.function)
            .ok()
            .and_then(|index| self.weights.get(index));
        weight.map_or(1.0, |weight| f64::from(*weight))
    }

    /// The greatest weight, and at least 1.
    #[must_use]
    pub fn heaviest(&self) -> f64 {
        self.weights.iter().copied().fold(1.0, f32::max).into()
    }

    /// What the site at `svma` is suspected of.
    #[must_use]
    pub fn suspicions(&self, svma: Svma) -> &[Suspected] {
        let from = self.suspected.partition_point(|one| one.svma < svma);
        let to = self.suspected.partition_point(|one| one.svma <= svma);
        self.suspected.get(from..to).unwrap_or_default()
    }
}

impl Default for Selection {
    fn default() -> Self {
        let none = || Globs {
            include: Listed::empty(),
            exclude: Listed::empty(),
        };
        Self {
            modules: none(),
            files: none(),
            functions: none(),
            weights: Vec::new(),
            suspects: Arc::default(),
        }
    }
}

impl Selection {
    /// A selection from globs, of which those with a leading `!` exclude, and from weights
    /// written `GLOB=NUMBER`. The glob of a weight matches functions, source files or
    /// modules, and the last weight that matches counts.
    ///
    /// # Errors
    /// When a glob or a weight does not parse.
    pub fn new(
        modules: &[String],
        files: &[String],
        functions: &[String],
        weights: &[String],
    ) -> Result<Self, SelectionError> {
        let weight = |text: &String| {
            let bad = || SelectionError::Weight { text: text.clone() };
            // The last equals sign, because function names may contain one (`operator==`).
            let (glob, number) = text.rsplit_once('=').ok_or_else(bad)?;
            let number: f64 = number.trim().parse().map_err(|_| bad())?;
            if glob.is_empty() || !(0.0..=1e6).contains(&number) {
                return Err(bad());
            }
            Ok((Globs::new(&[glob.to_owned()])?, number))
        };
        Ok(Self {
            modules: Globs::new(modules)?,
            files: Globs::new(files)?,
            functions: Globs::new(functions)?,
            weights: weights.iter().map(weight).collect::<Result<_, _>>()?,
            suspects: Arc::default(),
        })
    }

    /// The same, narrowed to the code that these candidates name.
    #[must_use]
    pub fn suspecting(mut self, candidates: &[Candidate]) -> Self {
        let spots = candidates.iter().flat_map(|one| one.sides.iter().cloned());
        self.suspects = spots.collect();
        self
    }

    /// The options with globs that should have selected something, and matched nothing so
    /// far. That a glob excludes nothing is no reason for concern.
    #[must_use]
    pub fn unmatched(&self) -> Vec<String> {
        let options = [
            ("--module", &self.modules),
            ("--file", &self.files),
            ("--function", &self.functions),
        ];
        let globs = options.into_iter().flat_map(|(option, globs)| {
            let unmatched = globs.include.unmatched();
            unmatched.map(move |glob| format!("{option} '{glob}'"))
        });
        let weights = self.weights.iter().flat_map(|(globs, weight)| {
            let unmatched = globs.include.unmatched();
            unmatched.map(move |glob| format!("--weight '{glob}={weight}'"))
        });
        globs.chain(weights).collect()
    }

    /// Whether `image` is sampled at all.
    #[must_use]
    pub fn takes_module(&self, image: &Image) -> bool {
        self.takes(image.path(), &names_of(image))
    }

    fn takes(&self, path: &Path, names: &[String]) -> bool {
        match self.modules.decide(names) {
            Some(taken) => taken,
            None => !is_runtime(path),
        }
    }

    /// The selected sites of `image`. A function is selected as a whole, by the source file
    /// that it begins in; of what is suspected, only the sites are.
    #[must_use]
    pub fn select(&self, image: &Image, facts: &SourceFacts<'_>) -> Selected {
        let mut selected = self.select_functions(image, facts);
        if !self.suspects.is_empty() && !selected.sites.is_empty() {
            let at = selected.sites.iter().map(|site| site.svma).collect();
            let sightings = (facts.sightings)(&self.suspects, at);
            selected.suspected = suspected::suspected(&sightings);
            let all = selected.sites.len();
            let mut sites = Arc::unwrap_or_clone(std::mem::take(&mut selected.sites));
            sites.retain(|site| !selected.suspicions(site.svma).is_empty());
            let left_out = all - sites.len();
            selected
                .excluded
                .add_many(Excluded::NotSelected, left_out as u64);
            selected.sites = Arc::new(sites);
        }
        selected
    }

    fn select_functions(&self, image: &Image, facts: &SourceFacts<'_>) -> Selected {
        let set = image.sites();
        let mut selected = Selected::default();
        if !self.takes_module(image) {
            selected
                .excluded
                .add_many(Excluded::NotSelected, set.sites.len() as u64);
            return selected;
        }
        let runtime = Runtime {
            libc: is_static_with_debug_info(image, facts),
            rust: is_rust(image),
            go: image.is_go(),
        };
        let plain = self.files.is_empty() && self.functions.is_empty() && self.weights.is_empty();
        if plain && runtime == Runtime::default() {
            selected.sites = Arc::clone(&set.sites);
            return selected;
        }
        let module = names_of(image);
        let mut taken = Vec::new();
        for (index, function) in image.functions().as_slice().iter().enumerate() {
            let Ok(number) = u32::try_from(index) else {
                break;
            };
            let sites = set.of_function(number);
            let mut weight = 1.0;
            if !sites.is_empty() {
                match self.judge(function, &module, runtime, facts) {
                    Ok(judged) => {
                        weight = judged;
                        taken.extend_from_slice(sites);
                    }
                    Err(reason) => selected.excluded.add_many(reason, sites.len() as u64),
                }
            }
            if !self.weights.is_empty() {
                selected.weights.push(weight as f32);
            }
        }
        selected.sites = Arc::new(taken);
        selected
    }

    /// The weight of a function, or why it is left out.
    fn judge(
        &self,
        function: &Function,
        module: &[String],
        runtime: Runtime,
        facts: &SourceFacts<'_>,
    ) -> Result<f64, Excluded> {
        let needs_names = !self.functions.is_empty() || !self.weights.is_empty();
        let names = match &function.name {
            Some(name) if needs_names => names::forms(name),
            _ => Vec::new(),
        };
        let needs_file = !self.files.is_empty() || !self.weights.is_empty();
        let file: Vec<String> = if needs_file {
            (facts.file)(function.start).into_iter().collect()
        } else {
            Vec::new()
        };
        let by_function = self.functions.decide(&names);
        if by_function == Some(false) || self.files.decide(&file) == Some(false) {
            return Err(Excluded::NotSelected);
        }
        let asked_for = by_function == Some(true);
        let is_runtime = (runtime.libc && !(facts.has_debug_info)(function.start))
            || (runtime.rust && (facts.is_toolchain)(function.start))
            || (runtime.go && function.name.as_deref().is_some_and(is_go_runtime));
        if is_runtime && !asked_for {
            return Err(Excluded::Runtime);
        }
        let everything: Vec<String> = names
            .into_iter()
            .chain(file)
            .chain(module.iter().cloned())
            .collect();
        let weight = self.weight(&everything);
        if weight > 0.0 {
            Ok(weight)
        } else {
            Err(Excluded::NotSelected)
        }
    }

    /// The weight of what has these names. All globs are asked, so that each that matches
    /// something is known to.
    fn weight(&self, names: &[String]) -> f64 {
        self.weights
            .iter()
            .filter(|(globs, _)| globs.decide(names) == Some(true))
            .fold(1.0, |_, (_, weight)| *weight)
    }
}

/// The names of a module: its path, and if it belongs to a kernel also the kernel's name
/// for it.
fn names_of(image: &Image) -> Vec<String> {
    let mut names = vec![image.path().to_string_lossy().into_owned()];
    if image.is_kernel() {
        let file = image.name();
        names.push(match file.strip_suffix(".ko") {
            Some(module) => module.replace('-', "_"),
            None => "vmlinux".to_owned(),
        });
    }
    names
}

/// Which runtime libraries are linked into the file.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Runtime {
    libc: bool,
    rust: bool,
    go: bool,
}

/// Whether the file contains the Rust standard library. Looking up the compilation unit of
/// each function takes time, so it is done only for Rust programs.
fn is_rust(image: &Image) -> bool {
    image.section(".comment").is_some_and(|comment| {
        comment
            .windows(b"rustc version".len())
            .any(|part| part == b"rustc version")
    })
}

/// Whether the C library is linked into the file and can be recognised: it is the code
/// without debug information in a program that has some.
fn is_static_with_debug_info(image: &Image, facts: &SourceFacts<'_>) -> bool {
    // The `main` of a Rust program is generated by the compiler. It calls the user's, whose
    // mangled name may end with a hash.
    let is_main = |name: &str| {
        name == "main"
            || (name.starts_with("_ZN") && name.contains("4main17h"))
            || (name.starts_with("_R") && name.ends_with("4main"))
    };
    image.interpreter().is_none()
        && image
            .functions()
            .as_slice()
            .iter()
            .filter(|function| function.name.as_deref().is_some_and(is_main))
            .any(|main| (facts.has_debug_info)(main.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn modules(globs: &[&str]) -> Selection {
        Selection::new(&strings(globs), &[], &[], &[]).unwrap()
    }

    #[test]
    fn the_runtime_is_left_out_unless_asked_for() {
        let libc = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        let own = Path::new("/usr/lib/libfoo.so.1");
        let takes = |globs: &[&str], path: &Path| {
            modules(globs).takes(path, &[path.to_string_lossy().into_owned()])
        };
        assert!(!takes(&[], libc) && takes(&[], own));
        assert!(takes(&["libc.so*"], libc));
        assert!(!takes(&["libc.so*"], own));
        assert!(!takes(&["!libfoo*"], own));
        assert!(!takes(&["!libfoo*"], libc), "still the runtime");
        assert!(takes(&["*", "!libfoo*"], libc));
        assert!(takes(&["/usr/lib/*"], own));
    }

    #[test]
    fn weights_are_parsed_at_the_last_equals_sign() {
        let weights = |text: &str| Selection::new(&[], &[], &[], &[text.to_owned()]);
        let parsed = weights("*::operator===2.5").unwrap();
        assert_eq!(parsed.weights[0].1, 2.5);
        let name = "Path::operator==".to_owned();
        assert_eq!(parsed.weights[0].0.decide(&[name]), Some(true));
        for bad in ["x", "x=", "=3", "x=-1", "x=nan", "x=inf", "x=1e99"] {
            let error = weights(bad).unwrap_err().to_string();
            assert!(error.contains("GLOB=NUMBER"), "{error}");
        }
    }

    #[test]
    fn globs_that_match_nothing_are_told() {
        let selection = Selection::new(
            &strings(&["*", "!libnone*"]),
            &[],
            &strings(&["parse_*", "nosuch"]),
            &strings(&["parse_*=2", "parse_header=3", "other=0.5"]),
        );
        let selection = selection.unwrap();
        assert_eq!(selection.unmatched().len(), 6);
        // The narrowed selection is the same one.
        let narrowed = selection.clone().suspecting(&[]);
        let names = strings(&["parse_header", "src/parse.c", "/bin/app"]);
        for globs in [&narrowed.modules, &narrowed.functions] {
            assert_eq!(globs.decide(&names), Some(true));
        }
        assert_eq!(narrowed.weight(&names), 3.0, "the last one counts");
        assert_eq!(
            selection.unmatched(),
            ["--function 'nosuch'", "--weight 'other=0.5'"]
        );
    }

    #[test]
    fn a_bad_glob_is_named() {
        let error = Selection::new(&[], &[], &strings(&["a[", "b"]), &[]).unwrap_err();
        assert!(error.to_string().starts_with("bad glob 'a['"), "{error}");
    }
}
