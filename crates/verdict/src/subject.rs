//! A race as the rules look at it.

use crate::Annotations;
use redhanded_model::{
    AccessKind, AccessReport, Fact, Frame, Marking, Race, SideEvidence, Step, Usage, Use,
};

/// A race, with what else the report knows of the same bytes.
pub struct Subject<'a> {
    pub race: &'a Race,
    /// All pairs of all races.
    pub all: &'a [&'a Race],
    pub annotations: &'a Annotations,
}

/// One access of a race.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub access: &'a AccessReport,
    pub evidence: Option<&'a SideEvidence>,
    pub usage: Option<&'a Usage>,
}

impl<'a> Subject<'a> {
    pub const fn new(race: &'a Race, all: &'a [&'a Race], annotations: &'a Annotations) -> Self {
        Self {
            race,
            all,
            annotations,
        }
    }

    /// The sides: the sampled one, then the one that was caught.
    pub fn sides(&self) -> Vec<Side<'a>> {
        sides(self.race)
    }

    /// Both sides, if both are known.
    pub fn pair(&self) -> Option<[Side<'a>; 2]> {
        match self.sides().as_slice() {
            [one, two] => Some([*one, *two]),
            _ => None,
        }
    }

    /// The side that only reads, and the one that writes, if there is one of each.
    pub fn reader_and_writer(&self) -> Option<(Side<'a>, Side<'a>)> {
        let [one, two] = self.pair()?;
        match (one.writes(), two.writes()) {
            (false, true) => Some((one, two)),
            (true, false) => Some((two, one)),
            _ => None,
        }
    }

    /// Both sides, if both write.
    pub fn writers(&self) -> Option<[Side<'a>; 2]> {
        self.pair().filter(|pair| pair.iter().all(Side::writes))
    }

    /// The sides of all races on the same variable, those of this one included.
    pub fn all_sides(&self) -> Vec<Side<'a>> {
        let same =
            |race: &&'a Race| std::ptr::eq(*race, self.race) || same_variable(race, self.race);
        let races = self.all.iter().copied().filter(same);
        races.flat_map(sides).collect()
    }

    /// All that is known to be added to the variable, here and elsewhere.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for usage in self.all_sides().iter().filter_map(|side| side.usage) {
            steps.extend(usage.step);
            steps.extend(usage.elsewhere.iter().copied());
        }
        steps
    }

    /// Whether there is a race of two writers on the variable.
    pub fn has_two_writers(&self) -> bool {
        let same = |race: &&Race| std::ptr::eq(*race, self.race) || same_variable(race, self.race);
        let mut races = self.all.iter().copied().chain([self.race]).filter(same);
        races.any(|race| {
            Subject::new(race, self.all, self.annotations)
                .writers()
                .is_some()
        })
    }

    /// The bits that the reader looks at and those that the writer can change, each counted from
    /// the first byte of both, if none is in both.
    pub fn bits_apart(&self) -> Option<(u128, u128)> {
        let (reader, writer) = self.reader_and_writer()?;
        let (tests, changes) = (reader.usage?.tests?.0, writer.usage?.changes?.0);
        let (read, written) = (reader.evidence?.extent, writer.evidence?.extent);
        if read.size > 8 || written.size > 8 || tests == 0 {
            return None;
        }
        let bits = |mask: u64, size: u64, from: u64| -> Option<u128> {
            let whole = u128::MAX.checked_shr(128 - u32::try_from(size * 8).ok()?)?;
            let first = read.address.min(written.address);
            let by = u32::try_from(from.checked_sub(first)?.checked_mul(8)?).ok()?;
            (u128::from(mask) & whole).checked_shl(by)
        };
        let tested = bits(tests, read.size, read.address)?;
        let changed = bits(changes, written.size, written.address)?;
        (tested & changed == 0 && changed != 0).then_some((tested, changed))
    }

    /// Whether an access of this side depends on bits that the other side leaves alone, and on
    /// nothing else.
    pub fn is_apart(&self, side: &Side<'_>) -> bool {
        !side.writes() && self.bits_apart().is_some()
    }

    /// Whether what is raced on is a pointer, by its type.
    pub fn is_pointer(&self) -> bool {
        self.race.what.type_name.as_deref().is_some_and(|name| {
            let name = name.trim();
            name.ends_with('*')
                || [
                    "*mut ",
                    "*const ",
                    "&",
                    "Box<",
                    "NonNull<",
                    "Option<Box<",
                    "Option<NonNull<",
                ]
                .iter()
                .any(|start| name.starts_with(start) || name.contains(&format!("::{start}")))
        })
    }

    /// The last member of the path to the accessed part.
    pub fn member(&self) -> Option<&'a str> {
        member(self.race)
    }
}

