//! Which sites are suspected: those at the places that a list of candidates names.

use super::{is_runtime, names};
use crate::Image;
use redhanded_model::{AccessReport, Fit, Race, Sighting, Spot, Svma};
use std::collections::HashMap;
use std::path::Path;

/// A site as one side of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Suspected {
    /// The site.
    pub svma: Svma,
    /// The index of the candidate.
    pub candidate: u32,
    /// Which of its sides: 0 or 1.
    pub side: u8,
    /// How well it fits; nothing in its file fits better.
    pub fit: Fit,
}

/// Places, prepared for being looked up.
pub struct Spots<'a> {
    spots: &'a [Spot],
    by_line: HashMap<u32, Vec<u32>>,
    by_function: HashMap<String, Vec<u32>>,
    /// The places that the functions met so far fit.
    known: HashMap<String, Vec<u32>>,
}

impl<'a> Spots<'a> {
    /// Prepares these places.
    #[must_use]
    pub fn new(spots: &'a [Spot]) -> Self {
        let mut by_line: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut by_function: HashMap<String, Vec<u32>> = HashMap::new();
        for (number, spot) in (0u32..).zip(spots) {
            if let Some((_, line)) = spot.place() {
                by_line.entry(line).or_default().push(number);
            }
            if let Some(function) = &spot.function {
                let plain = names::plain(function);
                for name in [function.clone(), plain] {
                    let there = by_function.entry(name).or_default();
                    if !there.contains(&number) {
                        there.push(number);
                    }
                }
            }
        }
        Self {
            spots,
            by_line,
            by_function,
            known: HashMap::new(),
        }
    }

    /// The addresses of an image that fit one of them.
    pub fn sightings(&mut self, image: &Image, at: &[Svma]) -> Vec<Sighting> {
        let mut sightings = Vec::new();
        for svma in at {
            let frames = image.debug().frames(*svma);
            let symbol = image.function_at(*svma).and_then(|f| f.name.as_deref());
            let names = frames.iter().filter_map(|frame| frame.function.as_deref());
            let places = frames
                .iter()
                .filter_map(|frame| Some((frame.file.as_deref()?, frame.line?)));
            for (spot, fit) in self.fitting(names.chain(symbol), places) {
                sightings.push(Sighting {
                    spot,
                    svma: *svma,
                    fit,
                });
            }
        }
        sightings
    }

    /// The places that code fits which is in these functions, inlined ones included, and on
    /// these lines.
    fn fitting<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        places: impl Iterator<Item = (&'n str, u32)>,
    ) -> Vec<(u32, Fit)> {
        let mut fitting: Vec<(u32, Fit)> = Vec::new();
        for (file, line) in places {
            let on_line = self.by_line.get(&line).into_iter().flatten();
            for number in on_line {
                let spot = self.spots.get(*number as usize);
                let there = spot.and_then(Spot::place);
                let fits = there.is_some_and(|(asked, _)| is_same_file(asked, file));
                if fits && !fitting.iter().any(|(known, _)| known == number) {
                    fitting.push((*number, Fit::Line));
                }
            }
        }
        for name in names {
            if !self.known.contains_key(name) {
                let forms = names::forms(name);
                let mut spots: Vec<u32> = forms
                    .iter()
                    .filter_map(|form| self.by_function.get(form))
                    .flatten()
                    .copied()
                    .collect();
                spots.sort_unstable();
                spots.dedup();
                self.known.insert(name.to_owned(), spots);
            }
            for number in self.known.get(name).into_iter().flatten() {
                match fitting.iter_mut().find(|(known, _)| known == number) {
                    Some((_, fit @ Fit::Line)) => *fit = Fit::Both,
                    Some(_) => {}
                    None => fitting.push((*number, Fit::Function)),
                }
            }
        }
        fitting
    }
}

/// The sites of candidates, from the sightings of their places: place `2 * n` is the first
/// side of candidate `n`.
pub(super) fn suspected(sightings: &[Sighting]) -> Vec<Suspected> {
    let mut best: HashMap<u32, Fit> = HashMap::new();
    for sighting in sightings {
        let known = best.entry(sighting.spot).or_insert(sighting.fit);
        *known = (*known).max(sighting.fit);
    }
    let fitting = sightings
        .iter()
        .filter(|sighting| best.get(&sighting.spot) == Some(&sighting.fit));
    let mut suspected: Vec<Suspected> = fitting
        .map(|sighting| Suspected {
            svma: sighting.svma,
            candidate: sighting.spot / 2,
            side: (sighting.spot % 2) as u8,
            fit: sighting.fit,
        })
        .collect();
    suspected.sort_unstable();
    suspected.dedup();
    suspected
}

