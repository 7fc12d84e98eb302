//! Both threads side by side, source line by source line.

use super::order_text;
use super::theatre::Theatre;
use redhanded_image::Instruction;
use redhanded_replay::{
    Call, Difference, Ended, Followed, Order, Part, Ranges, Scenario, Side, Step, number, page_of,
};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::rc::Rc;

/// The width of one thread's column.
const COLUMN: usize = 56;
/// Rows of one thread that are shown before those without shared bytes are left out.
const MOST_ROWS: usize = 60;
/// Characters of any name or source line that are shown.
const MOST_CHARACTERS: usize = 400;

/// The text for people.
pub fn view(theatre: &mut Theatre, order: Order, all: bool) -> Result<String, String> {
    let judgement = theatre.judge()?;
    let other = match order {
        Order::First(Side::A) => Order::First(Side::B),
        _ => Order::First(Side::A),
    };
    let start = theatre.follow(order, 0, false)?;
    let followed = theatre.follow(order, u64::MAX, true)?;
    let compared = theatre.follow(other, u64::MAX, true)?;
    let scenario = &theatre.scenario;
    let mut text = format!(
        "race {} on {} in {}\n",
        clean(&scenario.id),
        clean(&scenario.what),
        clean(&scenario.program.join(" "))
    );
    let orders: Vec<String> = judgement
        .outcomes
        .iter()
        .map(|o| order_text(o.order))
        .collect();
    let _ = writeln!(
        text,
        "order {} ({}); others: --order {}\n",
        order_text(order),
        order_words(order),
        orders.join(", ")
    );
    let _ = writeln!(
        text,
        "{}| B  {}",
        cell(&format!("A  {}", scenario.names[0])),
        clean(&scenario.names[1])
    );
    let parting = parting(&followed, &compared);
    let mut rows = Rows {
        scenario,
        race: Ranges::new(scenario.scene.race.clone()),
        lines: HashMap::new(),
        bytes: start
            .pages
            .iter()
            .map(|(page, bytes)| (*page, bytes.0))
            .collect(),
        told: Vec::new(),
        seen: [0; 2],
    };
    for step in &followed.steps {
        let parts = step.part != Part::Write
            && parting[step.side as usize] == Some(rows.seen[step.side as usize]);
        rows.add(step, parts.then(|| order_text(other)));
    }
    rows.write(&mut text, all);
    for side in [Side::A, Side::B] {
        if parting[side as usize] == Some(rows.seen[side as usize]) {
            let note = parting_note(&order_text(other));
            let _ = writeln!(text, "{}", beside(side, &note));
        }
        let ended = &followed.ended[side as usize];
        let _ = writeln!(text, "{}", beside(side, &ending(scenario, ended)));
    }
    text.push('\n');
    conclude(&mut text, scenario, &judgement.call);
    Ok(text)
}

/// One or more instructions of the same line.
struct Row {
    side: Side,
    line: Rc<str>,
    values: Vec<String>,
    /// Whether it touches bytes that both use.
    shared: bool,
    /// The order that differs from here on.
    parts: Option<String>,
}

struct Rows<'a> {
    scenario: &'a Scenario,
    /// What is raced on.
    race: Ranges,
    /// The lines of instructions, which may run thousands of times.
    lines: HashMap<u64, Rc<str>>,
    /// Memory as it is at this step.
    bytes: BTreeMap<u64, [u8; 4096]>,
    told: Vec<Row>,
    /// Steps of each thread so far.
    seen: [usize; 2],
}

