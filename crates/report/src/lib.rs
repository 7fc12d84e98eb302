//! Every rendering of what a run found: text for people, JSON for programs, a
//! progress line while it goes on, and the table of `redhanded sites`.
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
//! use redhanded_report::{Format, json};
//!
//! let report = Report::default();
//! for format in Format::ALL {
//!     let mut text = Vec::new();
//!     format.writer().write(&report, &mut text)?;
//!     if format == Format::Json {
//!         assert_eq!(json::read(&text).unwrap(), report);
//!     }
//! }
//! # std::io::Result::Ok(())
//! ```

mod escape;
mod file;
mod format;
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

pub use escape::clean;
pub use file::{WriteError, check, write_file};
pub use format::{Format, Writer};
pub use numbers::times;
pub use progress::{Progress, Shown, Tally};
pub use sites::{FunctionSites, SitesReport};
pub use source::SourceFiles;
pub use style::Style;
pub use terminal::Terminal;
