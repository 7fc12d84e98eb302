//! Reading a report and holding it against what a kernel expects.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::claims::{Expectation, FunctionName};
use crate::command;

/// As much of a report as judging needs.
#[derive(Debug, Deserialize)]
pub struct Report {
    /// Which format it is in.
    pub schema: String,
    /// Facts of the run.
    pub run: Run,
    /// What was found.
    pub races: Vec<Race>,
}

/// Facts of a run.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// Windows that were opened.
    pub windows: u64,
    /// Breakpoints that fired.
    pub samples: u64,
    /// Why samples and traps said nothing.
    #[serde(default)]
    pub losses: BTreeMap<String, Value>,
}

/// One race.
#[derive(Debug, Deserialize)]
pub struct Race {
    /// `race` or `possibly-atomic`.
    pub class: String,
    /// What is raced on.
    pub what: What,
    /// One side, or both.
    pub accesses: Vec<Access>,
    /// Every pair of lines it was seen at.
    #[serde(default)]
    pub lines: Vec<Vec<Line>>,
}

/// Where one side of a race was seen.
#[derive(Debug, Deserialize)]
pub struct Line {
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// What is raced on.
#[derive(Debug, Deserialize)]
pub struct What {
    /// The variable.
    pub name: Option<String>,
    /// The path within it.
    pub field: Option<String>,
    /// Where it lies, in words.
    #[serde(default)]
    pub region: String,
}

/// One side of a race.
#[derive(Debug, Deserialize)]
pub struct Access {
    /// Whose it is.
    #[serde(default)]
    pub thread: Thread,
    /// The innermost function.
    pub function: Option<String>,
    /// The system call that made the access.
    pub system_call: Option<String>,
    /// The stack, innermost first.
    #[serde(default)]
    pub stack: Vec<Frame>,
}

/// Who made an access.
#[derive(Debug, Default, Deserialize)]
pub struct Thread {
    /// In a kernel: in which context.
    pub context: Option<Context>,
}

/// What a kernel ran the code in.
#[derive(Debug, Deserialize)]
pub struct Context {
    /// `task`, `softirq`, `hardirq` or `nmi`.
    pub kind: String,
}

/// One frame of a stack.
#[derive(Debug, Deserialize)]
pub struct Frame {
    /// Its function.
    pub function: Option<String>,
    /// The module's file name.
    pub module: Option<String>,
    /// The address in the module's file, as a number or as `0x…`.
    #[serde(default)]
    pub address: Value,
}

impl Report {
    /// Reads a report file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("redhanded left no report at {}", path.display()))?;
        let report: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a report", path.display()))?;
        ensure!(
            report.schema == "redhanded-report/1",
            "{} has the schema {}, not redhanded-report/1",
            path.display(),
            report.schema
        );
        Ok(report)
    }

    /// Whether anything is reported that by default fails a run.
    pub fn has_race(&self) -> bool {
        self.races.iter().any(|race| race.class == "race")
    }
}

/// Names for the addresses of a program whose own symbols were stripped.
#[derive(Debug, Default)]
pub struct Symbols {
    module: String,
    /// Start, and name, in ascending order.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the function symbols of the unstripped copy.
    pub fn read(copy: &Path) -> Result<Self> {
        let mut nm = Command::new("nm");
        nm.args(["--numeric-sort", "--defined-only", "--demangle"])
            .arg(copy);
        let outcome = command::captured(&mut nm, Duration::from_secs(60))?;
        ensure!(
            outcome.success(),
            "nm cannot read {}: {}",
            copy.display(),
            outcome.stderr
        );
        let functions = outcome.stdout.lines().filter_map(function_symbol).collect();
        Ok(Self {
            module: copy
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            functions,
        })
    }

    fn name(&self, frame: &Frame) -> Option<&str> {
        if frame.module.as_deref() != Some(self.module.as_str()) {
            return None;
        }
        let address = number(&frame.address)?;
        let after = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

fn function_symbol(line: &str) -> Option<(u64, String)> {
    let mut parts = line.splitn(3, ' ');
    let start = u64::from_str_radix(parts.next()?, 16).ok()?;
    let kind = parts.next()?;
    matches!(kind, "t" | "T" | "w" | "W" | "i").then(|| Some((start, parts.next()?.to_owned())))?
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    }
}

/// What the judge knows of the program beside its report.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// Present when the program is stripped: then names may be missing, and a
    /// race may be possibly atomic for all that the binary shows.
    pub stripped: Option<Symbols>,
    /// Whether kernel accesses cannot be watched, so that a system call shows
    /// only as bytes that changed.
    pub unprivileged: bool,
}

impl Circumstances {
    /// Whether this race is the expected one.
    pub fn meets(&self, expected: &Expectation, race: &Race) -> bool {
        let class = race.class == expected.class || self.stripped.is_some();
        class && self.meets_what(expected, &race.what) && self.meets_sides(expected, race)
    }

