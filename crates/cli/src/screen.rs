//! What goes to the terminal: stderr, because stdout belongs to the program.

use redhanded_report::Style;
use std::io::{IsTerminal, Write};

/// The style for stderr: colours only on a terminal and unless `NO_COLOR` is
/// set.
pub fn style() -> Style {
    style_for(std::io::stderr().is_terminal())
}

/// The style for stdout, which is ours where no program runs.
pub fn style_of_stdout() -> Style {
    style_for(std::io::stdout().is_terminal())
}

fn style_for(terminal: bool) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_lowercase();
    Style {
        color: terminal && !plain,
        unicode: locale.contains("utf-8") || locale.contains("utf8"),
        width: Style::width_of_stderr(),
    }
}

/// Says a line. That nobody can hear it changes nothing: a closed pipe or a full
/// disk behind stderr must not become the outcome of a run.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints what a command without a program has to say. A reader that has seen
/// enough (`| head`) is no failure.
pub fn print(text: &[u8]) -> std::io::Result<()> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Whether a progress line is wanted.
pub fn shows_progress(quiet: bool) -> bool {
    !quiet && std::io::stderr().is_terminal()
}
