//! What goes to the terminal: stderr, because stdout belongs to the program.

use crate::arguments::{Colors, ShowProgress};
use crate::exit::Failure;
use redhanded_report::{Shown, Style, clean};
use redhanded_sys::{StatLine, write_stderr};
use std::fs;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::OnceLock;

/// What was asked for.
static COLOURS: OnceLock<Colors> = OnceLock::new();

/// Takes note of what was asked for, before anything is printed.
pub fn colour(when: Colors) {
    let _ = COLOURS.set(when);
}

/// The style for stderr: colours only on a terminal and unless `NO_COLOR` is
/// set.
pub fn style() -> Style {
    style_for(std::io::stderr().is_terminal(), Style::width_of_stderr())
}

/// The style for stdout, which is ours where no program runs.
pub fn style_of_stdout() -> Style {
    style_for(std::io::stdout().is_terminal(), Style::width_of_stdout())
}

fn style_for(terminal: bool, width: usize) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_lowercase();
    Style {
        color: match COLOURS.get() {
            Some(Colors::Always) => true,
            Some(Colors::Never) => false,
            _ => terminal && !plain,
        },
        unicode: locale.contains("utf-8") || locale.contains("utf8"),
        width,
    }
}

/// Prints a message. It may quote anything, such as a file, a process or a guest, so
/// whatever a terminal would act on is escaped, except for newlines. If nobody can read
/// it, nothing changes: a closed pipe or a full disk behind stderr must not become the
/// outcome of a run.
pub fn say(message: &str) {
    show(cleaned(message).as_bytes());
}

/// Prints a text that is harmless as it is, as [`say`] does.
pub fn show(text: &[u8]) {
    let _ = write_stderr(text);
}

/// Lines in which whatever a terminal would act on is escaped.
pub fn cleaned(message: &str) -> String {
    let unicode = style().unicode;
    let mut text = String::new();
    for line in message.lines() {
        text += &clean(line, unicode);
        text.push('\n');
    }
    text
}

/// Prints what a command without a program has to say. A reader that has seen
/// enough (`| head`) is no failure.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Stdout { source })
        }
        _ => Ok(()),
    }
}

/// How progress is shown. `shared` says whether what is observed may use the
/// terminal too.
pub fn shown(wanted: ShowProgress, quiet: bool, shared: bool) -> Shown {
    match wanted {
        ShowProgress::Never => Shown::Nothing,
        _ if quiet => Shown::Nothing,
        _ if !shared && std::io::stderr().is_terminal() => Shown::InPlace,
        ShowProgress::Auto => Shown::Nothing,
        ShowProgress::Always => Shown::Lines,
    }
}

/// How work is shown that somebody waits for. On a terminal that is shared, a line says what it is.
pub fn shown_at_once(wanted: ShowProgress, quiet: bool, shared: bool) -> Shown {
    match shown(wanted, quiet, shared) {
        Shown::Nothing
            if wanted == ShowProgress::Auto && !quiet && std::io::stderr().is_terminal() =>
        {
            Shown::Lines
        }
        shown => shown,
    }
}

/// Whether a process may use the terminal of stderr: it has it open, or it can
/// open it as `/dev/tty`. Also where that cannot be told.
pub fn is_shared_with(pid: u32) -> bool {
    let shares = || {
        let ours = match fs::metadata("/proc/self/fd/2").ok()?.rdev() {
            DEV_TTY => controlling_terminal("self")?,
            terminal => terminal,
        };
        if controlling_terminal(&pid.to_string())? == ours {
            return Some(true);
        }
        for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).ok()? {
            // One that cannot be looked at has just been closed.
            let open = fs::metadata(descriptor.ok()?.path());
            if open.is_ok_and(|open| open.file_type().is_char_device() && open.rdev() == ours) {
                return Some(true);
            }
        }
        Some(false)
    };
    shares().unwrap_or(true)
}

/// The device `/dev/tty`: whichever is the controlling terminal.
const DEV_TTY: u64 = 5 << 8;

/// The number of a process's controlling terminal; 0 if it has none.
fn controlling_terminal(process: &str) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    StatLine::parse(&stat)?.field(7)?.parse().ok()
}
