//! What is new and what is gone from one run to another.

use super::source::Source;
use crate::exit::Failure;
use crate::memory::{known, standing};
use redhanded_model::{Race, Report};
use redhanded_report::Terminal;
use redhanded_store::Standings;
use std::io;
use std::path::PathBuf;

/// The races that are not in this report and are in the other.
pub struct Compared {
    gone: Vec<Race>,
}

/// Marks the races that the other does not have as new. It is a run of the same store, or
/// another file.
pub fn compare(source: &mut Source, other: &str) -> Result<Compared, Failure> {
    let other = match (other.parse::<i64>(), &source.store) {
        (Ok(run), Some((path, _))) => Source::open(Some(path), Some(run))?,
        _ => Source::open(Some(&PathBuf::from(other)), None)?,
    };
    let before = other.report.races.iter();
    let before = Standings::of(before.map(|race| (race, known(race))));
    let races = &mut source.report.races;
    let now = Standings::of(races.iter().map(|race| (race, known(race))));
    for race in races {
        race.triage = Some(standing(&before, race));
    }
    let gone = other.report.races.into_iter();
    let gone = gone.filter(|race| now.get(race).is_none());
    Ok(Compared {
        gone: gone.collect(),
    })
}

impl Compared {
    /// New, gone and unchanged ones, a line for each.
    pub fn write(&self, terminal: &Terminal, report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
        let (new, same): (Vec<Race>, Vec<Race>) =
            report.races.iter().cloned().partition(Race::is_new);
        for (title, races) in [("new", &new), ("gone", &self.gone), ("unchanged", &same)] {
            out.extend_from_slice(format!("{title}: {}\n", races.len()).as_bytes());
            let part = Report {
                run: report.run.clone(),
                races: races.clone(),
                ..Report::default()
            };
            terminal.list(out, &part, &|_| None)?;
        }
        Ok(())
    }
}
