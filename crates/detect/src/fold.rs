//! Folding: each collision is judged, which gives it names, a class and a
//! fingerprint, and those that share a fingerprint become one race.

use crate::Collision;
use crate::around::Creator;
use crate::codes::{Code, Codes, code, named_codes, nameless_codes, place};
use crate::evidence;
use crate::fingerprint::{fingerprint, placed, touched};
use crate::merge::{absorb, merge};
use crate::naming::{self, Described};
use crate::pointee;
use crate::typed::Interpreter;
use crate::usage;
use crate::ways::{Stacks, Ways};
use redhanded_model::{
    AccessKind, AccessReport, Analysed, Bytes, Change, Class, Creation, Evidence, Fact,
    Fingerprint, Frame, Line, Race, ReplayTally, Rule, SeenBy, ThreadName, Values, What, WindowEnd,
    classify, combine,
};
use redhanded_target::Module;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How many kinds of collision that are no races are kept.
const MOST_SET_ASIDE: usize = 256;

/// What a collision was judged to be. A session log keeps it beside the collision,
/// so that the races can be folded again where the program's files are not at
/// hand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// An instance of a race, told in names; or of a collision that is no race, as its
    /// class says.
    Instance(Box<Race>),
    /// The same code at the same bytes as an earlier instance of this race.
    Again(Fingerprint),
    /// The same code at the same bytes as an earlier collision that is no race.
    Aside(Fingerprint),
    /// No race. Logs of earlier versions say no more.
    Synchronised,
}

/// What became of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// The first of its race, which has this index.
    New(usize),
    /// One more of a known race.
    Again(usize),
    /// No race.
    SetAside,
}

/// Two code places and the bytes they touch, in their modules' own addresses, and what the same
/// instruction does now so and now so. Equal keys are the same collision, which shows without
/// looking up names.
#[derive(PartialEq, Eq, Hash)]
struct Exact {
    places: [Code; 2],
    at: Code,
    /// Whether the caught access changed the bytes: an exchange can fail.
    change: Option<Change>,
    /// The system call that made it: one instruction can make any.
    system_call: Option<String>,
    /// Whether the bytes were unmapped, which nobody was caught at.
    unmapped: bool,
}

/// An instruction, what it touches, and the code places of whoever is seen there alone: an
/// instruction of a library belongs to many callers. Without the places it is an allocator's,
/// which is called something else when it frees.
type Site = (Code, String, Option<String>);

/// The code places of a race, and its instructions. Those of a library tell nothing alone.
type Meeting = (String, Codes);

/// Collects races.
#[derive(Default)]
pub struct Folder {
    races: Vec<Race>,
    by_fingerprint: HashMap<Fingerprint, usize>,
    /// The sites of races of which both sides are known.
    by_site: HashMap<Site, usize>,
    /// Races on a member behind a pointer, by where both sides meet.
    by_pair: HashMap<Meeting, usize>,
    /// The instructions of races on what has no name.
    nameless: HashMap<usize, HashSet<Codes>>,
    /// Collisions that are no races.
    set_aside: Vec<Race>,
    /// What was judged before.
    judged: HashMap<Exact, Ways>,
    /// What replays of the races came to, by their indices.
    replays: HashMap<usize, ReplayTally>,
}

impl Folder {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges a collision and folds it. `modules` are those that were mapped.
    pub fn add(&mut self, collision: &Collision, modules: &[Arc<Module>]) -> Folded {
        let finding = self.judge(collision, modules);
        self.fold_instance(finding, collision)
    }

    /// Folds what a collision was judged to be, and remembers its values.
    pub fn fold_instance(&mut self, finding: Finding, collision: &Collision) -> Folded {
        let folded = self.fold(finding);
        if let Folded::New(index) | Folded::Again(index) = folded
            && let Some(race) = self.races.get_mut(index)
        {
            let history = race.history.get_or_insert_default();
            history.add(collision.record.bytes.start.0, &values(collision));
        }
        folded
    }

