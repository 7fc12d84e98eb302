//! A virtual machine from its start to its end.

use super::{KernelSubject, Vm};
use crate::exit::{self, Failure};
use crate::observe::Display;
use crate::screen;
use redhanded_model::{Run, Unseen};
use redhanded_provision::{Output, VirtualMachine, VmState};
use redhanded_target::{Ending, Signals, TargetError};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a kernel may take until its workload can start; emulation is slow.
const BOOTS_WITHIN: Duration = Duration::from_secs(120);
/// How often it is asked whether a signal came.
const LISTENS_EVERY: Duration = Duration::from_millis(100);
/// How long the last words of a machine are waited for.
const FAREWELL: Duration = Duration::from_secs(5);

/// Starts the virtual machine, if there is none yet, and waits until its kernel is
/// up; where its gdbstub is.
pub fn begin(
    kernel: &KernelSubject,
    signals: &Signals,
    display: &Display,
) -> Result<(String, Option<VirtualMachine>), Failure> {
    let options = match &kernel.vm {
        Vm::Running(address) => return Ok((address.to_string(), None)),
        Vm::Launched(options) => options,
    };
    let machine = VirtualMachine::launch(options, Output::ours())?;
    if display.announce {
        screen::say(&format!(
            "redhanded: booting {} on {}",
            options.kernel.display(),
            machine.accelerator()
        ));
    }
    let deadline = Instant::now() + BOOTS_WITHIN;
    let mut state = VmState::Booting;
    while state == VmState::Booting && Instant::now() < deadline {
        state = machine.wait_beyond(&VmState::Booting, LISTENS_EVERY);
        if let Some(signal) = signals.asked_to_end() {
            return Err(Failure::told_to_end(signal, "the kernel was up"));
        }
    }
    let why = match state {
        VmState::Running => {
            let place = format!("unix:{}", machine.gdb().display());
            return Ok((place, Some(machine)));
        }
        VmState::Booting => format!("it has not booted in {} s", BOOTS_WITHIN.as_secs()),
        VmState::NotLoaded(what) => format!("it does not take the module {what}"),
        VmState::Panicked(words) => words,
        VmState::Exited(_) | VmState::Gone => "it ended at once".to_owned(),
    };
    let log = machine.log();
    let last: Vec<&str> = log.iter().rev().take(5).rev().map(String::as_str).collect();
    Err(Failure::Target(TargetError::Unsupported(format!(
        "the kernel could not be started: {why}. Its last words were\n  {}",
        last.join("\n  ")
    ))))
}

/// Runs the workload of a machine that nobody may hold; the exit status.
pub fn unobserved(vm: Vm, signals: &Signals) -> Result<ExitCode, Failure> {
    let Vm::Launched(mut options) = vm else {
        screen::say("redhanded: with --overhead 0 nothing may be held, so it did not attach");
        return Ok(ExitCode::SUCCESS);
    };
    options.waits = false;
    let mut machine = VirtualMachine::launch(&options, Output::ours())?;
    while !machine.wait(LISTENS_EVERY).is_over() {
        if let Some(signal) = signals.asked_to_end() {
            let core = false;
            return Ok(exit::of_program(Ending::Killed { signal, core }));
        }
    }
    Ok(match machine.finish() {
        VmState::Exited(status) => exit::of_program(Ending::Exited { status }),
        state => {
            tell_lost(&why_lost(state));
            ExitCode::from(exit::FAILED)
        }
    })
}

fn why_lost(state: VmState) -> String {
    match state {
        VmState::Panicked(words) => words,
        _ => "the virtual machine ended before its workload".to_owned(),
    }
}

fn tell_lost(why: &str) {
    screen::say(&format!(
        "redhanded: the rest of the run was not seen: {why}"
    ));
}

/// Ends a virtual machine that was started here; how its workload ended.
pub fn end(mut machine: VirtualMachine, over: bool, run: &mut Run, display: &Display) -> Ending {
    if over {
        let _ = machine.wait(FAREWELL);
    }
    let troubles = machine.troubles();
    let state = machine.finish();
    if let Some(first) = troubles.first() {
        screen::say(&format!("redhanded: the kernel complained: {first}"));
    }
    match state {
        VmState::Exited(status) => Ending::Exited { status },
        _ if !over => Ending::EndedByUs,
        state => {
            let why = why_lost(state);
            // Otherwise the report says it.
            if !display.announce {
                tell_lost(&why);
            }
            run.unseen.push(Unseen {
                what: "the rest of the run".to_owned(),
                why,
            });
            Ending::Exited {
                status: i32::from(exit::FAILED),
            }
        }
    }
}
