//! How races stand by what is known already.
//!
//! Of one race, sometimes both sides are caught and sometimes one only, by chance. And what is
//! behind a pointer has a name in one run and none in the next, as the registers happen to be,
//! or as the version of Redhanded knows. So a race that tells less stands like the known race
//! of which it tells less, and the other way round. Otherwise a run would fail for something
//! new that is not.

use redhanded_model::{AccessReport, Class, Fingerprint, MOST_PAIRS, Pointee, Race, State, Triage};
use std::collections::HashMap;

/// How known races stand.
#[derive(Debug, Default)]
pub struct Standings {
    by_fingerprint: HashMap<Fingerprint, (Class, Triage)>,
    /// Races of earlier versions, by the fingerprints that they would have today.
    by_todays: HashMap<Fingerprint, (Class, Triage)>,
    /// Races of which both sides are known, by what one alone would be called.
    by_half: HashMap<Fingerprint, (Class, Triage)>,
    /// Races on what has no name, by their code places.
    nameless: HashMap<Places, (Class, Triage)>,
    /// Races on a member behind a pointer, by their code places.
    members: HashMap<Places, (Class, Triage)>,
}

/// Code places of a race, and how much of it they are.
type Places = (Sides, String);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sides {
    /// Both are known.
    Both,
    /// One is known.
    One,
    /// Both are known, and this is one of them.
    OneOfBoth,
}

/// What a race is on.
enum On {
    Named,
    Member,
    Nameless,
}

impl Standings {
    /// The standings of these races, each with its own.
    pub fn of<'a>(races: impl IntoIterator<Item = (&'a Race, Triage)>) -> Self {
        let mut standings = Self::default();
        for (race, triage) in races {
            if is_settled(&triage) {
                standings.settle(race, &triage);
            }
            let fingerprint = race.fingerprint.clone();
            standings
                .by_fingerprint
                .insert(fingerprint, (race.class, triage));
        }
        standings
    }

    /// Takes in a race that is known, by each pair of accesses that was seen of it: an earlier
    /// version may have taken for one race what are several today.
    fn settle(&mut self, race: &Race, triage: &Triage) {
        self.settle_pair(race, &race.accesses, &(race.class, triage.clone()));
        // What was seen of one side only belongs to the pair that stands for the race.
        let pairs = race.pairs.iter().take(MOST_PAIRS);
        for pair in pairs.filter(|pair| pair.accesses.len() == race.accesses.len()) {
            self.settle_pair(race, &pair.accesses, &(pair.class, triage.clone()));
        }
    }

    fn settle_pair(&mut self, race: &Race, accesses: &[AccessReport], known: &(Class, Triage)) {
        let known = || known.clone();
        let (on, fingerprint) = as_today(race, accesses);
        if fingerprint != race.fingerprint {
            let todays = self.by_todays.entry(fingerprint.clone());
            todays.or_insert_with(known);
        }
        for half in fingerprint.halves() {
            self.by_half.entry(half).or_insert_with(known);
        }
        let kept = match on {
            On::Named => return,
            On::Member => &mut self.members,
            On::Nameless => &mut self.nameless,
        };
        let halves = fingerprint.halves();
        let sides = if halves.is_empty() {
            Sides::One
        } else {
            Sides::Both
        };
        let halves = halves.iter().map(|half| (Sides::OneOfBoth, half));
        for (sides, fingerprint) in halves.chain([(sides, &fingerprint)]) {
            let places = (sides, fingerprint.places().to_owned());
            kept.entry(places).or_insert_with(known);
        }
    }

    /// How this race stands, if it is known.
    #[must_use]
    pub fn get(&self, race: &Race) -> Option<Triage> {
        let known = self.by_fingerprint.get(&race.fingerprint);
        let known = known.map(|(_, triage)| triage.clone());
        match known {
            // Known, or something was decided about it that no longer holds.
            Some(triage) if !triage.new || triage.because.is_some() => Some(triage),
            known => self.of_other_view(race).or(known),
        }
    }

    /// How the race stands of which this one shows less or more. What is a race for certain is
    /// not settled by one that may be atomic.
    fn of_other_view(&self, race: &Race) -> Option<Triage> {
        let (on, fingerprint) = as_today(race, &race.accesses);
        let other = self.of_more_or_less(race, &fingerprint);
        // Earlier versions told the type that the pointer is declared with, which may be another
        // name for the one that has the member.
        let other = other.or_else(|| self.of_more_or_less(race, &as_declared(race)?));
        let other = other.or_else(|| match on {
            On::Named => None,
            On::Member => in_places(&self.nameless, race, &fingerprint),
            On::Nameless => in_places(&self.members, race, &fingerprint),
        });
        let (class, triage) = other?;
        (*class <= race.class).then(|| triage.clone())
    }

    /// How the race stands that has this name, or that shows one side more or less of it.
    fn of_more_or_less(&self, race: &Race, named: &Fingerprint) -> Option<&(Class, Triage)> {
        let other = self.by_todays.get(named);
        other.or_else(|| {
            if race.unknown_origin() {
                return self.by_half.get(named);
            }
            let halves = named.halves();
            let known = [&self.by_fingerprint, &self.by_todays];
            let known = known.into_iter();
            let mut known =
                known.flat_map(|known| halves.iter().filter_map(|half| known.get(half)));
            known.find(|(_, triage)| is_settled(triage))
        })
    }
}

