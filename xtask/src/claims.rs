//! What a corpus source claims: which races must be reported about it and which must
//! not. Programs and kernel modules use the same directives, which `docs/corpus.md`
//! describes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Which list a source is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Its races must be found.
    Expected,
    /// Nothing may be reported; its twin's races must be found.
    Never,
}

/// The claims of one source.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Which list it is on.
    pub list: List,
    /// What must be reported: about itself if expected, about its twin if never.
    pub expects: Vec<Expectation>,
    /// Variables that must not be reported although a race is expected.
    pub silent: Vec<String>,
    /// Variables that a report may name once only.
    pub once: Vec<String>,
    /// Functions that access the guarded memory.
    pub focus: Vec<String>,
}

impl Claims {
    /// No claims yet.
    pub const fn new(list: List) -> Self {
        Self {
            list,
            expects: Vec::new(),
            silent: Vec::new(),
            once: Vec::new(),
            focus: Vec::new(),
        }
    }

    /// Takes a directive; false if this list has no such directive.
    pub fn take(&mut self, key: &str, value: &str) -> Result<bool> {
        match (key, self.list) {
            ("expect", List::Expected) | ("twin-expect", List::Never) => {
                self.expects.push(Expectation::parse(value)?);
            }
            ("silent" | "once", List::Expected) => {
                let what = value.trim().strip_prefix("what=");
                let what = what.with_context(|| format!("`{key}` takes `what=NAME`"))?;
                let list = match key {
                    "silent" => &mut self.silent,
                    _ => &mut self.once,
                };
                list.push(what.to_owned());
            }
            ("focus", List::Never) => {
                self.focus
                    .extend(value.split_whitespace().map(str::to_owned));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The directives that [`Claims::take`] knows, for an error message.
    pub const fn known(&self) -> &'static str {
        match self.list {
            List::Expected => "expect, silent, once",
            List::Never => "focus, twin-expect, allow",
        }
    }

    /// Fails if a required directive is missing.
    pub fn check(&self) -> Result<()> {
        match self.list {
            List::Expected => ensure!(!self.expects.is_empty(), "no `expect` directive"),
            List::Never => {
                ensure!(!self.expects.is_empty(), "no `twin-expect` directive");
                ensure!(!self.focus.is_empty(), "no `focus` directive");
            }
        }
        Ok(())
    }

    /// Functions to sample in the twin: those that access the guarded memory and those
    /// of its races.
    pub fn twin_focus(&self) -> Vec<String> {
        let mut focus = self.focus.clone();
        for expectation in &self.expects {
            for function in &expectation.functions {
                if !focus.contains(&function.name) {
                    focus.push(function.name.clone());
                }
            }
        }
        focus
    }
}

/// One race that must be in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The beginning of the variable's name with its field path; `None` for anything.
    pub what: Option<String>,
    /// What is behind the pointer: the type, without keywords and scopes, and the path. Builds
    /// without types know nothing of it.
    pub pointee: Option<String>,
    /// The values, before and after, that it may have in its type. Builds without types know
    /// nothing of them.
    pub typed: Vec<String>,
    /// The size of the allocator's block.
    pub block: Option<u64>,
    /// The function in whose frame on the stack it lies.
    pub frame: Option<String>,
    /// A word of the region it lies in: `heap`, `stack`, `shared`.
    pub region: Option<String>,
    /// The functions of the accesses, in either order.
    pub functions: Vec<FunctionName>,
    /// Whether the other side is unknown.
    pub unknown_origin: bool,
    /// The system call of the other side.
    pub system_call: Option<String>,
    /// The kernel context of each function, in the same order.
    contexts: Vec<String>,
    /// What each side does, in the order of the functions; a system call comes last.
    kinds: Vec<String>,
    /// Whether the bytes must be told as changed.
    pub changed: bool,
    /// The class that it must be reported as, whatever debug information there is.
    /// Without one it is `race`, or possibly atomic where types are not described.
    pub class: Option<String>,
}

impl Expectation {
    /// Whether the other side is the kernel, reading. Only root sees that: it changes nothing.
    pub fn is_read_by_kernel(&self) -> bool {
        self.system_call.is_some() && self.kinds.last().is_some_and(|kind| kind == "read")
    }
}

/// What an access can do.
const KINDS: &[&str] = &["read", "write", "update"];

/// The contexts that a kernel runs code in.
const CONTEXTS: &[&str] = &["task", "softirq", "hardirq", "nmi"];

/// A function that an access must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Its last path segment, without arguments.
    pub name: String,
    /// Whether it may be anywhere on the stack (`~name`), as a caller of memcpy is.
    pub anywhere: bool,
}

