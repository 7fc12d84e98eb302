//! The project's own tasks, run as `cargo xtask TASK`.

mod cargo_test;
mod claims;
mod command;
mod corpus;
mod dependencies;
mod fuzz;
mod judge;
mod kernel_corpus;
mod packages;
mod paths;
mod redhanded;
mod results;
mod steps;
mod suite;
mod test;
mod trial;

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
    /// Run everything a change must pass: format, dependencies, lints, fuzz, tests, corpora, demo
    Test(test::Options),
    /// Run the programs of the corpus under Redhanded and judge its reports
    Corpus(corpus::Options),
    /// Load the modules of the kernel corpus under Redhanded and judge its reports
    KernelCorpus(kernel_corpus::Options),
    /// Run a labelled suite of racy and race-free programs and print recall and specificity
    Suite(suite::Options),
    /// Feed damaged files to the parsers of foreign bytes
    Fuzz {
        /// For how many seconds
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
    },
    /// Check licences, sources and known vulnerabilities of all dependencies with cargo-deny
    Dependencies,
    /// Install the Debian packages that the tests need
    Packages,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Corpus(options) => corpus::run(&options).map(all_passed),
        Task::KernelCorpus(options) => kernel_corpus::run(&options).map(all_passed),
        Task::Suite(options) => suite::run(&options).map(|()| true),
        Task::Fuzz { seconds } => fuzz::run(seconds).map(|()| true),
        Task::Dependencies => dependencies::check().map(|()| true),
        Task::Packages => packages::provide().map(|()| true),
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
