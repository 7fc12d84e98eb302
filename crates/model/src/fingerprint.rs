//! Fingerprints: what makes two collisions the same race.

use crate::allocator;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The unordered pair of code places plus what they touch. It has no addresses
/// and no lines, so it survives a rebuild and an edit elsewhere in the file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

/// The place of an access that nobody saw.
pub const UNKNOWN_ORIGIN: &str = "unknown origin";

/// The place of whoever unmapped the bytes, which nobody is caught at. It is one of its own: a
/// collision of unknown origin may be one with an access that is known, but this is none.
const UNMAPPED: &str = "unmapped";

/// No variable is called so.
const BEHIND_A_POINTER: &str = "pointee ";

impl Fingerprint {
    /// The fingerprint of accesses at `places` to `what`: a variable and field, or a region.
    #[must_use]
    pub fn new(mut places: Vec<String>, what: &str) -> Self {
        places.sort();
        Self(format!("{} @ {what}", places.join(" | ")))
    }

    /// The same of a collision, whose other place is unknown if only one access is known, unless
    /// the bytes were unmapped.
    #[must_use]
    pub fn of_sides(mut places: Vec<String>, what: &str, unmapped: bool) -> Self {
        if places.len() < 2 {
            let other = if unmapped { UNMAPPED } else { UNKNOWN_ORIGIN };
            places.push(other.to_owned());
        }
        Self::new(places, what)
    }

    /// What the race would be called if only one of its two places were known, for either.
    #[must_use]
    pub fn halves(&self) -> Vec<Self> {
        let Some((places, what)) = self.0.rsplit_once(" @ ") else {
            return Vec::new();
        };
        let places: Vec<&str> = places.split(" | ").collect();
        let is_half = [UNKNOWN_ORIGIN, UNMAPPED]
            .iter()
            .any(|of| places.contains(of));
        if places.len() != 2 || is_half {
            return Vec::new();
        }
        let half =
            |place: &&str| Self::new([*place, UNKNOWN_ORIGIN].map(str::to_owned).into(), what);
        places.iter().map(half).collect()
    }

    /// The same code places on something else.
    #[must_use]
    pub fn on(&self, what: &str) -> Self {
        Self(format!("{} @ {what}", self.places()))
    }

    /// Other code places on the same.
    #[must_use]
    pub fn between(&self, places: Vec<String>) -> Self {
        match self.0.rsplit_once(" @ ") {
            Some((_, what)) => Self::of_sides(places, what, self.is_unmapped()),
            None => self.clone(),
        }
    }

    /// Whether its other place is where the bytes were unmapped.
    fn is_unmapped(&self) -> bool {
        self.places().split(" | ").any(|place| place == UNMAPPED)
    }

    /// What a race on a member behind a pointer is on.
    #[must_use]
    pub fn behind_a_pointer(member: &str) -> String {
        format!("{BEHIND_A_POINTER}{member}")
    }

    /// Whether it is a race on a member behind a pointer.
    #[must_use]
    pub fn is_behind_a_pointer(&self) -> bool {
        self.object().starts_with(BEHIND_A_POINTER)
    }

    /// The code places.
    #[must_use]
    pub fn places(&self) -> &str {
        self.0
            .rsplit_once(" @ ")
            .map_or(&self.0, |(places, _)| places)
    }

    /// What they touch.
    #[must_use]
    pub fn object(&self) -> &str {
        self.0.rsplit_once(" @ ").map_or("", |(_, what)| what)
    }

    /// What a problem is known by: the object, if it has a name, whatever part of it and
    /// whoever races on it; or else the pair of functions, whatever they do it with.
    #[must_use]
    pub fn problem(&self, object: Option<&str>) -> Self {
        if let Some(object) = object {
            return Self(format!("problem with {object}"));
        }
        let mut functions: Vec<&str> = self.places().split(" | ").map(function).collect();
        functions.sort_unstable();
        Self(format!("problem between {}", functions.join(" | ")))
    }

    /// A short stable name for people: the first eight digits of the hash.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hash = self.hash();
        hash.truncate(8);
        hash
    }

    /// A stable hash for programs: 64 bits in 16 hexadecimal digits. It is FNV-1a
    /// with its halves stirred, so that no dependency or toolchain can change it.
    #[must_use]
    pub fn hash(&self) -> String {
        let fnv = self.0.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let low = fnv as u32;
        let folded = (fnv >> 32) as u32 ^ low;
        // Ids were once all there was of the hash, and they fold both halves into
        // one. Beside the folded half, the low half brings back what folding lost,
        // but its own low bits are weak: a shift, a multiplication and the folded
        // half mix them. Each step can be undone, so that no two values of FNV-1a
        // become one.
        let mixed = (low ^ folded.rotate_left(13)).wrapping_mul(0x85eb_ca6b);
        let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
        format!("{folded:08x}{:08x}", mixed ^ (mixed >> 16))
    }
}