impl Rows<'_> {
    fn add(&mut self, step: &Step, parts: Option<String>) {
        self.seen[step.side as usize] += usize::from(step.part != Part::Write);
        let line = match self.lines.entry(step.ip) {
            Entry::Occupied(known) => Rc::clone(known.get()),
            Entry::Vacant(new) => Rc::clone(new.insert(line(self.scenario, step.ip).into())),
        };
        let mut values = Vec::new();
        let mut shared = false;
        for (at, bytes) in &step.reads {
            if self.is_shared(*at, bytes.len()) && !step.writes.iter().any(|(w, _)| w == at) {
                shared = true;
                values.push(format!("reads {} = {}", self.name(*at), number(bytes)));
            }
        }
        for (at, bytes) in &step.writes {
            let before = self.replace(*at, bytes);
            let is_shared = self.is_shared(*at, bytes.len());
            shared |= is_shared;
            if is_shared || self.scenario.data.contains_key(at) {
                let (name, before, now) = (self.name(*at), number(&before), number(bytes));
                values.push(format!("{name} {before} -> {now}"));
            }
        }
        if step.part == Part::Read {
            values.push("interrupted before its write".to_owned());
        }
        let last = self.told.last_mut();
        match last.filter(|row| row.side == step.side && row.line == line && parts.is_none()) {
            Some(row) => {
                row.values.extend(values);
                row.shared |= shared;
            }
            None => self.told.push(Row {
                side: step.side,
                line,
                values,
                shared,
                parts,
            }),
        }
    }

    /// Whether it is among what the race is on.
    fn is_shared(&self, at: u64, len: usize) -> bool {
        self.race.touch(at, len as u64)
    }

    fn name(&self, at: u64) -> String {
        match self.scenario.data.get(&at) {
            Some((_, name)) => clean(name),
            None => format!("[{at:#x}]"),
        }
    }

    /// Writes bytes, and gives what was there.
    fn replace(&mut self, at: u64, bytes: &[u8]) -> Vec<u8> {
        let mut before = Vec::with_capacity(bytes.len());
        for (at, byte) in (at..).zip(bytes) {
            let page = self.bytes.entry(page_of(at)).or_insert([0; 4096]);
            let place = &mut page[(at % 4096) as usize];
            before.push(std::mem::replace(place, *byte));
        }
        before
    }

    fn write(&self, text: &mut String, all: bool) {
        let mut shown = [0; 2];
        let mut left_out = 0;
        for row in &self.told {
            let count = &mut shown[row.side as usize];
            *count += 1;
            if !all && *count > MOST_ROWS && !row.shared && row.parts.is_none() {
                left_out += 1;
                continue;
            }
            if let Some(order) = &row.parts {
                let _ = writeln!(text, "{}", beside(row.side, &parting_note(order)));
            }
            let _ = writeln!(text, "{}", beside(row.side, &row.line));
            for value in &row.values {
                let _ = writeln!(text, "{}", beside(row.side, &format!("      {value}")));
            }
        }
        if left_out > 0 {
            let _ = writeln!(
                text,
                "({left_out} lines that touch no shared bytes are left out; --all shows them)"
            );
        }
    }
}

/// Where each thread first does or reads something else than in the other order.
fn parting(this: &Followed, that: &Followed) -> [Option<usize>; 2] {
    [Side::A, Side::B].map(|side| {
        let (mut a, mut b) = (parts(this, side), parts(that, side));
        let mut common = 0;
        loop {
            match (a.next(), b.next()) {
                (None, None) => return None,
                (Some(x), Some(y)) if x.ip == y.ip && x.reads == y.reads => common += 1,
                _ => return Some(common),
            }
        }
    })
}

/// The steps of one thread. An interrupted update is one step in the other order.
fn parts(followed: &Followed, side: Side) -> impl Iterator<Item = &Step> {
    let steps = followed.steps.iter().filter(move |step| step.side == side);
    steps.filter(|step| step.part != Part::Write)
}

fn parting_note(order: &str) -> String {
    format!("-- from here on not as in order {order}")
}

/// A source line, or an instruction where there is none, as it can be shown.
fn line(scenario: &Scenario, ip: u64) -> String {
    let place = scenario.places.get(&ip);
    if let Some(place) = place
        && let Some((file, line)) = &place.line
    {
        let name = file.rsplit('/').next().unwrap_or(file);
        let text = place.text.as_deref().unwrap_or_default().trim();
        return clean(&format!("{}:{line}  {}", clean(name), clean(text)));
    }
    let function = place.and_then(|place| place.function.as_ref());
    let function = function
        .map(|name| format!("  ({})", clean(name)))
        .unwrap_or_default();
    format!("{ip:#x}  {}{function}", instruction(scenario, ip))
}

fn instruction(scenario: &Scenario, ip: u64) -> String {
    let mut code = Vec::new();
    for at in (ip..).take(15) {
        let Some(page) = scenario.memory.get(page_of(at)) else {
            break;
        };
        code.push(page.bytes.0[(at % 4096) as usize]);
    }
    let decoded = Instruction::decode(&code, ip);
    decoded.map_or_else(|| "?".to_owned(), |instruction| instruction.text())
}

fn ending(scenario: &Scenario, ended: &Ended) -> String {
    format!("=> {}: {}", ended.end, line(scenario, ended.ip))
}

fn conclude(text: &mut String, scenario: &Scenario, call: &Call) {
    let _ = match call {
        Call::NoStateChange => writeln!(text, "All orders leave the same state."),
        Call::Fault { orders } => {
            let orders: Vec<String> = orders.iter().map(|o| order_text(*o)).collect();
            writeln!(
                text,
                "These orders fail, and others do not: {}",
                orders.join(", ")
            )
        }
        Call::ReplayFailure(failure) => writeln!(text, "Nothing can be said: {failure}"),
        Call::StateChange {
            this,
            that,
            differences,
            further,
            untold,
        } => {
            let first = differences.iter().map(|difference| (that, difference));
            let further = further.iter().map(|(order, it)| (order, it));
            let mut before = None;
            for (that, difference) in first.chain(further) {
                if before != Some(that) {
                    let (x, y) = (order_text(*this), order_text(*that));
                    let _ = writeln!(text, "After order {x} and after order {y}:");
                    before = Some(that);
                }
                let words = difference_words(scenario, difference);
                let _ = writeln!(text, "  {}", clean(&words));
            }
            untold.as_ref().map_or(Ok(()), |why| {
                writeln!(text, "Other orders may differ in more: {why}")
            })
        }
    };
}

