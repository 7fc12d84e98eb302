//! Reports for code scanning: SARIF 2.1.0.
//!
//! Each class is a rule, a block that was freed is another, and each race is a result, at the
//! line of its first side that has one; the other side is a related location, and each side's stack is a thread flow. A
//! race without source is a result at its module, with the function as a logical
//! location: viewers want a file, and nothing else is known.

mod log;
mod rules;

use crate::format::Writer;
use crate::json;
use crate::names;
use crate::numbers::times;
use log::{
    Address, Artifact, CodeFlow, Configuration, Driver, Found, Help, Invocation, Location, Log,
    LogicalLocation, Message, PhysicalLocation, Properties, Region, Rule, Run, Step, Suppression,
    ThreadFlow, Tool,
};
use redhanded_model::{AccessKind, AccessReport, Call, Frame, Race, Report, State, Triage};
use rules::{RULES, rule_of};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name under which viewers know the root of the repository.
const ROOT: &str = "SRCROOT";
/// The fingerprint's own version: raised when equal races get another hash.
const FINGERPRINT: &str = "redhandedRace/v4";
/// The same for problems, of which several races may be parts.
const PROBLEM: &str = "redhandedProblem/v2";
/// Where the format is described.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Writes a report as a SARIF log with one run.
#[derive(Clone, Debug)]
pub struct Sarif {
    root: PathBuf,
}

impl Writer for Sarif {
    fn write(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        json::write_value(&self.log(report), out)
    }
}

