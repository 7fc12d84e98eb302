//! The `redhanded` binary: reads the command line, runs, and says with its exit
//! status what came of it.

mod analyze;
mod arguments;
mod attach;
mod check;
mod debuginfod;
mod demo;
mod diagnostics;
mod documents;
mod events;
mod exit;
mod generate;
mod hunt;
mod kernel;
mod memory;
mod namer;
mod observe;
mod project;
mod record;
mod replay;
mod replayer;
mod report;
mod run;
mod scenarios;
mod screen;
mod select;
mod sites;
mod tracing;
mod triage;
mod verdicts;

use arguments::{Arguments, Command};
use clap::Parser;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

#[global_allocator]
static MEMORY: redhanded_sys::OrExit = redhanded_sys::OrExit;

fn main() -> ExitCode {
    redhanded_sys::share_heap_if_limited();
    let backtrace = std::env::var_os("RUST_BACKTRACE").map(|_| std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let why = panic.payload_as_str().unwrap_or("no reason given");
        redhanded_sys::exit_if_for_want_of_memory(why);
        match &backtrace {
            Some(default) => default(panic),
            None => tell_in_a_sentence(panic, why),
        }
    }));
    std::panic::catch_unwind(command).unwrap_or_else(|_| {
        // Its own status could be taken for the program's.
        screen::say("redhanded: failed by a mistake of its own, which is told above");
        ExitCode::from(exit::FAILED)
    })
}

/// Tells of a panic. The standard library panics too, and then a backtrace would hide
/// the reason.
fn tell_in_a_sentence(panic: &PanicHookInfo<'_>, why: &str) {
    let place = panic.location().map(|at| format!(" ({at})"));
    screen::say(&format!("redhanded: {why}{}", place.unwrap_or_default()));
}

fn command() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return exit::usage(&error);
        }
    };
    screen::colour(arguments.color);
    if let Err(why) = diagnostics::start() {
        screen::say(&format!("redhanded: {why}"));
        return ExitCode::from(exit::FAILED);
    }
    log::debug!("redhanded {}", env!("CARGO_PKG_VERSION"));
    let outcome = match arguments.command {
        Command::Run(run) => run::run(run),
        Command::Attach(attach) => attach::attach(attach),
        Command::Kernel(mut kernel) => {
            let settled = kernel.watch.settle();
            settled.and_then(|()| kernel::kernel(&kernel))
        }
        Command::Record(arguments) => record::record(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Check(mut arguments) => check::check(&mut arguments),
        Command::Analyze(mut arguments) => analyze::analyze(&mut arguments),
        Command::Report(report) => report::report(&report),
        Command::Triage(triage) => triage::triage(&triage),
        Command::Generate { what, folder } => generate::generate(what, folder.as_deref()),
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