    fn meets_what(&self, expected: &Expectation, what: &What) -> bool {
        let words = |wanted: &String| {
            let mut words = what.region.split([' ', ',']);
            words.any(|word| word == wanted)
        };
        if !expected.region.iter().all(words) {
            return false;
        }
        match (&expected.what, &what.name) {
            (None, _) => true,
            (Some(_), None) => self.stripped.is_some(),
            (Some(_), Some(_)) => expected
                .what
                .as_deref()
                .is_some_and(|name| what.begins(name)),
        }
    }

    fn meets_sides(&self, expected: &Expectation, race: &Race) -> bool {
        let seen = |name: &FunctionName, access: &Access| self.is_in(name, access);
        match (&expected.functions[..], &race.accesses[..]) {
            ([name], [only]) => (expected.unknown_origin || self.unprivileged) && seen(name, only),
            ([name], [a, b]) => {
                let call = expected.system_call.as_deref();
                let by_call =
                    |access: &Access| call.is_some() && access.system_call.as_deref() == call;
                (seen(name, a) && by_call(b)) || (seen(name, b) && by_call(a))
            }
            ([first, second], [a, b]) => {
                let both = |a: &Access, b: &Access| {
                    seen(first, a)
                        && seen(second, b)
                        && a.is_in_context(expected.context(0))
                        && b.is_in_context(expected.context(1))
                };
                both(a, b) || both(b, a)
            }
            _ => false,
        }
    }

    fn is_in(&self, wanted: &FunctionName, access: &Access) -> bool {
        if access.system_call.is_some() {
            return false;
        }
        let resolved = |frame: &Frame| {
            let own = self
                .stripped
                .as_ref()
                .and_then(|symbols| symbols.name(frame));
            own.or(frame.function.as_deref())
                .is_some_and(|name| base_name(name) == wanted.name)
        };
        let innermost = match &access.function {
            Some(name) => base_name(name) == wanted.name,
            None => access.stack.first().is_some_and(resolved),
        };
        innermost || (wanted.anywhere && access.stack.iter().any(resolved))
    }
}

impl Access {
    /// A program's thread is a task.
    fn is_in_context(&self, wanted: &str) -> bool {
        let context = self.thread.context.as_ref();
        context.map_or("task", |context| &context.kind) == wanted
    }
}

impl What {
    /// Whether the variable with its field path begins with `wanted`, at a whole name.
    pub fn begins(&self, wanted: &str) -> bool {
        let Some(name) = &self.name else { return false };
        let short = name.rsplit("::").next().unwrap_or(name);
        let path = format!("{short}{}", self.field.as_deref().unwrap_or(""));
        path.strip_prefix(wanted).is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    }
}