fn difference_words(scenario: &Scenario, difference: &Difference) -> String {
    match difference {
        Difference::Memory {
            address,
            this,
            that,
            words,
        } => {
            let mut below = scenario.data.range(..=*address).rev();
            let found = below.find(|(at, (len, _))| *address < at.saturating_add(*len));
            let Some((at, (len, name))) = found else {
                return format!("[{address:#x}]: {} or {}", number(this), number(that));
            };
            let name = clean(name);
            match whole((*at, *len), *address, [this, that], *words) {
                Some([this, that]) => format!("{name}: {this} or {that}"),
                None => format!(
                    "{} bytes of {name}: {} or {}",
                    this.len(),
                    number(this),
                    number(that)
                ),
            }
        }
        Difference::Register {
            side,
            name,
            this,
            that,
        } => format!("{name} of {side:?}: {this:#x} or {that:#x}"),
        Difference::Path { side } => format!("{side:?} goes on somewhere else"),
    }
}

/// The whole value of data of which some bytes differ, in either order, if the eight bytes around
/// them hold it.
fn whole(
    (start, len): (u64, u64),
    address: u64,
    bytes: [&Vec<u8>; 2],
    words: [u64; 2],
) -> Option<[String; 2]> {
    let word = address & !7;
    let from = usize::try_from(start.checked_sub(word)?).ok()?;
    let to = from.checked_add(usize::try_from(len).ok()?)?;
    let at = (address - word) as usize;
    let show = |word: u64, differing: &[u8]| {
        let word = word.to_le_bytes();
        // Scenarios are judged anew, so the words are there; but they may be anything.
        let holds = word.get(at..at + differing.len())? == differing && at + differing.len() <= to;
        holds.then_some(number(word.get(from..to)?))
    };
    Some([show(words[0], bytes[0])?, show(words[1], bytes[1])?])
}

fn order_words(order: Order) -> &'static str {
    match order {
        Order::First(Side::A) => "A first",
        Order::First(Side::B) => "B first",
        Order::Split { side: Side::A, .. } => "A is interrupted by B",
        Order::Split { side: Side::B, .. } => "B is interrupted by A",
        Order::Delayed { side: Side::A, .. } => "A first, but one of its stores arrives last",
        Order::Delayed { side: Side::B, .. } => "B first, but one of its stores arrives last",
    }
}

fn beside(side: Side, text: &str) -> String {
    match side {
        Side::A => format!("{}|", cell(text)),
        Side::B => format!("{}| {}", cell(""), clean(text)),
    }
}

/// Text in the left column. What is in a file must not control the terminal.
fn cell(text: &str) -> String {
    let text: String = clean(text).chars().take(COLUMN - 1).collect();
    format!("{text:<COLUMN$}")
}

fn clean(text: &str) -> String {
    // Lines of source have tabs.
    let shown = |c: char| if c == '\t' { ' ' } else { c };
    let start: String = text.chars().take(MOST_CHARACTERS).map(shown).collect();
    redhanded_report::clean(&start, true).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_spelled_out() {
        assert_eq!(clean("\x1b[2J a\u{202e}b\tc"), "\\x1b[2J a\\u{202e}b c");
        assert_eq!(clean("a\u{200b}b"), "a\\u{200b}b");
        assert_eq!(clean(&"x".repeat(1000)).len(), MOST_CHARACTERS);
        // A column shows what was cleaned before.
        assert_eq!(cell("\x1b").trim_end(), "\\x1b");
        assert_eq!(cell(&clean("\x1b")), cell("\x1b"));
    }

    #[test]
    fn a_value_is_told_whole() {
        let words = [0x3bbc_0000_0007, 0x3bbb_0000_0007];
        let bytes = [&vec![0xbc], &vec![0xbb]];
        let told = whole((0x1004, 4), 0x1004, bytes, words);
        assert_eq!(told, Some(["0x3bbc", "0x3bbb"].map(str::to_owned)));
        // It begins before these eight bytes, or goes on behind them.
        assert_eq!(whole((0xffc, 16), 0x1004, bytes, words), None);
        assert_eq!(whole((0x1004, 8), 0x1004, bytes, words), None);
        assert_eq!(whole((0x1004, 4), 0x1004, bytes, [0; 2]), None);
    }
}