impl Expectation {
    fn parse(value: &str) -> Result<Self> {
        let mut what = None;
        let mut expectation = Self {
            what: None,
            pointee: None,
            typed: Vec::new(),
            block: None,
            frame: None,
            region: None,
            functions: Vec::new(),
            unknown_origin: false,
            system_call: None,
            contexts: Vec::new(),
            kinds: Vec::new(),
            changed: false,
            class: None,
        };
        for word in value.split_whitespace() {
            match word.split_once('=') {
                Some(("what", name)) => what = Some(name),
                Some(("functions", names)) => {
                    expectation.functions = names.split(',').map(FunctionName::parse).collect();
                }
                Some(("pointee", name)) => expectation.pointee = Some(name.to_owned()),
                Some(("typed", names)) => {
                    expectation.typed = names.split(',').map(str::to_owned).collect();
                }
                Some(("block", size)) => {
                    expectation.block = Some(size.parse().context("`block` is a number of bytes")?);
                }
                Some(("frame", name)) => expectation.frame = Some(name.to_owned()),
                Some(("region", word)) => expectation.region = Some(word.to_owned()),
                Some(("origin", "unknown")) => expectation.unknown_origin = true,
                Some(("system_call", name)) => expectation.system_call = Some(name.to_owned()),
                Some(("class", name)) => expectation.class = Some(name.to_owned()),
                Some(("values", "changed")) => expectation.changed = true,
                Some(("kinds", kinds)) => {
                    expectation.kinds = kinds.split(',').map(str::to_owned).collect();
                    ensure!(
                        expectation
                            .kinds
                            .iter()
                            .all(|kind| KINDS.contains(&kind.as_str())),
                        "`kinds` are of {}",
                        KINDS.join(", ")
                    );
                }
                Some(("contexts", kinds)) => {
                    expectation.contexts = kinds.split(',').map(str::to_owned).collect();
                    ensure!(
                        expectation
                            .contexts
                            .iter()
                            .all(|kind| CONTEXTS.contains(&kind.as_str())),
                        "`contexts` are of {}",
                        CONTEXTS.join(", ")
                    );
                }
                _ => bail!(
                    "`{word}` is none of class=, what=, pointee=, typed=, block=, frame=, region=, functions=, contexts=, kinds=, \
                     values=changed, origin=unknown, system_call="
                ),
            }
        }
        expectation.what = match what {
            Some("*") => None,
            Some(name) => Some(name.to_owned()),
            None => bail!("say what is raced on: what=NAME, or what=* for memory without a name"),
        };
        let one_sided = expectation.unknown_origin || expectation.system_call.is_some();
        ensure!(
            expectation.functions.len() == if one_sided { 1 } else { 2 },
            "two functions are needed, or one where the other side is unknown or a system call"
        );
        ensure!(
            expectation.contexts.is_empty()
                || expectation.contexts.len() == expectation.functions.len(),
            "`contexts` says one for each function, or is left out"
        );
        let sides = if expectation.unknown_origin { 1 } else { 2 };
        ensure!(
            expectation.kinds.is_empty() || expectation.kinds.len() == sides,
            "`kinds` says one for each side, or is left out"
        );
        Ok(expectation)
    }

    /// The same as far as a recording can tell it: it has no values.
    pub fn without_values(&self) -> Self {
        Self {
            typed: Vec::new(),
            changed: false,
            ..self.clone()
        }
    }

    /// The context of the function at this index.
    pub fn context(&self, function: usize) -> &str {
        self.contexts.get(function).map_or("task", String::as_str)
    }

    /// What the side at this index must do, if that is said.
    pub fn kind(&self, side: usize) -> Option<&str> {
        self.kinds.get(side).map(String::as_str)
    }
}