    /// What a collision is. Slow the first time, because it reads debug
    /// information.
    pub fn judge(&mut self, collision: &Collision, modules: &[Arc<Module>]) -> Finding {
        let exact = exact(collision, modules);
        let stacks = Stacks::of(collision, modules);
        let judged = self.judged.get(&exact);
        if let Some(finding) = judged.and_then(|ways| ways.find(&stacks)) {
            return finding.clone();
        }
        let race = describe(collision, modules);
        // A heap or stack object has only an address, which may be another object's
        // later. Some rules look at more than the two places.
        let by_places = !matches!(
            race.rule,
            Some(Rule::SequenceSections | Rule::PerhapsGuarded | Rule::WiderThanSource)
        );
        if exact.at.0.is_some() && by_places {
            let fingerprint = race.fingerprint.clone();
            let again = if race.class.is_listed() {
                Finding::Again(fingerprint)
            } else {
                Finding::Aside(fingerprint)
            };
            let ways = self.judged.entry(exact).or_default();
            ways.add(&stacks, &race.accesses, again);
        }
        Finding::Instance(Box::new(race))
    }

    /// Folds a finding: those that share a fingerprint are one race.
    pub fn fold(&mut self, finding: Finding) -> Folded {
        let (fingerprint, race) = match finding {
            Finding::Synchronised => return Folded::SetAside,
            Finding::Aside(fingerprint) => return self.put_aside(&fingerprint, None),
            Finding::Instance(race) if !race.class.is_listed() => {
                return self.put_aside(&race.fingerprint.clone(), Some(*race));
            }
            Finding::Again(fingerprint) => (fingerprint, None),
            Finding::Instance(race) => (race.fingerprint.clone(), Some(*race)),
        };
        // Other code of the same functions may meet at something else without a name.
        if let Some(race) = &race
            && let Some(index) = self.named(race)
        {
            absorb(&mut self.races[index], race);
            return Folded::Again(index);
        }
        let pair = race.as_ref().and_then(nameless_codes);
        if let Some(index) = self.by_fingerprint.get(&fingerprint) {
            if let Some(pairs) = self.nameless.get_mut(index) {
                pairs.extend(pair);
            }
            let known = &mut self.races[*index];
            known.instances += 1;
            if let Some(race) = race {
                if let Some(pair) = named_codes(&race) {
                    let meeting = meeting(&race, pair);
                    self.by_pair.entry(meeting).or_insert(*index);
                }
                merge(known, race);
            }
            return Folded::Again(*index);
        }
        let Some(race) = race else {
            // Only a damaged log refers to a race that it does not have.
            return Folded::SetAside;
        };
        if let Some(index) = self.other_half(&race) {
            absorb(&mut self.races[index], &race);
            self.by_fingerprint.insert(fingerprint, index);
            return Folded::Again(index);
        }
        let index = self.races.len();
        if !race.unknown_origin() {
            for site in sites(&race) {
                self.by_site.entry(site).or_insert(index);
            }
        }
        if let Some(pair) = pair {
            self.nameless.insert(index, HashSet::from([pair]));
        }
        if let Some(pair) = named_codes(&race) {
            let meeting = meeting(&race, pair);
            self.by_pair.entry(meeting).or_insert(index);
        }
        self.by_fingerprint.insert(fingerprint, index);
        self.races.push(race);
        Folded::New(index)
    }

    /// Adds what replaying the instance came to that was folded like this. Collisions that are
    /// no races have no verdict.
    pub fn replayed(&mut self, folded: Folded, tally: ReplayTally) {
        if let Folded::New(index) | Folded::Again(index) = folded {
            self.replays.entry(index).or_default().add(tally);
        }
    }

    /// Adds what an analysis says of the pair that was folded like this, and how often it met.
    pub fn analysed(&mut self, folded: Folded, analysed: &Analysed, instances: u64) {
        if let Folded::New(index) | Folded::Again(index) = folded
            && let Some(race) = self.races.get_mut(index)
        {
            race.instances = race.instances.saturating_add(instances.saturating_sub(1));
            match &mut race.analysed {
                Some(known) => known.join(analysed),
                None => race.analysed = Some(analysed.clone()),
            }
        }
    }