impl Sarif {
    /// A writer that names files below `root` relative to it.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn log<'a>(&'a self, report: &'a Report) -> Log<'a, Results<'a>> {
        let rules = RULES.iter().map(|rule| Rule {
            id: rule.id,
            short_description: said(rule.short),
            full_description: said(rule.full),
            help: Help {
                text: rule.help,
                markdown: rule.help,
            },
            default_configuration: Configuration { level: rule.level },
        });
        let root = format!("file://{}/", encoded(&self.root.to_string_lossy()));
        Log {
            schema: SCHEMA,
            version: "2.1.0",
            runs: [Run {
                tool: Tool {
                    driver: Driver {
                        name: "Redhanded",
                        semantic_version: env!("CARGO_PKG_VERSION"),
                        rules: rules.collect(),
                    },
                },
                column_kind: "unicodeCodePoints",
                original_uri_base_ids: BTreeMap::from([(ROOT, artifact(root))]),
                invocations: [Invocation {
                    execution_successful: !report.run.cut_short,
                    arguments: &report.run.program,
                }],
                results: Results {
                    sarif: self,
                    races: &report.races,
                },
            }],
        }
    }

    fn result<'a>(&self, race: &'a Race, known: Known) -> Found<'a> {
        let rule_index = rule_of(race);
        let rule = &RULES[rule_index];
        let mut sides: Vec<&AccessReport> = race.accesses.iter().collect();
        sides.sort_by_key(|side| side.shown_place().and_then(|shown| shown.line).is_none());
        let thread_flows: Vec<ThreadFlow<'a>> = sides
            .iter()
            .enumerate()
            .map(|(at, side)| self.thread_flow(at, side))
            .collect();
        let flow = (!thread_flows.is_empty()).then_some(CodeFlow { thread_flows });
        let other = sides.get(1).map(|other| Location {
            id: Some(1),
            message: Some(said(did(other))),
            ..self.shown(other)
        });
        let allocated = race.what.allocated.as_ref().and_then(|allocated| {
            Some(Location {
                id: Some(2),
                message: Some(said(names::allocation(allocated))),
                ..self.frame(allocated.by()?)
            })
        });
        let (triage, verdict) = (race.triage.as_ref(), race.verdict.as_ref());
        Found {
            rule_id: rule.id,
            rule_index,
            level: serious(race, rule.level),
            message: said(message(race)),
            partial_fingerprints: BTreeMap::from([
                (FINGERPRINT, race.fingerprint.hash()),
                (PROBLEM, race.problem().hash()),
            ]),
            locations: sides
                .first()
                .map(|side| self.shown(side))
                .into_iter()
                .collect(),
            related_locations: other.into_iter().chain(allocated).collect(),
            code_flows: flow.into_iter().collect(),
            occurrence_count: race.instances.max(1),
            baseline_state: known
                .before
                .then(|| if race.is_new() { "new" } else { "unchanged" }),
            suppressions: known
                .suppressions
                .then(|| triage.map(suppressions).unwrap_or_default()),
            properties: Properties {
                id: race.id(),
                fingerprint: &race.fingerprint.0,
                state: triage.map(|triage| triage.state),
                verdict: verdict.map(|verdict| verdict.call),
                confidence: verdict.map(|verdict| verdict.confidence),
            },
        }
    }

    /// A side where people look for it: an access of a library at the program's own code.
    fn shown<'a>(&self, side: &'a AccessReport) -> Location<'a> {
        match side.caller() {
            Some((_, frame)) if frame.file.is_some() => self.frame(frame),
            _ => self.side(side),
        }
    }

    /// A side at its innermost frame, by the side's own names.
    fn side<'a>(&self, side: &'a AccessReport) -> Location<'a> {
        let nowhere = Frame::default();
        let frame = side.stack.first().unwrap_or(&nowhere);
        let function = side.function.as_deref();
        // Viewers want a file for a result, even if it is no source.
        self.location(function, side.file.as_deref(), side.line, frame, true)
    }

    /// A frame of a stack.
    fn frame<'a>(&self, frame: &'a Frame) -> Location<'a> {
        let function = frame.function.as_deref();
        self.location(function, frame.file.as_deref(), frame.line, frame, false)
    }

    /// A side's stack, from the start of the thread to the access.
    fn thread_flow<'a>(&self, at: usize, side: &'a AccessReport) -> ThreadFlow<'a> {
        let calls = side.stack.iter().skip(1).rev().map(|frame| Step {
            location: self.frame(frame),
            importance: "unimportant",
        });
        let access = Step {
            location: Location {
                message: Some(said(did(side))),
                ..self.side(side)
            },
            importance: "essential",
        };
        ThreadFlow {
            id: format!("{} ({})", side.thread, at + 1),
            message: said(side.thread.to_string()),
            locations: calls.chain([access]).collect(),
        }
    }

    /// A place in the source, or in the module of `frame` if there is none. Sources of
    /// libraries are not in the repository: what their debug information calls
    /// `./nptl/pthread_create.c` would be looked for there. They have their address, and a
    /// file only if `needs_file`.
    fn location<'a>(
        &self,
        function: Option<&'a str>,
        file: Option<&str>,
        line: Option<u32>,
        frame: &Frame,
        needs_file: bool,
    ) -> Location<'a> {
        let is_library = frame.is_library();
        let is_at_hand = |file: &&str| !is_library || file.starts_with('/');
        let in_source = file.filter(is_at_hand).map(|file| PhysicalLocation {
            artifact_location: Some(self.artifact(file)),
            region: line
                .filter(|line| *line > 0)
                .map(|start_line| Region { start_line }),
            address: None,
        });
        let in_module = || {
            let module = frame.module.as_deref()?;
            let has_file = needs_file || !is_library;
            Some(PhysicalLocation {
                artifact_location: has_file.then(|| self.artifact(module)),
                region: None,
                address: Some(Address {
                    relative_address: frame.address,
                    fully_qualified_name: names::frame_address(frame),
                    kind: "instruction",
                }),
            })
        };
        let name = match function {
            Some(function) => Cow::Borrowed(function),
            None => Cow::Owned(names::frame_address(frame)),
        };
        Location {
            id: None,
            physical_location: in_source.or_else(in_module),
            logical_locations: [LogicalLocation {
                fully_qualified_name: name,
                kind: "function",
            }],
            message: None,
        }
    }

    fn artifact(&self, file: &str) -> Artifact {
        match Path::new(file).strip_prefix(&self.root) {
            Ok(path) => Artifact {
                uri: encoded(&path.to_string_lossy()),
                uri_base_id: Some(ROOT),
            },
            Err(_) if file.starts_with('/') => artifact(format!("file://{}", encoded(file))),
            Err(_) => artifact(encoded(file)),
        }
    }
}