/// The last path segment of a function's name without arguments, template
/// arguments and what compilers append: `work::List::push(work::Node*)` is
/// `push`, and so are `List<int>::push` and `push.constprop.0`.
pub fn base_name(name: &str) -> &str {
    let end = name
        .find(['(', '<'])
        .filter(|&at| at > 0)
        .unwrap_or(name.len());
    // `List<int>::push(…)`: the angle belongs to the class, not to the function.
    let cut = match name[..end].len() {
        at if name[at..].starts_with('<') => match name.rfind(">::") {
            Some(close) => base_name(&name[close + 3..]),
            None => &name[..end],
        },
        _ => &name[..end],
    };
    // A return type, as demangled templates have it: `int lookup<3>(int)`.
    let cut = cut.rsplit(' ').next().unwrap_or(cut);
    let last = cut.rsplit("::").next().unwrap_or(cut);
    last.split('.').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;
    use crate::corpus::program::Program;

    fn expectation(words: &str) -> Expectation {
        let text = format!("//@ build: O0\n//@ expect: {words}\n");
        let kernel = Program::parse(List::Expected, Path::new("k.c"), &text).unwrap();
        kernel.claims.expects[0].clone()
    }

    fn race(json: &str) -> Race {
        serde_json::from_str(json).unwrap()
    }

    const BOTH: &str = r#"{"class":"race","what":{"name":"st","field":".flags"},"accesses":[
        {"function":"k::bump(int)","stack":[]},
        {"function":"__memmove","stack":[{"function":"__memmove"},{"function":"copy_in"}]}]}"#;

    fn meets(words: &str, json: &str) -> bool {
        Circumstances::default().meets(&expectation(words), &race(json))
    }

    #[test]
    fn functions_are_unordered_and_callers_only_where_asked() {
        assert!(meets("what=st functions=bump,~copy_in", BOTH));
        assert!(meets("what=st functions=~copy_in,bump", BOTH));
        assert!(!meets("what=st functions=bump,copy_in", BOTH));
        assert!(!meets("what=st functions=bump,bump", BOTH));
    }

    #[test]
    fn a_class_can_be_expected() {
        let words = "what=st functions=bump,__memmove";
        let special = BOTH.replace("\"race\"", "\"special\"");
        assert!(!meets(words, &special));
        assert!(meets(&format!("class=special {words}"), &special));
        assert!(!meets(&format!("class=special {words}"), BOTH));
    }

    #[test]
    fn each_side_has_its_context() {
        let side = |function: &str, kind: &str| {
            format!(r#"{{"function":"{function}","thread":{{"context":{{"kind":"{kind}"}}}}}}"#)
        };
        let race = |a: String, b: String| {
            format!(r#"{{"class":"race","what":{{"name":"n","field":null}},"accesses":[{a},{b}]}}"#)
        };
        let caught = race(side("tick", "softirq"), side("take", "task"));
        let words = "what=n functions=take,tick";
        assert!(meets(&format!("{words} contexts=task,softirq"), &caught));
        assert!(!meets(&format!("{words} contexts=softirq,task"), &caught));
        assert!(!meets(words, &caught), "both are tasks if nothing is said");
        let tasks = race(side("tick", "task"), side("take", "task"));
        assert!(meets(words, &tasks));
    }

    #[test]
    fn a_variable_is_matched_at_whole_names() {
        assert!(meets("what=st.flags functions=bump,__memmove", BOTH));
        assert!(!meets("what=s functions=bump,__memmove", BOTH));
        assert!(!meets("what=st.flag functions=bump,__memmove", BOTH));
        assert!(meets("what=* functions=bump,__memmove", BOTH));
    }

    #[test]
    fn memory_without_a_name_is_told_by_its_region() {
        let heap = BOTH.replace(
            r#""name":"st","field":".flags""#,
            r#""name":null,"field":null,"region":"anonymous mapping, shared""#,
        );
        assert!(meets(
            "what=* region=shared functions=bump,__memmove",
            &heap
        ));
        assert!(!meets("what=* region=heap functions=bump,__memmove", &heap));
    }

    #[test]
    fn a_possibly_atomic_race_is_expected_of_stripped_programs_only() {
        let softer = BOTH.replace("\"race\"", "\"possibly-atomic\"");
        let words = "what=st functions=bump,__memmove";
        assert!(!meets(words, &softer));
        let stripped = Circumstances {
            stripped: Some(Symbols::default()),
            ..Default::default()
        };
        assert!(stripped.meets(&expectation(words), &race(&softer)));
    }

    #[test]
    fn a_stripped_program_is_named_by_its_unstripped_copy() {
        let nameless = race(
            r#"{"class":"race","what":{"name":null,"field":null},"accesses":[
            {"function":null,"stack":[{"function":null,"module":"k","address":"0x1008"}]},
            {"function":null,"stack":[{"function":null,"module":"k","address":8200}]}]}"#,
        );
        let functions = [
            "0000000000001000 t bump",
            "0000000000002000 T look",
            "0000000000004000 B st",
        ];
        let symbols = Symbols {
            module: "k".to_owned(),
            functions: functions
                .iter()
                .filter_map(|line| function_symbol(line))
                .collect(),
        };
        let stripped = Circumstances {
            stripped: Some(symbols),
            ..Default::default()
        };
        assert!(stripped.meets(&expectation("what=st functions=look,bump"), &nameless));
        assert!(!stripped.meets(&expectation("what=st functions=look,look"), &nameless));
    }

    #[test]
    fn the_other_side_may_be_a_system_call_or_unknown() {
        let read = r#"{"class":"race","what":{"name":"buffer","field":"[20]"},"accesses":[
            {"function":"consume"},{"function":"read","system_call":"read"}]}"#;
        let words = "what=buffer functions=consume system_call=read";
        assert!(meets(words, read));
        assert!(!meets(
            "what=buffer functions=consume system_call=recv",
            read
        ));
        let one = r#"{"class":"race","what":{"name":"buffer","field":null},"accesses":[
            {"function":"consume"}]}"#;
        assert!(meets("origin=unknown what=buffer functions=consume", one));
        assert!(!meets(words, one), "as root the system call must be seen");
        let user = Circumstances {
            unprivileged: true,
            ..Default::default()
        };
        assert!(user.meets(&expectation(words), &race(one)));
        assert!(!meets("what=buffer functions=consume,consume", one));
    }

    #[test]
    fn base_names() {
        for (full, base) in [
            ("bump", "bump"),
            ("work::List::push(work::Node*)", "push"),
            ("List<int>::push(int)", "push"),
            ("int lookup<3>(int)", "lookup"),
            ("add_squares._omp_fn.0", "add_squares"),
            ("static_mut::count_hit", "count_hit"),
            ("main::{{closure}}", "{{closure}}"),
        ] {
            assert_eq!(base_name(full), base, "of {full}");
        }
    }
}
