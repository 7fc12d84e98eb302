//! The table of `redhanded sites`.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{count, counted, seconds, share};
use crate::sites::{FunctionSites, SitesReport, sorted};
use crate::style::{Role, Style};

/// Functions shown unless all are asked for.
const TOP: usize = 30;

pub(super) fn table(style: &Style, page: &mut Page<'_>, report: &SitesReport, all: bool) {
    page.put(
        0,
        2,
        Line::new(style)
            .put(Role::Name, &format!("{}:", report.file))
            .words(
                Role::Plain,
                &format!(
                    "{} in {},",
                    counted(report.sites, "site", "sites"),
                    counted(report.functions, "function", "functions")
                ),
            )
            .words(
                Role::Plain,
                &format!(
                    "{} of code, {}",
                    counted(report.text_bytes, "byte", "bytes"),
                    seconds(report.seconds)
                ),
            ),
    );
    excluded(style, page, report);
    functions(style, page, report, all);
}

fn excluded(style: &Style, page: &mut Page<'_>, report: &SitesReport) {
    let total = report.excluded.total();
    if total == 0 {
        return;
    }
    page.blank();
    let operands = total.saturating_add(report.sites);
    let heading = format!(
        "left out: {} ({} of those with a memory operand)",
        counted(total, "instruction", "instructions"),
        share(total, operands)
    );
    page.put(0, 2, Line::new(style).words(Role::Heading, &heading));
    let mut reasons: Vec<_> = report.excluded.0.iter().collect();
    reasons.sort_by_key(|(reason, number)| (std::cmp::Reverse(**number), **reason));
    let width = reasons
        .iter()
        .map(|(_, number)| count(**number).len())
        .max()
        .unwrap_or(0);
    for (reason, number) in reasons {
        let line = Line::new(style)
            .column(Role::Plain, &format!("{:>width$}", count(*number)), width)
            .words(Role::Plain, reason.describe());
        page.put(2, width + 4, line);
    }
}

fn functions(style: &Style, page: &mut Page<'_>, report: &SitesReport, all: bool) {
    let functions = sorted(&report.by_function);
    let shown = if all {
        functions.len()
    } else {
        functions.len().min(TOP)
    };
    if shown == 0 {
        return;
    }
    page.blank();
    let cells = |function: &FunctionSites| {
        [
            function.sites,
            function.reads,
            function.writes,
            function.updates,
            function.excluded,
        ]
    };
    let headings = ["sites", "reads", "writes", "updates", "left out"];
    let widths: [usize; 5] = std::array::from_fn(|column| {
        functions[..shown]
            .iter()
            .map(|function| count(cells(function)[column]).len())
            .max()
            .unwrap_or(0)
            .max(headings[column].len())
    });
    let row = |role, texts: [String; 5]| {
        texts
            .iter()
            .zip(widths)
            .fold(Line::new(style), |line, (text, width)| {
                line.column(role, &format!("{text:>width$}"), width)
            })
    };
    let heading = row(Role::Heading, headings.map(str::to_owned)).put(Role::Heading, "function");
    page.put(0, 0, heading);
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let room = style.columns().saturating_sub(used).max(20);
    for function in &functions[..shown] {
        let file = function.file.as_deref().unwrap_or_default();
        let limit = if all { usize::MAX } else { room };
        let name = names::shorten(&function.name, limit, style.ellipsis());
        let mut line = row(Role::Plain, cells(function).map(count)).column(Role::Name, &name, 0);
        let file = names::short_place(file, limit.min(room), style.ellipsis());
        let both = used + name.chars().count() + 2 + file.chars().count();
        if all || both <= style.columns() {
            line = line.put(Role::Place, &file);
        }
        page.put(0, used, line);
    }
    if shown < functions.len() {
        let more = counted(
            (functions.len() - shown) as u64,
            "more function",
            "more functions",
        );
        let line = Line::new(style).words(Role::Dim, &format!("{more}: --all shows them"));
        page.put(0, 0, line);
    }
}