/// The text of the directive.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(class) = &self.class {
            write!(f, "class={class} ")?;
        }
        if self.unknown_origin {
            f.write_str("origin=unknown ")?;
        }
        write!(f, "what={}", self.what.as_deref().unwrap_or("*"))?;
        if let Some(pointee) = &self.pointee {
            write!(f, " pointee={pointee}")?;
        }
        if !self.typed.is_empty() {
            write!(f, " typed={}", self.typed.join(","))?;
        }
        if let Some(block) = &self.block {
            write!(f, " block={block}")?;
        }
        if let Some(frame) = &self.frame {
            write!(f, " frame={frame}")?;
        }
        if let Some(region) = &self.region {
            write!(f, " region={region}")?;
        }
        for (index, function) in self.functions.iter().enumerate() {
            f.write_str(if index == 0 { " functions=" } else { "," })?;
            f.write_str(if function.anywhere { "~" } else { "" })?;
            f.write_str(&function.name)?;
        }
        if !self.contexts.is_empty() {
            write!(f, " contexts={}", self.contexts.join(","))?;
        }
        if let Some(call) = &self.system_call {
            write!(f, " system_call={call}")?;
        }
        if !self.kinds.is_empty() {
            write!(f, " kinds={}", self.kinds.join(","))?;
        }
        f.write_str(if self.changed { " values=changed" } else { "" })
    }
}

impl FunctionName {
    fn parse(word: &str) -> Self {
        let (name, anywhere) = match word.strip_prefix('~') {
            Some(name) => (name, true),
            None => (word, false),
        };
        Self {
            name: name.to_owned(),
            anywhere,
        }
    }
}

/// Calls `take` with each directive of a source: the lines that begin with `//@`.
pub fn directives(text: &str, mut take: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        if let Some(directive) = line.strip_prefix("//@") {
            directive
                .trim()
                .split_once(':')
                .context("a directive is written `key: value`")
                .and_then(|(key, value)| take(key, value))
                .with_context(|| format!("line {}: `{line}`", index + 1))?;
        }
    }
    Ok(())
}

/// One source of a corpus.
pub struct Source {
    /// Which list it is on.
    pub list: List,
    /// Where it is, relative to the repository's root.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// Reads the sources of both lists of a corpus folder that lies below `root`,
/// sorted by name.
pub fn sources(root: &Path, corpus: &Path, extensions: &[&str]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (list, folder) in [(List::Expected, "expected"), (List::Never, "never")] {
        let folder = corpus.join(folder);
        let entries = fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = folder.join(entry?.file_name());
            let known = path
                .extension()
                .is_some_and(|end| extensions.iter().any(|known| end == *known));
            if known {
                let text = fs::read_to_string(root.join(&path))
                    .with_context(|| format!("cannot read {}", path.display()))?;
                sources.push(Source { list, path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(words: &str) -> Result<Expectation> {
        Expectation::parse(words)
    }

    #[test]
    fn expectations_are_written_as_they_are_read() {
        for words in [
            "origin=unknown what=* functions=step",
            "what=buffer functions=use system_call=read",
            "what=totals.ticks functions=on_tick,~take contexts=softirq,task",
            "what=* region=shared functions=a,b",
            "what=* pointee=item.flags region=heap functions=a,b",
            "what=* typed=IDLE,BUSY block=40 functions=a,b",
            "class=special what=clock functions=a,b",
            "what=mode functions=a system_call=ioctl kinds=write,read",
            "what=n functions=a,b kinds=update,read values=changed",
        ] {
            assert_eq!(expectation(words).unwrap().to_string(), words);
        }
    }

    #[test]
    fn contexts_belong_to_functions() {
        let kinds = |words: &str| {
            let one = expectation(words).unwrap();
            [one.context(0).to_owned(), one.context(1).to_owned()]
        };
        let both = "what=n functions=a,b";
        assert_eq!(kinds(both), ["task", "task"]);
        let told = format!("{both} contexts=hardirq,task");
        assert_eq!(kinds(&told), ["hardirq", "task"]);
        for wrong in ["contexts=task", "contexts=task,user", "contexts="] {
            let error = expectation(&format!("{both} {wrong}")).unwrap_err();
            assert!(error.to_string().contains("contexts"), "{error}");
        }
    }

    #[test]
    fn kinds_belong_to_sides() {
        let told = expectation("what=n functions=a system_call=read kinds=read,write").unwrap();
        assert_eq!((told.kind(0), told.kind(1)), (Some("read"), Some("write")));
        assert_eq!(expectation("what=n functions=a,b").unwrap().kind(0), None);
        for wrong in ["kinds=read", "kinds=read,look", "kinds="] {
            let error = expectation(&format!("what=n functions=a,b {wrong}")).unwrap_err();
            assert!(error.to_string().contains("kinds"), "{error}");
        }
    }

    #[test]
    fn a_twin_is_sampled_where_its_races_are() {
        let mut claims = Claims::new(List::Never);
        assert!(claims.take("focus", " bump").unwrap());
        let taken = claims.take("twin-expect", " what=n functions=bump,look");
        assert!(taken.unwrap());
        assert_eq!(claims.twin_focus(), ["bump", "look"]);
    }
}
