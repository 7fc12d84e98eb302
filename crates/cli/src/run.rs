//! `redhanded run`.

use crate::arguments::{FailOn, Run};
use crate::exit::{self, Failure};
use crate::observe::{Display, Observation, observe};
use crate::{screen, select};
use redhanded_detect::{Budget, Options};
use redhanded_model::Class;
use redhanded_report::{Progress, ReportError, SourceFiles, Terminal, json};
use redhanded_target::process::{Program, Signals};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs a program under observation; the exit status.
pub fn run(arguments: Run) -> Result<ExitCode, Failure> {
    // Before any thread is started.
    let signals = Signals::hold();
    let program = Program::find(&arguments.program)?;
    if let Some(json) = &arguments.json {
        check_place(json)?;
    }
    if let Some(interpreter) = &program.interpreter
        && !arguments.quiet
    {
        screen::say(&format!(
            "redhanded: {} is a script; what is sampled is its interpreter {interpreter}, not the \
             programs it starts",
            program.path.display()
        ));
    }
    let display = display(arguments.quiet);
    let images = select::images(&arguments.select, &display)?;
    let observation = Observation {
        program,
        images,
        signals,
        options: Options {
            rate: arguments.rate,
            delay: arguments.delay,
            budget: Budget {
                overhead: arguments.overhead,
            },
            strategy: arguments.detect.into(),
            until: None,
            max_windows: None,
        },
        seed: arguments.seed.unwrap_or_else(clock),
        until: arguments.until,
        repeat: arguments.repeat,
        kill: arguments.kill,
        max_windows: arguments.max_windows,
        max_races: arguments.max_races,
        on_race: None,
    };
    let (report, ending) = observe(observation, &display)?;
    if !arguments.quiet || !report.races.is_empty() {
        let mut text = Vec::new();
        display.terminal.full(&mut text, &report)?;
        // A closed stderr must not change the program's status.
        let _ = std::io::stderr().write_all(&text);
    }
    if let Some(path) = &arguments.json {
        json::write_file(&report, path)?;
    }
    let failed = arguments.fail_on == FailOn::Any
        && report.races.iter().any(|race| race.class == Class::Race);
    Ok(if failed {
        ExitCode::from(arguments.exit_code)
    } else {
        exit::of_program(ending)
    })
}

/// How a run is shown.
pub fn display(quiet: bool) -> Arc<Display> {
    let source = SourceFiles::default();
    Arc::new(Display {
        terminal: Terminal::new(screen::style())
            .with_source(move |file, line| source.line(file, line)),
        progress: Progress::new(screen::shows_progress(quiet)),
        announce: !quiet,
        show_indexing: screen::shows_progress(quiet),
    })
}

/// A report that cannot be written is better known before an hour's run.
fn check_place(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Err(ReportError::Stdout.into());
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let why = if !folder.is_dir() {
        format!("there is no folder {}", folder.display())
    } else if path.is_dir() {
        "it is a folder".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "cannot write the report to {}: {why}",
        path.display()
    )))
}

/// A seed that differs from run to run.
pub fn clock() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}