/// The races of a report as results. Each is made when it is written.
struct Results<'a> {
    sarif: &'a Sarif,
    races: &'a [Race],
}

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let known = Known::of(self.races);
        out.collect_seq(self.races.iter().map(|race| self.sarif.result(race, known)))
    }
}

/// What is known about the races beside what the run saw. SARIF has it for all results or for none.
#[derive(Clone, Copy)]
struct Known {
    /// Which of them were there before: something is remembered.
    before: bool,
    /// Which of them need no attention.
    suppressions: bool,
}

impl Known {
    fn of(races: &[Race]) -> Self {
        Self {
            before: races.iter().all(|race| race.triage.is_some()),
            suppressions: races.iter().any(|race| race.triage.is_some()),
        }
    }
}

const fn artifact(uri: String) -> Artifact {
    Artifact {
        uri,
        uri_base_id: None,
    }
}

fn said(text: impl Into<String>) -> Message {
    Message { text: text.into() }
}

/// Why a race needs no attention: by the file of suppressions, or by what was decided.
fn suppressions(triage: &Triage) -> Vec<Suppression<'_>> {
    let accepted = |justification| Suppression {
        kind: "external",
        status: "accepted",
        justification,
    };
    let listed = triage.suppressed.iter();
    let listed = listed.map(|suppressed| accepted(&*suppressed.because));
    let decided = matches!(triage.state, State::NotAProblem | State::Deferred);
    let decided = decided.then(|| accepted(triage.because.as_deref().unwrap_or_default()));
    listed.chain(decided).collect()
}

/// How serious a race is: as its class says, unless its verdict is clear.
fn serious(race: &Race, level: &'static str) -> &'static str {
    match race.verdict.as_ref().map(|verdict| verdict.call) {
        Some(call) if call.is_harmful() => "error",
        Some(Call::LikelyBenign) => "note",
        _ => level,
    }
}

/// What was raced on and by whom, in one sentence or two.
fn message(race: &Race) -> String {
    let what = names::object(&race.what).unwrap_or_else(|| {
        let size = names::bytes(race.what.size);
        format!("{size} of {}", race.what.region)
    });
    let sides: Vec<String> = race.accesses.iter().map(did).collect();
    let sides = match sides.as_slice() {
        [first, second] => format!("{first}, while {second}"),
        [only] => format!("{only}, while the bytes changed"),
        _ => "the bytes changed".to_owned(),
    };
    let differ = names::sides_differ(race).map_or_else(String::new, |text| format!(" {text}"));
    format!(
        "Race on {what}: {sides}.{differ} Seen {}.",
        times(race.instances)
    )
}

/// `thread 4711 (worker) wrote 4 bytes in run`.
fn did(side: &AccessReport) -> String {
    let (mut function, within) = names::told(side, str::to_owned);
    if let Some(within) = within {
        function.push_str(&format!(" (in {within})"));
    }
    let call = side.system_call.as_ref();
    let by = call.map_or_else(String::new, |call| format!(" by {call}(2)"));
    let size = names::bytes(side.size);
    let verb = match side.kind {
        AccessKind::Read => "read",
        AccessKind::Write => "wrote",
        AccessKind::Update => "updated",
    };
    format!("{} {verb} {size} in {function}{by}", side.thread)
}

/// A path as part of a URI.
fn encoded(path: &str) -> String {
    use std::fmt::Write;
    path.bytes().fold(String::new(), |mut uri, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(char::from(byte)),
            b'/' | b'-' | b'_' | b'.' | b'~' | b'+' | b'@' | b',' => uri.push(char::from(byte)),
            _ => drop(write!(uri, "%{byte:02X}")),
        }
        uri
    })
}