    fn put_aside(&mut self, fingerprint: &Fingerprint, race: Option<Race>) -> Folded {
        let known = self.set_aside.iter_mut().find(|known| {
            known.fingerprint == *fingerprint
                && race.as_ref().is_none_or(|race| race.class == known.class)
        });
        if let Some(known) = known {
            known.instances += 1;
        } else if let Some(race) = race
            && self.set_aside.len() < MOST_SET_ASIDE
        {
            self.set_aside.push(race);
        }
        Folded::SetAside
    }

    /// The race that a collision of unknown origin is another instance of: one whose access
    /// at this site is known to meet another. One bug is one entry.
    fn other_half(&self, race: &Race) -> Option<usize> {
        if !race.unknown_origin() || race.is_unmapped() {
            return None;
        }
        let (code, what) = (code(race.accesses.first()?), touched(&race.what));
        let places = race.fingerprint.places().to_owned();
        let site = (code, what, Some(places));
        let index = self.by_site.get(&site);
        let index = *index.or_else(|| self.by_site.get(&(site.0, site.1, None)))?;
        (self.races[index].class <= race.class).then_some(index)
    }

    /// The race of the same code places and instructions that knows the member behind the pointer.
    fn named(&self, race: &Race) -> Option<usize> {
        let pair = nameless_codes(race)?;
        let index = *self.by_pair.get(&meeting(race, pair))?;
        (self.races[index].class <= race.class).then_some(index)
    }

    /// The race that one of the list turned out to belong to.
    fn belongs_to(&self, at: usize) -> Option<usize> {
        let whole = self.other_half(&self.races[at]);
        self.all_named(whole.unwrap_or(at)).or(whole)
    }

    /// The same for a nameless one, if all its pairs of instructions belong to one race.
    fn all_named(&self, at: usize) -> Option<usize> {
        let race = &self.races[at];
        let index = self.named(race)?;
        let mut pairs = self.nameless.get(&at)?.iter();
        pairs
            .all(|pair| self.by_pair.get(&meeting(race, pair.clone())) == Some(&index))
            .then_some(index)
    }

    /// The races so far, in the order in which they were found.
    #[must_use]
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// How many races of this class will be listed. One that tells less is not counted beside
    /// the race that it turned out to belong to.
    #[must_use]
    pub fn listed(&self, class: Class) -> u64 {
        let races = self.races.iter().enumerate();
        let races = races.filter(|(_, race)| race.class == class);
        races
            .filter(|(at, _)| self.belongs_to(*at).is_none())
            .count() as u64
    }

    /// The races, the most certain and most often seen first; and the collisions that are
    /// none.
    #[must_use]
    pub fn into_races(mut self) -> (Vec<Race>, Vec<Race>) {
        // Those that tell less may have come before the race that they belong to.
        for at in 0..self.races.len() {
            if let Some(index) = self.belongs_to(at) {
                let mut half = self.races[at].clone();
                absorb(&mut self.races[index], &half);
                if let Some(history) = half.history.take() {
                    self.races[index]
                        .history
                        .get_or_insert_default()
                        .join(&history);
                }
                // What its replays came to is the harm of this race.
                if let Some(tally) = self.replays.remove(&at) {
                    self.replays.entry(index).or_default().add(tally);
                }
                self.races[at].instances = 0;
            }
        }
        for (index, tally) in std::mem::take(&mut self.replays) {
            if let Some(race) = self.races.get_mut(index) {
                let rules = race.verdict.take().map(|verdict| verdict.rules);
                let rules = rules.unwrap_or_default();
                race.verdict = Some(combine(rules, Some(tally), race.instances));
            }
        }
        self.races.retain(|race| race.instances > 0);
        rank(&mut self.races);
        rank(&mut self.set_aside);
        (self.races, self.set_aside)
    }
}

/// Where the sides of a race meet.
fn meeting(race: &Race, codes: Codes) -> Meeting {
    (race.fingerprint.places().to_owned(), codes)
}

/// What instances of a race are known by of which one side was seen.
fn sites(race: &Race) -> Vec<Site> {
    let halves = race.fingerprint.halves();
    let halves = || halves.iter().map(|half| Some(half.places().to_owned()));
    let mut sites = Vec::new();
    for access in &race.accesses {
        let freed = access.freed_by.is_some().then_some(None);
        for places in halves().chain(freed) {
            for what in [touched(&race.what), placed(&race.what)] {
                sites.push((code(access), what, places.clone()));
            }
        }
    }
    sites
}

