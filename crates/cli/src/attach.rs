//! `redhanded attach`.

use crate::arguments::Attach;
use crate::debuginfod;
use crate::exit::Failure;
use crate::namer::enough_rights;
use crate::observe::{Observation, Observed, Subject, observe};
use crate::screen;
use redhanded_detect::Start;
use redhanded_target::{Ending, Signals};
use std::process::ExitCode;
use std::time::Duration;

/// Observes a process that runs already; the exit status.
pub fn attach(arguments: Attach) -> Result<ExitCode, Failure> {
    let mut watch = arguments.watch;
    if watch.overhead != Some(0.0) {
        debuginfod::for_process(arguments.pid, watch.quiet);
    }
    let signals = Signals::hold();
    watch.settle()?;
    watch.check()?;
    arguments.tracing.check()?;
    if watch.overhead == Some(0.0) {
        screen::say("redhanded: --overhead 0 allows no thread to be held, so it did not attach");
        return Ok(ExitCode::SUCCESS);
    }
    let display = watch.display(screen::is_shared_with(arguments.pid));
    let mut observation = Observation {
        until: arguments.until,
        ..arguments.tracing.observation(watch.observation(
            Subject::Process(arguments.pid),
            signals,
            &display,
        )?)
    };
    observation = arguments.tracing.hunt(&watch, observation)?;
    observation.rights = enough_rights(arguments.pid);
    observation.options.start = Start::Gently;
    observation.options.budget.credit = Duration::ZERO;
    let observed = Observed {
        // How somebody else's process ended is not our status.
        ending: Ending::LeftRunning,
        ..observe(observation, &display)?
    };
    watch.tell(observed, &display)
}
