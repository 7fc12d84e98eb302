//! Bars. A report has counts and no times of day, so they are all there is to plot.

use super::markup::Markup;
use crate::numbers::{count, percent, seconds};
use crate::outcome;
use redhanded_model::Run;

/// Units across, of a drawing that is scaled to its place.
const WIDTH: f64 = 400.0;
/// Units from one bar to the next.
const ROW: usize = 34;

/// One bar: what it says, and how much of the whole width it takes.
struct Bar {
    label: String,
    value: String,
    share: f64,
}

impl Bar {
    fn new(label: impl Into<String>, value: String, share: f64) -> Self {
        Self {
            label: label.into(),
            value,
            share: if share.is_finite() {
                share.clamp(0.0, 1.0)
            } else {
                0.0
            },
        }
    }
}

/// How much was looked at, what it cost, and what became of the samples.
pub(super) fn plots(page: &mut Markup, run: &Run) {
    page.tag("<div class=\"plots\">\n");
    let sites = run.sites;
    let of_sites = |part: u64| {
        let share = ratio(part, sites.total);
        (format!("{} ({})", count(part), percent(share)), share)
    };
    let (armed, armed_share) = of_sites(sites.armed);
    let (sampled, sampled_share) = of_sites(sites.sampled);
    plot(
        page,
        "Coverage",
        "Of the instructions that could be sampled, how many were.",
        &[
            Bar::new(
                "sites in total",
                count(sites.total),
                ratio(sites.total, sites.total),
            ),
            Bar::new("armed", armed, armed_share),
            Bar::new("sampled", sampled, sampled_share),
        ],
    );
    let held = run.overhead_estimate();
    let mut bars = vec![
        Bar::new(
            "thread time",
            seconds(run.thread_s),
            f64::from(run.thread_s > 0.0),
        ),
        Bar::new(
            "held",
            format!("{} ({})", seconds(run.held_s), percent(held)),
            held,
        ),
    ];
    if let Some(standstill) = run.standstill {
        let share = if run.wall_s > 0.0 {
            standstill.total_s / run.wall_s
        } else {
            0.0
        };
        let value = format!(
            "{} ({} of the run)",
            seconds(standstill.total_s),
            percent(share)
        );
        bars.push(Bar::new("no CPU ran", value, share));
    }
    plot(page, "Overhead", "For how long threads were held.", &bars);
    plot(
        page,
        "Samples",
        "How many opened a window, and what was lost for which reason.",
        &samples(run),
    );
    page.tag("</div>\n");
}

fn samples(run: &Run) -> Vec<Bar> {
    let losses = outcome::losses(run);
    let most = losses.iter().map(|(_, number)| *number);
    let most = most.chain([run.samples, run.windows]).max().unwrap_or(0);
    let bar = |label: &str, number: u64| Bar::new(label, count(number), ratio(number, most));
    let mut bars = vec![bar("samples", run.samples), bar("windows", run.windows)];
    bars.extend(
        losses
            .iter()
            .map(|(loss, number)| bar(loss.describe(), *number)),
    );
    bars
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn plot(page: &mut Markup, title: &'static str, about: &'static str, bars: &[Bar]) {
    page.tag("<figure>\n<figcaption><strong>")
        .tag(title)
        .tag("</strong> ")
        .tag(about)
        .tag("</figcaption>\n<svg role=\"img\" viewBox=\"0 0 400 ")
        .text(&(bars.len() * ROW).to_string())
        .tag("\" aria-label=\"");
    let words: Vec<String> = bars
        .iter()
        .map(|bar| format!("{}: {}", bar.label, bar.value))
        .collect();
    page.text(&words.join("; ")).tag("\">\n");
    for (at, bar) in bars.iter().enumerate() {
        let top = at * ROW;
        // What is there at all is seen, however little it is.
        let width = if bar.share > 0.0 {
            (bar.share * WIDTH).max(1.0)
        } else {
            0.0
        };
        page.tag("<text x=\"0\" y=\"")
            .text(&(top + 13).to_string())
            .tag("\">")
            .text(&bar.label)
            .tag("</text><text class=\"value\" x=\"400\" y=\"")
            .text(&(top + 13).to_string())
            .tag("\">")
            .text(&bar.value)
            .tag("</text><rect class=\"whole\" x=\"0\" width=\"400\" height=\"8\" rx=\"2\" y=\"")
            .text(&(top + 18).to_string())
            .tag("\"/><rect class=\"part\" x=\"0\" height=\"8\" rx=\"2\" y=\"")
            .text(&(top + 18).to_string())
            .tag("\" width=\"")
            .text(&format!("{width:.1}"))
            .tag("\"/>\n");
    }
    page.tag("</svg>\n</figure>\n");
}