fn rank(races: &mut [Race]) {
    races.sort_by(|a, b| {
        let key = |race: &Race| (race.class, race.seen_by, std::cmp::Reverse(race.instances));
        (key(a), &a.fingerprint).cmp(&(key(b), &b.fingerprint))
    });
}

fn exact(collision: &Collision, modules: &[Arc<Module>]) -> Exact {
    let caught = collision.other.as_ref().map(|(confirmed, ..)| confirmed);
    let other = caught.map_or((None, 0), |caught| place(caught.pc, modules));
    let mut places = [place(collision.record.pc, modules), other];
    places.sort();
    Exact {
        places,
        at: place(collision.record.bytes.start, modules),
        change: caught.map(|caught| caught.change),
        system_call: caught.and_then(|caught| caught.system_call.clone()),
        unmapped: collision.record.end == WindowEnd::Unmapped,
    }
}

/// The race that a collision is an instance of, or the collision that is none.
fn describe(collision: &Collision, modules: &[Arc<Module>]) -> Race {
    let sampled = naming::frames(&collision.sampled.1, modules);
    let other = collision.other.as_ref();
    let caught = other.map(|(.., stack)| naming::frames(stack, modules));
    let caught = caught.unwrap_or_default();
    let mut evidence = evidence::collect(collision, modules, [&sampled, &caught]);
    let Described {
        mut what,
        declared,
        reading,
    } = what(collision, modules, &evidence::expressions(&evidence));
    let pointed = pointee::name(&mut what, collision, modules, &evidence);
    what.block = collision.around.block;
    what.allocated = collision
        .around
        .allocated
        .as_ref()
        .map(|by| creation(by, modules));
    what.frame = collision.around.frame.and_then(|at| {
        let outermost = naming::frames(&[at], modules).pop()?;
        outermost.function
    });
    let teller = Interpreter {
        reading: reading.or(pointed.reading),
        collision,
        modules,
    };
    let mut values = values(collision);
    teller.tell(&mut values);
    evidence::add_names(&mut evidence, &what, declared);
    let (class, rule) = classify(&evidence);
    let mut accesses = vec![sampled_report(collision, sampled, &evidence)];
    if let Some((confirmed, thread, _)) = other {
        accesses.push(AccessReport {
            kind: confirmed.kind,
            size: confirmed.bytes.len,
            pc: confirmed.pc.0,
            instruction: Some(confirmed.instruction.clone()),
            system_call: confirmed.system_call.clone(),
            freed_by: confirmed.freed_by.clone(),
            ..report(thread, caught, is_atomic(&evidence, 1))
        });
    }
    for (access, pointee) in accesses.iter_mut().zip(pointed.sides) {
        access.pointee = pointee;
    }
    teller.tell_sides(&values, &mut accesses);
    for (access, created) in accesses.iter_mut().zip(&collision.around.created) {
        access.created = created.as_ref().map(|by| creation(by, modules));
    }
    let is_freed = rule == Rule::FreedWhileItStood;
    if is_freed {
        name_by_caller_of_free(&mut accesses);
    }
    let special = evidence.bytes.iter().find_map(|known| match &known.fact {
        Fact::Special { reason } => Some(reason.clone()),
        _ => None,
    });
    Race {
        fingerprint: fingerprint(&accesses, &what, is_freed && other.is_none(), modules),
        class,
        rule: Some(rule),
        what,
        seen_by: if collision.analysed.is_some() {
            SeenBy::Analysis
        } else if other.is_some() {
            SeenBy::Watch
        } else {
            SeenBy::Value
        },
        analysed: collision.analysed.clone(),
        values,
        instances: 1,
        lines: lines(&accesses),
        accesses,
        suspects: collision.suspects.clone(),
        special: special.filter(|_| rule == Rule::Special),
        usage: usage::of(collision, modules),
        history: None,
        pairs: Vec::new(),
        verdict: None,
        triage: None,
        evidence: Some(evidence),
    }
}