/// How well the two sides of a race fit these two places, in either order; none if they do not.
#[must_use]
pub fn fit_of_race(race: &Race, sides: &[Spot; 2]) -> Option<[Fit; 2]> {
    let [first, second] = race.accesses.as_slice() else {
        return None;
    };
    let mut spots = Spots::new(sides);
    let mut at = |access: &AccessReport| {
        let runtime = |module: &Option<String>| {
            let module = module.as_deref().map(Path::new);
            module.is_some_and(is_runtime)
        };
        // A library may have made the access for its caller.
        let own = access.stack.iter().skip_while(|f| runtime(&f.module));
        // The innermost function, with all that is inlined into it.
        let inlined = own.clone().take_while(|frame| frame.inlined).count();
        let frames = own.take(inlined + 1);
        let names = frames.clone().filter_map(|frame| frame.function.as_deref());
        let places = frames.filter_map(|frame| Some((frame.file.as_deref()?, frame.line?)));
        let place = access.file.as_deref().zip(access.line);
        let fits = spots.fitting(names.chain(access.function.as_deref()), places.chain(place));
        [0, 1].map(|side| {
            let fit = fits.iter().find(|(spot, _)| *spot == side);
            fit.map(|(_, fit)| *fit)
        })
    };
    let (first, second) = (at(first), at(second));
    let both = |one: Option<Fit>, other: Option<Fit>| Some([one?, other?]);
    let orders = [both(first[0], second[1]), both(second[0], first[1])];
    orders
        .into_iter()
        .flatten()
        .max_by_key(|fits| (fits[0].min(fits[1]), fits[0].max(fits[1])))
}

/// Whether two paths may name the same file: the shorter is the end of the longer, in whole
/// names.
fn is_same_file(asked: &str, known: &str) -> bool {
    let parts = |path: &'_ str| -> Vec<String> {
        let parts = path.split('/').filter(|part| *part != ".");
        parts.map(str::to_owned).collect()
    };
    let (asked, known) = (parts(asked), parts(known));
    let (short, long) = if asked.len() <= known.len() {
        (asked, known)
    } else {
        (known, asked)
    };
    !short.is_empty() && long.ends_with(&short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_is_enough() {
        assert!(is_same_file("a.c", "/src/x/a.c"));
        assert!(is_same_file("./x/a.c", "/src/x/a.c"));
        assert!(is_same_file("/src/x/a.c", "x/a.c"));
        assert!(!is_same_file("a.c", "/src/x/aa.c"));
        assert!(!is_same_file("/other/a.c", "/src/a.c"));
        assert!(!is_same_file("", "/src/a.c"));
    }

    fn spot(function: Option<&str>, place: Option<(&str, u32)>) -> Spot {
        Spot {
            function: function.map(str::to_owned),
            file: place.map(|(file, _)| file.to_owned()),
            line: place.map(|(_, line)| line),
        }
    }

    #[test]
    fn a_function_counts_only_where_its_line_is_not_found() {
        let sighting = |spot, svma, fit| Sighting {
            spot,
            svma: Svma(svma),
            fit,
        };
        let seen = [
            sighting(0, 1, Fit::Function),
            sighting(0, 2, Fit::Both),
            sighting(0, 3, Fit::Line),
            sighting(3, 4, Fit::Function),
            sighting(3, 5, Fit::Function),
        ];
        let found: Vec<(u64, u32, u8, Fit)> = suspected(&seen)
            .into_iter()
            .map(|one| (one.svma.0, one.candidate, one.side, one.fit))
            .collect();
        let (function, both) = (Fit::Function, Fit::Both);
        assert_eq!(
            found,
            [(2, 0, 0, both), (4, 1, 1, function), (5, 1, 1, function)]
        );
    }

    #[test]
    fn names_fit_with_and_without_parameters() {
        let spots = [
            spot(Some("Account::deposit(int)"), None),
            spot(Some("put"), Some(("a.c", 7))),
        ];
        let mut spots = Spots::new(&spots);
        let mut fits = |name: &str, place: (&str, u32)| {
            spots.fitting(std::iter::once(name), std::iter::once(place))
        };
        assert_eq!(
            fits("_ZN7Account7depositEi", ("b.c", 1)),
            [(0, Fit::Function)]
        );
        assert_eq!(fits("Account::deposit", ("b.c", 1)), [(0, Fit::Function)]);
        assert_eq!(fits("Other::deposit", ("b.c", 7)), []);
        assert_eq!(fits("put", ("/src/a.c", 7)), [(1, Fit::Both)]);
        assert_eq!(fits("put", ("/src/a.c", 8)), [(1, Fit::Function)]);
        assert_eq!(fits("get", ("/src/a.c", 7)), [(1, Fit::Line)]);
    }
}
