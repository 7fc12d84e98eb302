//! Every rendering of what a run found: text for people, a page for
//! browsers, JSON for programs, a progress line while it goes on, and the table of
//! `redhanded sites`.
//!
//! Takes the model's [`Report`](redhanded_model::Report) and gives bytes, in one
//! of the formats of [`Format`]; [`json::read`] gives the report back. It sees no
//! target, decides nothing about a race, and drops none. Names in a report come
//! from the target and from files that may be hostile. Whatever goes to a
//! terminal has its control characters escaped, in one place: [`Terminal`] builds
//! all its text from atoms that are cleaned when they are made.
//!
//! ```
//! use redhanded_model::Report;
//! use redhanded_report::{Format, SourceLine, json};
//!
//! let report = Report::default();
//! let source: SourceLine = std::sync::Arc::new(|_, _| None);
//! for format in Format::ALL {
//!     let mut text = Vec::new();
//!     format.writer("/src".as_ref(), &source, None).write(&report, &mut text)?;
//!     if format == Format::Json {
//!         assert_eq!(json::read(&text).unwrap(), report);
//!     }
//! }
//! # std::io::Result::Ok(())
//! ```

mod escape;
mod facts;
mod file;
mod folding;
mod format;
mod hint;
mod html;
pub mod json;
mod layout;
mod names;
mod notes;
mod numbers;
mod order;
mod outcome;
mod problems;
mod progress;
mod quote;
mod sarif;
mod sites;
mod style;
mod terminal;
mod values;

pub use escape::clean;
pub use file::{WriteError, check, open_private, open_stream, write_file};
pub use format::{Format, SourceLine, Writer};
pub use names::{literal, race_object as object_name};
pub use numbers::times;
pub use progress::{Progress, Shown, Tally};
pub use sites::{FunctionSites, SitesReport};
pub use style::Style;
pub use terminal::{Terminal, replayed};
