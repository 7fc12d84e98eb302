//! Reading a report and holding it against what a program of the corpus expects.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use redhanded_model::{AccessReport, Class, Frame, Race, Report, Values, What};
use redhanded_report::json;
use serde::Serialize;

use crate::claims::{Expectation, FunctionName};
use crate::command;

/// Reads a report file.
pub fn read(path: &Path) -> Result<Report> {
    let text = fs::read(path)
        .with_context(|| format!("redhanded left no report at {}", path.display()))?;
    json::read(&text).with_context(|| format!("cannot read the report {}", path.display()))
}

/// Whether anything is reported that by default fails a run.
pub fn has_race(report: &Report) -> bool {
    report.races.iter().any(|race| race.class == Class::Race)
}

/// The word for a class, a context or a loss in documents and directives.
pub fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
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
        let after = self
            .functions
            .partition_point(|(start, _)| *start <= frame.address);
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

/// What the judge knows of the program beside its report.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// Present when the program is stripped: then names may be missing.
    pub stripped: Option<Symbols>,
    /// Whether variables and types are not described: then a race may be possibly
    /// atomic for all that the binary shows, and fields have no names.
    pub scant: bool,
    /// Whether kernel accesses cannot be watched, so that a system call shows
    /// only as bytes that changed.
    pub unprivileged: bool,
}

impl Circumstances {
    /// Whether this race is the expected one.
    pub fn meets(&self, expected: &Expectation, race: &Race) -> bool {
        let class = match &expected.class {
            Some(class) => class == "*" || word(race.class) == *class,
            None => {
                race.class == Class::Race || (self.scant && race.class == Class::PossiblyAtomic)
            }
        };
        class
            && self.meets_what(expected, &race.what)
            && self.meets_values(expected, &race.values)
            && self.meets_sides(expected, race)
    }

    /// Whether this is the expected race, told with values that cannot be right.
    pub fn misstates(&self, expected: &Expectation, race: &Race) -> bool {
        let values = &race.values;
        expected.changed && values.before == values.after && self.meets(expected, race)
    }

    fn meets_values(&self, expected: &Expectation, values: &Values) -> bool {
        if expected.typed.is_empty() || self.scant {
            return true;
        }
        let is_expected = |text: &String| expected.typed.contains(text);
        values
            .typed
            .as_ref()
            .is_some_and(|typed| is_expected(&typed.before) && is_expected(&typed.after))
    }

    fn meets_what(&self, expected: &Expectation, what: &What) -> bool {
        let region = what.region.to_string();
        let words = |wanted: &String| region.split([' ', ',']).any(|word| word == wanted);
        let here = |wanted: &String| match wanted.strip_prefix('!') {
            Some(unwanted) => !words(&unwanted.to_owned()),
            None => words(wanted),
        };
        if !expected.region.iter().all(here) {
            return false;
        }
        if expected.block.is_some() && what.block.map(|block| block.size) != expected.block {
            return false;
        }
        let frame = || what.frame.as_deref().map(base_name);
        if expected.frame.is_some() && !self.scant && frame() != expected.frame.as_deref() {
            return false;
        }
        if let Some(wanted) = &expected.pointee
            && !self.scant
            && what.name.is_none()
            && !names_pointee(what, wanted)
        {
            return false;
        }
        match (&expected.what, &what.name) {
            (None, _) => true,
            (Some(_), None) => self.stripped.is_some(),
            (Some(wanted), Some(_)) if self.scant => {
                begins(what, wanted.split(['.', '[']).next().unwrap_or(wanted))
            }
            (Some(wanted), Some(_)) => begins(what, wanted),
        }
    }

    fn meets_sides(&self, expected: &Expectation, race: &Race) -> bool {
        if let Some(wanted) = &expected.pointee
            && !self.scant
            && race.what.name.is_some()
            && !race.accesses.iter().any(|side| means(side, wanted))
        {
            return false;
        }
        let seen = |name: &FunctionName, access: &AccessReport| self.is_in(name, access);
        let does = |access: &AccessReport, side: usize| {
            expected
                .kind(side)
                .is_none_or(|kind| word(access.kind) == kind)
        };
        match (&expected.functions[..], &race.accesses[..]) {
            ([name], [only]) => {
                (expected.unknown_origin || self.unprivileged) && seen(name, only) && does(only, 0)
            }
            ([name], [a, b]) => {
                let call = expected.system_call.as_deref();
                let by_call =
                    |access: &AccessReport| call.is_some() && access.system_call.as_deref() == call;
                let both = |a: &AccessReport, b: &AccessReport| {
                    seen(name, a) && by_call(b) && does(a, 0) && does(b, 1)
                };
                both(a, b) || both(b, a)
            }
            ([first, second], [a, b]) => {
                let both = |a: &AccessReport, b: &AccessReport| {
                    seen(first, a)
                        && seen(second, b)
                        && is_in_context(a, expected.context(0))
                        && is_in_context(b, expected.context(1))
                        && does(a, 0)
                        && does(b, 1)
                };
                both(a, b) || both(b, a)
            }
            _ => false,
        }
    }