/// Who created a thread or allocated a block, in names.
fn creation((thread, stack): &Creator, modules: &[Arc<Module>]) -> Creation {
    Creation {
        thread: thread.clone(),
        stack: naming::frames(stack, modules),
    }
}

/// The bytes around the caught access. They were read after the watch was set, so that an
/// early access may have changed them already; some instructions tell what they found.
fn values(collision: &Collision) -> Values {
    let record = &collision.record;
    let mut values = Values {
        before: record.before.clone(),
        after: record.after.clone(),
        typed: None,
    };
    if let Some((confirmed, ..)) = &collision.other
        && let Some(found) = &confirmed.found
        && let Some(at) = confirmed.bytes.start.0.checked_sub(record.bytes.start.0)
        && let Some(from) = usize::try_from(at).ok()
        && let Some(part) = values
            .before
            .get_mut(from..from.saturating_add(found.len()))
    {
        part.copy_from_slice(found);
    }
    values
}

/// Names the side that freed by the caller of the allocator's function, which is the
/// program's part in it.
fn name_by_caller_of_free(accesses: &mut [AccessReport]) {
    let stacks: Vec<_> = accesses.iter().map(|access| access.stack.clone()).collect();
    for (own, other) in accesses.iter_mut().zip(stacks.iter().rev()) {
        let call = evidence::freeing_call(&own.stack, other);
        let Some((name, caller)) = call.map(|(name, caller)| (name.to_owned(), caller)) else {
            continue;
        };
        own.freed_by = Some(name);
        if let Some(caller) = own.stack.get(caller) {
            own.function = caller.function.clone();
            own.file = caller.file.clone();
            own.line = caller.line;
        }
    }
}

fn is_atomic(evidence: &Evidence, side: usize) -> bool {
    let side = evidence.sides.get(side);
    side.is_some_and(|side| side.is_atomic(&evidence.bytes))
}

/// What is raced on. The name is that of the bytes which both sides touch; values
/// and bit-fields are those of the sampled access. `expressions` are those of the source.
fn what(collision: &Collision, modules: &[Arc<Module>], expressions: &str) -> Described {
    let sampled = collision.record.bytes;
    let named = |bytes: Bytes| {
        let region = collision.region.clone();
        naming::what(bytes, region, modules, expressions)
    };
    let described = named(sampled);
    let both = collision
        .other
        .as_ref()
        .and_then(|(confirmed, ..)| confirmed.bytes.intersection(sampled))
        .filter(|both| *both != sampled);
    let Some(both) = both else {
        return described;
    };
    let narrow = named(both);
    Described {
        what: What {
            name: narrow.what.name,
            field: narrow.what.field,
            field_in_full: narrow.what.field_in_full,
            type_name: narrow.what.type_name,
            ..described.what
        },
        ..narrow
    }
}

/// The pair of lines, if any is known, whichever side was sampled.
fn lines(accesses: &[AccessReport]) -> Vec<Vec<Line>> {
    let mut pair: Vec<Line> = accesses.iter().map(Line::from).collect();
    pair.sort();
    if pair.iter().any(|line| line.line.is_some()) {
        vec![pair]
    } else {
        Vec::new()
    }
}

fn sampled_report(collision: &Collision, stack: Vec<Frame>, evidence: &Evidence) -> AccessReport {
    let record = &collision.record;
    AccessReport {
        kind: record.kind,
        size: record.bytes.len,
        pc: record.pc.0,
        instruction: collision.sampled_instruction().map(|i| i.text()),
        ..report(&collision.sampled.0, stack, is_atomic(evidence, 0))
    }
}

/// The parts of an access's report that come from its stack.
fn report(thread: &ThreadName, stack: Vec<Frame>, atomic: bool) -> AccessReport {
    let innermost = stack.first().cloned().unwrap_or_default();
    AccessReport {
        thread: thread.clone(),
        kind: AccessKind::Read,
        size: 0,
        pc: 0,
        instruction: None,
        atomic,
        function: innermost.function,
        file: innermost.file,
        line: innermost.line,
        system_call: None,
        freed_by: None,
        pointee: None,
        value: None,
        created: None,
        stack,
    }
}
