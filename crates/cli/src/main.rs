//! The `redhanded` binary: reads the command line, runs, and says with its exit
//! status what came of it.

mod arguments;
mod attach;
mod demo;
mod exit;
mod kernel;
mod observe;
mod report;
mod run;
mod screen;
mod select;
mod sites;
mod tracing;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: redhanded_sys::OrExit = redhanded_sys::OrExit;

fn main() -> ExitCode {
    std::panic::catch_unwind(command).unwrap_or_else(|_| {
        // Its own status could be taken for the program's.
        screen::say("redhanded: failed by a mistake of its own, which is told above");
        ExitCode::from(exit::FAILED)
    })
}

fn command() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return exit::usage(&error);
        }
    };
    let outcome = match arguments.command {
        Command::Run(run) => run::run(run),
        Command::Attach(attach) => attach::attach(attach),
        Command::Kernel(kernel) => kernel::kernel(&kernel),
        Command::Report(report) => report::report(&report),
        Command::Sites(sites) => sites::sites(&sites),
        Command::Demo(demo) => demo::demo(&demo),
        Command::DemoProgram => {
            redhanded_demo::main();
            return ExitCode::SUCCESS;
        }
    };
    outcome.unwrap_or_else(|failure| {
        screen::say(&format!("redhanded: {failure}"));
        ExitCode::from(failure.status())
    })
}
