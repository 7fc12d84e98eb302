//! What Redhanded does inside, for those who look for a mistake in it: `REDHANDED_LOG`.
//!
//! It is written as `RUST_LOG` is: a level, or levels for parts, `info,redhanded::namer=trace`.
//! It has a name of its own because the program that is observed sees the same environment,
//! and may have a use for `RUST_LOG`.

use crate::screen::cleaned;
use log::{LevelFilter, Log, Metadata, Record};
use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

/// The variable that asks for it.
const VARIABLE: &str = "REDHANDED_LOG";

/// Which parts tell how much. The last directive that fits the longest name decides.
#[derive(Debug, Default, PartialEq, Eq)]
struct Directives(Vec<(String, LevelFilter)>);

impl Directives {
    /// Reads them; what cannot be read, in words.
    fn parse(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        let directives = words.map(|word| {
            let level = |level: &str| {
                let unknown = || format!("no level {level:?}: error, warn, info, debug or trace");
                level.parse().map_err(|_| unknown())
            };
            match word.split_once('=') {
                Some((part, of)) => Ok((part.trim().to_owned(), level(of.trim())?)),
                None if word.parse::<LevelFilter>().is_ok() => Ok((String::new(), level(word)?)),
                None if word.contains("::") => Ok((word.to_owned(), LevelFilter::Trace)),
                None => level(word).map(|level| (String::new(), level)),
            }
        });
        directives.collect::<Result<_, _>>().map(Self)
    }

    /// How much this part tells.
    fn level(&self, part: &str) -> LevelFilter {
        let fits = |name: &str| {
            let rest = part.strip_prefix(name);
            rest.is_some_and(|rest| name.is_empty() || rest.is_empty() || rest.starts_with("::"))
        };
        let fitting = self.0.iter().filter(|(name, _)| fits(name));
        let closest = fitting.max_by_key(|(name, _)| name.len());
        closest.map_or(LevelFilter::Off, |(_, level)| *level)
    }

    /// The most that any part tells.
    fn most(&self) -> LevelFilter {
        let levels = self.0.iter().map(|(_, level)| *level);
        levels.max().unwrap_or(LevelFilter::Off)
    }
}

struct Diagnostics {
    directives: OnceLock<Directives>,
    start: OnceLock<Instant>,
}

static DIAGNOSTICS: Diagnostics = Diagnostics {
    directives: OnceLock::new(),
    start: OnceLock::new(),
};

impl Log for Diagnostics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let directives = self.directives.get();
        directives.is_some_and(|it| metadata.level() <= it.level(metadata.target()))
    }

    /// Several processes write to the same stream, so a line is one write and has the
    /// process's number.
    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let after = self
            .start
            .get()
            .map_or(0.0, |it| it.elapsed().as_secs_f64());
        let line = format!(
            "[{after:.3}s {:<5} {} {}] {}",
            record.level(),
            record.target(),
            std::process::id(),
            record.args()
        );
        let _ = std::io::stderr().write_all(cleaned(&line.replace('\n', " ")).as_bytes());
    }

    fn flush(&self) {}
}

/// Turns them on, if the environment asks for it; what is wrong with how it asks.
pub fn start() -> Result<(), String> {
    let Some(asked) = std::env::var_os(VARIABLE) else {
        return Ok(());
    };
    let directives = Directives::parse(&asked.to_string_lossy())
        .map_err(|why| format!("{VARIABLE} cannot be used: {why}"))?;
    let most = directives.most();
    let _ = DIAGNOSTICS.start.set(Instant::now());
    if DIAGNOSTICS.directives.set(directives).is_ok() && log::set_logger(&DIAGNOSTICS).is_ok() {
        log::set_max_level(most);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_decides_how_much_a_part_tells() {
        let asked = Directives::parse("warn, redhanded::namer=trace,redhanded=info").unwrap();
        assert_eq!(asked.level("redhanded::namer"), LevelFilter::Trace);
        assert_eq!(asked.level("redhanded::namer::inner"), LevelFilter::Trace);
        assert_eq!(asked.level("redhanded::namers"), LevelFilter::Info);
        assert_eq!(asked.level("gdbstub"), LevelFilter::Warn);
        assert_eq!(asked.most(), LevelFilter::Trace);
        let one = Directives::parse("redhanded::memory").unwrap();
        assert_eq!(one.level("redhanded::memory"), LevelFilter::Trace);
        assert_eq!(one.level("redhanded::run"), LevelFilter::Off);
    }

    #[test]
    fn a_level_that_is_none_is_an_error() {
        assert_eq!(Directives::parse(""), Ok(Directives::default()));
        for wrong in ["loud", "redhanded=loud"] {
            let error = Directives::parse(wrong).unwrap_err();
            assert!(error.contains("\"loud\""), "{error}");
        }
    }
}
