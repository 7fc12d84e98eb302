//! `redhanded attach`.

use crate::arguments::Attach;
use crate::exit::Failure;
use crate::observe::{Observation, Observed, Subject, observe};
use crate::screen;
use redhanded_detect::Start;
use redhanded_sys::read_sources_as;
use redhanded_target::{Ending, Signals};
use std::process::ExitCode;
use std::time::Duration;

/// Observes a process that runs already; the exit status.
pub fn attach(arguments: Attach) -> Result<ExitCode, Failure> {
    let signals = Signals::hold();
    let watch = arguments.watch;
    watch.check()?;
    arguments.tracing.check()?;
    if watch.overhead == Some(0.0) {
        screen::say("redhanded: --overhead 0 allows no thread to be held, so it did not attach");
        return Ok(ExitCode::SUCCESS);
    }
    // A user's program may name any file as its source.
    read_sources_as(arguments.pid.cast_signed());
    let display = watch.display(screen::is_shared_with(arguments.pid));
    let mut observation = Observation {
        until: arguments.until,
        ..arguments.tracing.observation(watch.observation(
            Subject::Process(arguments.pid),
            signals,
            &display,
        )?)
    };
    observation.options.start = Start::Gently;
    observation.options.budget.credit = Duration::ZERO;
    let observed = Observed {
        // How somebody else's process ended is not our status.
        ending: Ending::LeftRunning,
        ..observe(observation, &display)?
    };
    watch.tell(observed, &display)
}
