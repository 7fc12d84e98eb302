//! Completions and man pages, made from the same source as `--help`.

use crate::arguments::{Arguments, Generated};
use crate::exit::Failure;
use crate::screen;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use redhanded_sys::write_whole;
use std::path::Path;
use std::process::ExitCode;

/// Prints the completions for a shell, or writes the man pages into a folder.
pub fn generate(what: Generated, folder: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let shell = match what {
        Generated::Bash => Shell::Bash,
        Generated::Zsh => Shell::Zsh,
        Generated::Fish => Shell::Fish,
        Generated::Elvish => Shell::Elvish,
        Generated::Powershell => Shell::PowerShell,
        Generated::Man => {
            let none = || Failure::Usage("name a folder for the man pages".into());
            let folder = folder.ok_or_else(none)?;
            if !folder.is_dir() {
                let what = folder.display();
                return Err(Failure::Usage(format!(
                    "there is no folder {what}; make it first"
                )));
            }
            let mut command = command.disable_help_subcommand(true);
            command.build();
            write_pages(command, folder)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "redhanded", &mut text);
    screen::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the man page of a command and of its parts, each whole or not at all.
fn write_pages(command: Command, folder: &Path) -> Result<(), Failure> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part.clone(), folder)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    // The lines of the examples stay as they are: they are in columns.
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n");
    let path = folder.join(page.get_filename());
    write_whole(&path, 0o666, text.as_bytes()).map_err(|source| Failure::File {
        what: "a man page",
        path,
        source,
    })
}
