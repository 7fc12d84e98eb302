//! Runs other programs, with their output shown or captured.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::paths;

/// The outcome of a captured program.
pub struct Outcome {
    /// How it ended; `None` when it was killed for taking too long.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Whether it exited with status 0.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The exit status in words.
    pub fn status_in_words(&self) -> String {
        match self.status {
            None => "had to be killed, it did not end in time".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("died of signal {signal}"),
                (None, None) => "ended without a status".to_owned(),
            },
        }
    }
}

/// Runs a program in the repository's root with its output shown; true if it succeeded.
pub fn shown(program: &str, arguments: &[&str]) -> Result<bool> {
    println!("$ {}", in_words(program, arguments));
    let status = Command::new(program)
        .args(arguments)
        .current_dir(paths::root())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    Ok(status.success())
}

/// Runs a program with its output captured, and kills it and its children after `limit`.
pub fn captured(command: &mut Command, limit: Duration) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In its own process group, so that its children can be killed with it.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, limit).with_context(|| format!("cannot wait for {name}"))?;
    Ok(Outcome {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

/// The command as one would type it into a shell.
pub fn in_words<S: AsRef<str>>(program: &str, arguments: &[S]) -> String {
    let mut words = quoted(program);
    for argument in arguments {
        words.push(' ');
        words.push_str(&quoted(argument.as_ref()));
    }
    words
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the leader of a process group. Kills the group after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            if let Ok(group) = i32::try_from(child.id()) {
                // This fails if it has just ended, which is as good.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(
            in_words("redhanded", &["run", "--function", "*bump*", "it's"]),
            r"redhanded run --function '*bump*' 'it'\''s'"
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        // The grandchild keeps the pipe open: reading to its end would hang if only the
        // shell were killed.
        command.args(["-c", "echo begun; sleep 1000 & wait"]);
        // Long enough for a shell to start on a busy machine.
        let outcome = captured(&mut command, Duration::from_secs(3)).unwrap();
        assert!(outcome.status.is_none());
        assert_eq!(outcome.stdout, "begun\n");
    }
}