    fn is_in(&self, wanted: &FunctionName, access: &AccessReport) -> bool {
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

/// A program's thread is a task.
fn is_in_context(access: &AccessReport, wanted: &str) -> bool {
    let context = access.thread.context;
    context.map_or("task".to_owned(), |context| word(context.kind)) == wanted
}

/// Whether what is behind the pointer is this, beyond doubt: `item.flags` is
/// `struct item.flags`, and `Account.balance` is `bank::Account.balance`.
fn names_pointee(what: &What, wanted: &str) -> bool {
    let Some(pointee) = what.pointee.as_ref().filter(|pointee| !pointee.doubtful) else {
        return false;
    };
    let name = pointee.name();
    let name = name.rsplit(' ').next().unwrap_or(&name);
    name.rsplit("::").next().unwrap_or(name) == wanted
}

/// Whether a side means an element of the array `wanted`, although the bytes are another's.
fn means(side: &AccessReport, wanted: &str) -> bool {
    let meant = side.pointee.as_ref().filter(|pointee| pointee.outside);
    let name = meant.and_then(|pointee| pointee.expression.as_deref());
    name.is_some_and(|name| name.split('[').next() == Some(wanted))
}

/// Whether the variable with its field path begins with `wanted`, at a whole name.
pub fn begins(what: &What, wanted: &str) -> bool {
    let Some(name) = &what.name else { return false };
    let short = without_package(name.rsplit("::").next().unwrap_or(name));
    let path = format!("{short}{}", what.field.as_deref().unwrap_or(""));
    path.strip_prefix(wanted)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
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
    let last = without_package(cut.rsplit("::").next().unwrap_or(cut));
    last.split('.').next().unwrap_or(last)
}

/// A name of Go's package `main` without the package. What C compilers append to a
/// function `main` is no name.
fn without_package(name: &str) -> &str {
    const APPENDED: &[&str] = &["cold", "constprop", "isra", "part", "lto_priv"];
    match name.strip_prefix("main.") {
        Some(rest) if !APPENDED.iter().any(|one| rest.starts_with(one)) => rest,
        _ => name,
    }
}

/// Reports for tests.
#[cfg(test)]
pub mod sample {
    use super::{Race, Report};
    use redhanded_report::Writer;
    use redhanded_report::json::Json;
    use serde_json::{Value, json};

    /// The race that a fragment of its document tells. Whatever the fragment leaves
    /// out is empty.
    pub fn race(fragment: &str) -> Race {
        let what = json!({
            "name": null, "type": null, "field": null, "bit_fields": [], "address": "0x0", "size": 0,
        });
        let access = json!({
            "thread": {"tid": 1, "name": ""}, "kind": "write", "size": 4, "pc": "0x0",
            "instruction": null, "atomic": false, "function": null, "file": null, "line": null,
            "system_call": null, "stack": [],
        });
        let context = json!({"cpu": 0, "interrupts_off": false, "preemption_off": false});
        let frame = json!({
            "function": null, "file": null, "line": null, "module": null, "address": "0x0",
            "inlined": false,
        });
        let mut race = json!({
            "fingerprint": "", "class": "race", "what": {}, "seen_by": "watch",
            "values": {"before": "", "after": ""}, "instances": 1, "lines": [], "accesses": [],
        });
        take(&mut race, serde_json::from_str(fragment).unwrap());
        complete(&mut race["what"], &what);
        for told in race["accesses"].as_array_mut().unwrap() {
            complete(told, &access);
            complete(&mut told["thread"], &access["thread"]);
            if let Some(told) = told["thread"].get_mut("context") {
                complete(told, &context);
            }
            for told in told["stack"].as_array_mut().unwrap() {
                complete(told, &frame);
            }
        }
        serde_json::from_value(race).unwrap()
    }

    fn complete(told: &mut Value, with: &Value) {
        let mut whole = with.clone();
        take(&mut whole, told.take());
        *told = whole;
    }

    fn take(whole: &mut Value, told: Value) {
        let Value::Object(told) = told else {
            panic!("no object: {told}")
        };
        whole.as_object_mut().unwrap().extend(told);
    }

    /// A report of so many windows.
    pub fn report(windows: u64, races: Vec<Race>) -> Report {
        let mut report = Report {
            races,
            ..Report::default()
        };
        report.run.windows = windows;
        report.run.samples = windows;
        report
    }

    /// The document of a report.
    pub fn document(report: &Report) -> Vec<u8> {
        let mut text = Vec::new();
        Json.write(report, &mut text).unwrap();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;
    use crate::corpus::program::Program;
    use crate::judge::sample::race;

    fn expectation(words: &str) -> Expectation {
        let text = format!("//@ build: O0\n//@ expect: {words}\n");
        let kernel = Program::parse(List::Expected, Path::new("k.c"), &text).unwrap();
        kernel.claims.expects[0].clone()
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
        assert!(meets(&format!("class=* {words}"), &special));
    }

    #[test]
    fn each_side_has_its_kind() {
        let caught = r#"{"class":"race","what":{"name":"mode","field":null},"accesses":[
            {"function":"toggle","kind":"write"},{"function":"f","system_call":"ioctl","kind":"read"}]}"#;
        let words = "what=mode functions=toggle system_call=ioctl";
        assert!(meets(words, caught));
        assert!(meets(&format!("{words} kinds=write,read"), caught));
        assert!(!meets(&format!("{words} kinds=write,write"), caught));
        assert!(!meets(&format!("{words} kinds=read,read"), caught));
    }

    #[test]
    fn values_must_be_told_as_changed_where_that_is_said() {
        let words = expectation("what=st functions=bump,__memmove values=changed");
        let judge = Circumstances::default();
        let with = |before: &str, after: &str| {
            let values = format!(r#"{{"values":{{"before":"{before}","after":"{after}"}},"#);
            race(&BOTH.replacen('{', &values, 1))
        };
        assert!(judge.misstates(&words, &with("0d01", "0d01")));
        assert!(!judge.misstates(&words, &with("0d01", "0e01")));
        let anything = expectation("what=st functions=bump,__memmove");
        assert!(!judge.misstates(&anything, &with("0d01", "0d01")));
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
            r#""name":null,"field":null,"memory":{"kind":"mapping","name":"anonymous","shared":true}"#,
        );
        assert!(meets(
            "what=* region=shared functions=bump,__memmove",
            &heap
        ));
        assert!(!meets("what=* region=heap functions=bump,__memmove", &heap));
        let elsewhere = |word: &str| format!("what=* region=!{word} functions=bump,__memmove");
        assert!(meets(&elsewhere("heap"), &heap));
        assert!(!meets(&elsewhere("shared"), &heap));
    }

    #[test]
    fn a_possibly_atomic_race_is_expected_where_types_are_not_described_only() {
        let softer = BOTH.replace("\"race\"", "\"possibly-atomic\"");
        let words = "what=st functions=bump,__memmove";
        assert!(!meets(words, &softer));
        let scant = Circumstances {
            scant: true,
            ..Default::default()
        };
        assert!(scant.meets(&expectation(words), &race(&softer)));
        let strict = expectation(&format!("class=race {words}"));
        assert!(!scant.meets(&strict, &race(&softer)));
        assert!(scant.meets(&strict, &race(BOTH)));
        let field = expectation("what=st.unnamed functions=bump,__memmove");
        assert!(scant.meets(&field, &race(BOTH)), "fields have no names");
    }

    #[test]
    fn a_stripped_program_is_named_by_its_unstripped_copy() {
        let nameless = race(
            r#"{"class":"race","what":{"name":null,"field":null},"accesses":[
            {"function":null,"stack":[{"function":null,"module":"k","address":"0x1008"}]},
            {"function":null,"stack":[{"function":null,"module":"k","address":"0x2008"}]}]}"#,
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
            ("main.bump", "bump"),
            ("main.worker.func1", "worker"),
            ("main.cold", "main"),
            ("main.constprop.0", "main"),
        ] {
            assert_eq!(base_name(full), base, "of {full}");
        }
    }
}