/// The program's function of a code place, without how it got to the bytes: of
/// `memcpy from app!fill` as of `read(2) from fill` it is `fill`.
fn function(place: &str) -> &str {
    let (how, caller) = place.rsplit_once(" from ").unwrap_or(("", place));
    // Callers of these are told without their module, and may be called `operator!=`.
    if how.ends_with("(2)") || allocator(how).is_some() {
        return caller;
    }
    caller
        .split_once('!')
        .map_or(caller, |(_, function)| function)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn of(places: &[&str], what: &str) -> Fingerprint {
        Fingerprint::new(places.iter().map(|&place| place.to_owned()).collect(), what)
    }

    #[test]
    fn the_pair_is_unordered() {
        let a = of(&["f read", "g write"], "x");
        let b = of(&["g write", "f read"], "x");
        assert_eq!(a, b);
        assert_eq!(a.id(), b.id());
        assert_ne!(a.id(), of(&["g write", "f read"], "y").id());
    }

    #[test]
    fn a_half_is_what_one_place_alone_is_called() {
        let whole = of(&["f", "g"], "x");
        let half = |place| of(&[place, UNKNOWN_ORIGIN], "x");
        assert_eq!(whole.halves(), [half("f"), half("g")]);
        assert!(half("f").halves().is_empty());
        let unmapped = Fingerprint::of_sides(vec!["f".to_owned()], "x", true);
        assert!(unmapped.halves().is_empty() && !whole.halves().contains(&unmapped));
        let elsewhere = unmapped.between(vec!["g".to_owned()]);
        assert_eq!(elsewhere, of(&["g", UNMAPPED], "x"));
        assert!(Fingerprint("f".to_owned()).halves().is_empty());
    }

    #[test]
    fn races_on_one_object_or_between_the_same_functions_are_one_problem() {
        let flags = of(&["f", "g"], "device.flags").problem(Some("device"));
        let count = of(&["h", "g"], "device.count").problem(Some("device"));
        assert_eq!(flags, count);
        assert_ne!(flags, of(&["f", "g"], "other").problem(Some("other")));
        let heap = of(&["f", "g"], "heap").problem(None);
        assert_eq!(heap, of(&["g", "f"], "mapping").problem(None));
        assert_ne!(heap, of(&["f", "h"], "heap").problem(None));
        // What members it is and by which means they get there does not matter.
        let finish = of(&["app!f", "app!g"], "pointee Vector._M_finish").problem(None);
        let copied = of(&["memcpy from app!f", "app!g"], "heap").problem(None);
        let read = of(&["read(2) from f", "app!g"], "heap").problem(None);
        assert_eq!([&copied, &read], [&finish; 2]);
        let freed = |by| of(&[by, "app!f"], "heap").problem(None);
        assert_ne!(
            freed("free from A::operator!=(A)"),
            freed("free from B::operator!=(B)")
        );
    }

    #[test]
    fn ids_and_hashes_never_change() {
        let known = of(
            &["set_busy update", "request_callback update"],
            "device.flags",
        );
        assert_eq!(known.id(), "d3ee6081");
        assert_eq!(known.hash(), "d3ee6081e43fbac5");
        assert_eq!(Fingerprint(String::new()).id(), "4fd0bfc1");
    }

    /// Short ids collide among a hundred thousand races; hashes do not, and each
    /// of their bits is set in half of them.
    #[test]
    fn hashes_tell_apart_what_ids_do_not() {
        let mut ids: HashMap<String, u32> = HashMap::new();
        let mut hashes = HashSet::new();
        let mut set = [0u32; 64];
        let many = 150_000;
        for number in 0..many {
            let hash = of(&["demo!f", &format!("demo!g{number}")], "table[]").hash();
            *ids.entry(hash[..8].to_owned()).or_default() += 1;
            let bits = u64::from_str_radix(&hash, 16).unwrap();
            for (bit, set) in set.iter_mut().enumerate() {
                *set += (bits >> bit & 1) as u32;
            }
            hashes.insert(bits);
        }
        assert!(ids.len() < many as usize, "no two share an id");
        assert_eq!(hashes.len(), many as usize);
        for (bit, set) in set.into_iter().enumerate() {
            let share = f64::from(set) / f64::from(many);
            assert!((0.48..0.52).contains(&share), "bit {bit}: {share}");
        }
    }
}
