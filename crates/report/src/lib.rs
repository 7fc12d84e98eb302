//! Every rendering of what a run found: text for people, JSON for programs, a
//! progress line while it goes on, and the table of `redhanded sites`.
//!
//! Takes the model's [`RunReport`](redhanded_model::RunReport) and
//! [`Race`](redhanded_model::Race) and gives bytes. It sees no target, decides
//! nothing about a race, and drops none. Names in a report come from the target
//! and from files that may be hostile: whatever goes to a terminal has its
//! control characters escaped on the way, in one place ([`Terminal`] builds all
//! its text from atoms that are cleaned when they are made).
//!
//! ```
//! use redhanded_model::RunReport;
//! use redhanded_report::{Style, Terminal, json};
//!
//! let report = RunReport::default();
//! let mut text = Vec::new();
//! Terminal::new(Style::default()).full(&mut text, &report)?;
//! json::write(&report, &mut text)?;
//! # std::io::Result::Ok(())
//! ```

mod escape;
mod file;
pub mod json;
mod layout;
mod names;
mod numbers;
mod progress;
mod sites;
mod source;
mod style;
mod terminal;
mod values;

pub use file::ReportError;
pub use numbers::times;
pub use progress::{Progress, Tally};
pub use sites::{FunctionSites, SitesReport};
pub use source::SourceFiles;
pub use style::Style;
pub use terminal::Terminal;