impl<'a> Side<'a> {
    pub fn writes(&self) -> bool {
        self.access.kind.writes() || self.is_update()
    }

    /// Whether it reads, changes and writes back.
    pub fn is_update(&self) -> bool {
        self.access.kind == AccessKind::Update
            || self.evidence.is_some_and(SideEvidence::is_update)
            || self.step().is_some()
    }

    pub fn is_locked(&self) -> bool {
        self.evidence
            .is_some_and(|evidence| evidence.has(&Fact::Locked))
    }

    /// Whether it is a locked update that leaves the bytes as they are, or may do so: an exchange
    /// that fails is no more than a load.
    pub fn changes_nothing(&self) -> bool {
        let nothing = |fact: &Fact| matches!(fact, Fact::ChangesNothing { .. }).then_some(());
        self.evidence
            .is_some_and(|evidence| evidence.find(nothing).is_some())
    }

    pub fn step(&self) -> Option<Step> {
        self.usage?.step
    }

    pub fn uses(&self, used: &Use) -> bool {
        self.usage.is_some_and(|usage| usage.has(used))
    }

    /// Whether it is of 1, 2, 4 or 8 aligned bytes, or a vector that is atomic here.
    pub fn is_natural(&self) -> bool {
        self.evidence.is_some_and(|evidence| {
            evidence.has(&Fact::Natural { natural: true }) || evidence.has(&Fact::AtomicVector)
        })
    }

    /// The word by which the source marks it as atomic or volatile.
    pub fn marked(&self) -> Option<&'a str> {
        match &self.evidence?.source()?.marking {
            Marking::Atomic { word } | Marking::Volatile { word } => Some(word),
            Marking::Plain | Marking::Unknown { .. } => None,
        }
    }

    /// What it is called in a sentence: `the read in scan`. A half of an update is the update.
    pub fn words(&self) -> String {
        let module =
            |frame: &Frame| Some(format!("{}+{:#x}", frame.module.as_ref()?, frame.address));
        let named = self.access.function.clone();
        let function = named
            .or_else(|| self.access.stack.first().and_then(module))
            .unwrap_or_else(|| format!("{:#x}", self.access.pc));
        let kind = match self.is_update() {
            true => AccessKind::Update,
            false => self.access.kind,
        };
        format!("the {} in {function}", kind.name())
    }
}

pub fn sides(race: &Race) -> Vec<Side<'_>> {
    let evidence = |at: usize| race.evidence.as_ref().and_then(|it| it.sides.get(at));
    let accesses = race.accesses.iter().enumerate();
    accesses
        .map(|(at, access)| Side {
            access,
            evidence: evidence(at),
            usage: race.usage.get(at),
        })
        .collect()
}

/// Whether two races are on the same variable or member: of objects without a name, on the same
/// member of the same type.
fn same_variable(one: &Race, two: &Race) -> bool {
    match (&one.what.name, &two.what.name) {
        (Some(a), Some(b)) => a == b && path(one) == path(two),
        (None, None) if one.what.address != two.what.address => {
            let of = |race: &'_ Race| {
                let pointee = race.what.pointee.as_ref().filter(|it| !it.doubtful)?;
                Some((pointee.type_name.clone(), pointee.path.clone()))
            };
            of(one).is_some() && of(one) == of(two)
        }
        _ => one.what.address == two.what.address,
    }
}

/// The path to the accessed part, without indices.
fn path(race: &Race) -> String {
    let mut depth = 0;
    let field = race.what.field.as_deref().unwrap_or_default();
    field
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '[');
            let keep = depth == 0;
            depth -= i32::from(*c == ']');
            keep
        })
        .collect()
}

/// The last member of the path to the accessed part, from the debug information or else from
/// the source.
pub fn member(race: &Race) -> Option<&str> {
    let of = |text: &'_ str| -> Option<(usize, usize)> {
        let from = text.rfind(['.', '>']).map(|at| at + 1)?;
        let to = text[from..].find('[').map_or(text.len(), |at| from + at);
        (from < to).then_some((from, to))
    };
    let pointee = race.what.pointee.as_ref();
    let pointee = pointee.filter(|pointee| !pointee.doubtful);
    let behind = pointee.map(|pointee| pointee.path.as_str());
    if let Some(field) = race.what.field.as_deref().or(behind)
        && let Some((from, to)) = of(field)
    {
        return field.get(from..to);
    }
    let sides = race.evidence.as_ref()?.sides.iter();
    let mut texts =
        sides.filter_map(|side| Some(side.source()?.expression.as_ref()?.text.as_str()));
    texts.find_map(|text| of(text).and_then(|(from, to)| text.get(from..to)))
}