/// What a race on a member would be called by the type that its pointer is declared with.
fn as_declared(race: &Race) -> Option<Fingerprint> {
    let pointee = race.what.certain_pointee()?;
    let is_member = race.fingerprint.is_behind_a_pointer() && is_direct(pointee);
    is_member.then(|| on_declared(&race.placed_today(), pointee))
}

/// Whether it is a member of the type that the pointer is declared with.
fn is_direct(pointee: &Pointee) -> bool {
    pointee.path.matches('.').count() == 1 && pointee.path.starts_with('.')
}

fn on_declared(placed: &Fingerprint, pointee: &Pointee) -> Fingerprint {
    let path = crate::pattern::without_brackets(&pointee.path);
    let member = format!("{}{path}", pointee.type_name);
    placed.on(&Fingerprint::behind_a_pointer(&member))
}

/// The race between the same code places, or with one of them.
fn in_places<'a>(
    known: &'a HashMap<Places, (Class, Triage)>,
    race: &Race,
    fingerprint: &Fingerprint,
) -> Option<&'a (Class, Triage)> {
    let get = |sides, of: &Fingerprint| known.get(&(sides, of.places().to_owned()));
    if race.unknown_origin() {
        return get(Sides::One, fingerprint).or_else(|| get(Sides::OneOfBoth, fingerprint));
    }
    let halves = fingerprint.halves();
    let half = || halves.iter().find_map(|half| get(Sides::One, half));
    get(Sides::Both, fingerprint).or_else(half)
}

/// What a race is on, and its fingerprint as it would be today with these accesses, which are one
/// pair of it: earlier versions left out what is behind a pointer, but told it, and they took
/// functions of libraries that are in the program's module for the program's own.
fn as_today(race: &Race, accesses: &[AccessReport]) -> (On, Fingerprint) {
    let placed = race.placed_as(accesses);
    if race.fingerprint.is_behind_a_pointer() {
        return (On::Member, placed);
    }
    if race.what.name.is_some() {
        return (On::Named, placed);
    }
    let told = race.what.certain_pointee().filter(|pointee| {
        pointee.member.is_none() && is_direct(pointee) && race.what.bit_fields.is_empty()
    });
    match told {
        Some(pointee) => (On::Member, on_declared(&placed, pointee)),
        None => (On::Nameless, placed),
    }
}

/// Whether it is known, and nobody has to look when it is seen again.
fn is_settled(triage: &Triage) -> bool {
    !triage.new && triage.state != State::Fixed
}
