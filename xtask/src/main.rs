//! The project's own tasks, run as `cargo xtask TASK`.

mod cargo_test;
mod check;
mod claims;
mod command;
mod corpus;
mod deb;
mod dependencies;
mod fuzz;
mod hostile;
mod jobs;
mod judge;
mod kernel_corpus;
mod kills;
mod names;
mod packages;
mod paths;
mod recorder;
mod redhanded;
mod results;
mod steps;
mod suite;
mod test;
mod trial;
mod verdicts;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use results::Tally;

/// The project's own tasks: the whole test, the corpus, labelled suites.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything a change must pass: format, dependencies, lints, fuzz, tests, attacks, corpora, demo
    Test(test::Options),
    /// Run the programs of the corpus under Redhanded and judge its reports
    Corpus(corpus::Options),
    /// Record, analyse and hunt the programs of the corpus with `redhanded check`
    Check(check::Options),
    /// Load the modules of the kernel corpus under Redhanded and judge its reports
    KernelCorpus(kernel_corpus::Options),
    /// Run a labelled suite of racy and race-free programs and print recall and specificity
    Suite(suite::Options),
    /// Run the labelled races and print how many verdicts are right
    Verdicts(verdicts::Options),
    /// Kill processes of Redhanded at random moments and count the targets that suffer from it
    Kills(kills::Options),
    /// Count the accesses through pointers that get a name, in programs as compiled
    Names(names::Options),
    /// Have programs, files, stubs and users attack the tool
    Hostile(hostile::Options),
    /// Feed the parsers of foreign bytes with inputs that reach more and more of their code
    Fuzz(fuzz::Options),
    /// Check licences, sources and known vulnerabilities of all dependencies with cargo-deny
    Dependencies,
    /// Build the Debian package, install it into an empty folder, and remove it again
    Deb(deb::Options),
    /// Install the Debian packages that the tests need
    Packages,
    /// Build the recorder that `redhanded record` needs, and place it beside the binary
    Recorder(recorder::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Corpus(options) => corpus::run(&options).map(all_passed),
        Task::Check(options) => check::run(&options).map(all_passed),
        Task::KernelCorpus(options) => kernel_corpus::run(&options).map(all_passed),
        Task::Suite(options) => suite::run(&options).map(|()| true),
        Task::Verdicts(options) => verdicts::run(&options).map(all_passed),
        Task::Kills(options) => kills::run(&options).map(all_passed),
        Task::Names(options) => names::run(&options).map(|()| true),
        Task::Hostile(options) => hostile::run(&options).map(all_passed),
        Task::Fuzz(options) => fuzz::run(&options).map(all_passed),
        Task::Dependencies => dependencies::check().map(|()| true),
        Task::Deb(options) => deb::run(&options).map(|_| true),
        Task::Packages => packages::provide().map(|()| true),
        Task::Recorder(options) => recorder::build(&options).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn all_passed(tally: Tally) -> bool {
    println!("{tally}");
    tally.failed == 0
}
