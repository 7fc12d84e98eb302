//! The session log: what a session saw, as one stream of [`Record`]s, each a line
//! of JSON.
//!
//! The tracer writes the stream to a socket ([`Teller`]) and the process in front
//! reads it ([`Listener`]). The tracer does not put names to anything: it sends
//! addresses and where each file is mapped, with the code in memory where that is
//! not the file's. The front has each collision judged by the namer, which opens the
//! files ([`Mapped`], [`serve`]), and with `--log` keeps the stream in a file
//! ([`LogFile`]).
//!
//! The file has to give the same report on a machine that has neither the program
//! nor its debug information. So the front adds to the tracer's records what it
//! made of them: after each collision its [`Finding`](redhanded_detect::Finding),
//! the source lines that a report quotes, and at the end the report without its
//! races. [`read`] folds the findings again and opens no other file. A log that
//! was cut short gives a report of what is in it.

mod file;
mod modules;
mod namer;
mod path;
mod record;
mod source;
mod stream;

pub use file::{LogError, LogFile, LoggedReport, open, read};
pub use modules::{ImageFile, Mapped};
pub use namer::{About, Answer, Asker, Fact, Lost, Question, serve};
pub use record::{FORMAT, Finished, Header, Record};
pub use stream::{Heard, Listener, Teller, hear_place, tell_place};
