//! `redhanded report`: the report of an earlier session, made from its log.

use crate::arguments::Report;
use crate::exit::Failure;
use crate::screen;
use redhanded_report::json::Json;
use redhanded_report::{Terminal, Writer, write_file};
use redhanded_session::{LoggedReport, read};
use std::path::Path;
use std::process::ExitCode;

/// Prints the report, or writes it. The exit status says whether that was possible,
/// unless races are to fail.
pub fn report(arguments: &Report) -> Result<ExitCode, Failure> {
    let LoggedReport {
        report,
        source,
        cut_short,
    } = read(&arguments.log)?;
    let mut text = Vec::new();
    match arguments.json.as_deref() {
        // There is no program here whose output it would be mixed with.
        Some(path) if path == Path::new("-") => Json.write(&report, &mut text)?,
        Some(path) => write_file(&Json, &report, path)?,
        None => {}
    }
    if text.is_empty() && !arguments.quiet {
        Terminal::new(screen::style_of_stdout())
            .with_source(move |file, line| source.get(&(file.to_owned(), line)).cloned())
            .write(&report, &mut text)?;
    }
    screen::print(&text)?;
    if let Some(error) = cut_short {
        return Err(error.into());
    }
    Ok(arguments
        .fail_on
        .status(&report, arguments.exit_code)
        .unwrap_or(ExitCode::SUCCESS))
}
