//! The shape of `redhanded-report/1`, in the order of its keys.

use super::REPORT_SCHEMA;
use crate::names;
use redhanded_model::{
    AccessKind, AccessReport, BitField, Class, Crash, Frame, Line, Losses, Race, RunReport, SeenBy,
    SiteCounts, ThreadName, Unseen,
};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    run: RunPart<'a>,
    races: Vec<RacePart<'a>>,
}

#[derive(Serialize)]
struct RunPart<'a> {
    program: &'a [String],
    runs: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cut_off: u64,
    ending: Option<&'a str>,
    wall_s: f64,
    thread_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_per_window_s: Option<f64>,
    samples: u64,
    samples_per_s: f64,
    windows: u64,
    held_s: f64,
    overhead_estimate: f64,
    sites: SiteCounts,
    losses: &'a Losses,
    unseen: &'a [Unseen],
    #[serde(skip_serializing_if = "Option::is_none")]
    crash: Option<CrashPart<'a>>,
}

#[derive(Serialize)]
struct CrashPart<'a> {
    signal: i32,
    thread: &'a ThreadName,
    stack: Vec<FramePart<'a>>,
    windows: Vec<CrashWindowPart<'a>>,
}

#[derive(Serialize)]
struct CrashWindowPart<'a> {
    ago_s: f64,
    tid: u32,
    at: FramePart<'a>,
    held_s: f64,
    caught: bool,
}

#[derive(Serialize)]
struct RacePart<'a> {
    id: &'a str,
    fingerprint: &'a str,
    class: Class,
    what: WhatPart<'a>,
    seen_by: SeenBy,
    values: ValuesPart,
    instances: u64,
    lines: &'a [Vec<Line>],
    suspects: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    special: Option<&'a str>,
    accesses: Vec<AccessPart<'a>>,
}

#[derive(Serialize)]
struct WhatPart<'a> {
    name: Option<&'a str>,
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    field: Option<&'a str>,
    bit_fields: &'a [BitField],
    address: String,
    size: u64,
    region: String,
}

#[derive(Serialize)]
struct ValuesPart {
    before: String,
    after: String,
    changed: String,
}

#[derive(Serialize)]
struct AccessPart<'a> {
    thread: &'a ThreadName,
    kind: AccessKind,
    size: u64,
    pc: String,
    instruction: Option<&'a str>,
    atomic: bool,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    system_call: Option<&'a str>,
    stack: Vec<FramePart<'a>>,
}

#[derive(Serialize)]
struct FramePart<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    module: Option<&'a str>,
    address: String,
    inlined: bool,
}

impl<'a> Document<'a> {
    pub(super) fn of(report: &'a RunReport) -> Self {
        Self {
            schema: REPORT_SCHEMA,
            run: RunPart {
                program: &report.program,
                runs: report.runs,
                cut_off: report.cut_off,
                ending: report.ending.as_deref(),
                wall_s: round(report.wall_s),
                thread_s: round(report.thread_s),
                stopped_s: report.standstill.map(|s| round(s.total_s)),
                stopped_per_window_s: report.standstill.and_then(|s| s.window_s.map(round)),
                samples: report.samples,
                samples_per_s: round(report.samples_per_s()),
                windows: report.windows,
                held_s: round(report.held_s),
                overhead_estimate: round(report.overhead_estimate()),
                sites: report.sites,
                losses: &report.losses,
                unseen: &report.unseen,
                crash: report.crash.as_ref().map(crash),
            },
            races: report.races.iter().map(race).collect(),
        }
    }
}

fn crash(crash: &Crash) -> CrashPart<'_> {
    let windows = crash.windows.iter().map(|window| CrashWindowPart {
        ago_s: round(window.ago_s),
        tid: window.tid,
        at: frame(&window.at),
        held_s: round(window.held_s),
        caught: window.caught,
    });
    CrashPart {
        signal: crash.signal,
        thread: &crash.thread,
        stack: crash.stack.iter().map(frame).collect(),
        windows: windows.collect(),
    }
}

fn race(race: &Race) -> RacePart<'_> {
    let what = &race.what;
    RacePart {
        id: &race.id,
        fingerprint: &race.fingerprint.0,
        class: race.class,
        what: WhatPart {
            name: what.name.as_deref(),
            type_name: what.type_name.as_deref(),
            field: what.field.as_deref(),
            bit_fields: &what.bit_fields,
            address: address(what.address),
            size: what.size,
            region: names::region(&what.region),
        },
        seen_by: race.seen_by,
        values: ValuesPart {
            before: memory_order(&race.values.before),
            after: memory_order(&race.values.after),
            changed: memory_order(&race.values.changed()),
        },
        instances: race.instances,
        lines: &race.lines,
        suspects: &race.suspects,
        special: race.special.as_deref(),
        accesses: race.accesses.iter().map(access).collect(),
    }
}

fn access(access: &AccessReport) -> AccessPart<'_> {
    AccessPart {
        thread: &access.thread,
        kind: access.kind,
        size: access.size,
        pc: address(access.pc),
        instruction: access.instruction.as_deref(),
        atomic: access.atomic,
        function: access.function.as_deref(),
        file: access.file.as_deref(),
        line: access.line,
        system_call: access.system_call.as_deref(),
        stack: access.stack.iter().map(frame).collect(),
    }
}

fn frame(frame: &Frame) -> FramePart<'_> {
    FramePart {
        function: frame.function.as_deref(),
        file: frame.file.as_deref(),
        line: frame.line,
        module: frame.module.as_deref(),
        address: address(frame.address),
        inlined: frame.inlined,
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Addresses are strings: half of JSON's readers keep numbers as doubles, which
/// cannot hold them.
fn address(address: u64) -> String {
    format!("{address:#x}")
}

/// Bytes as they lie in memory, two digits each: unambiguous at any length.
fn memory_order(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Microseconds are finer than anything measured here; the other digits are
/// noise in a diff. JSON has no infinity: what is not finite is 0.
pub(super) fn round(number: f64) -> f64 {
    if number.is_finite() {
        (number * 1e6).round() / 1e6
    } else {
        0.0
    }
}
