//! Finds a program and starts it, traced from its first instruction and otherwise as
//! its user would have started it.

use super::events::await_change;
use super::tasks;
use redhanded_image::{Image, ImageError};
use redhanded_sys::{self as sys, Change, Parent, SignalSet, Tid, open_regular};
use redhanded_target::TargetError;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that was found and can be read.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that is run.
    pub path: PathBuf,
    /// Its arguments. The first is the name under which it was asked for.
    pub arguments: Vec<OsString>,
    /// The interpreter, if the file is a script.
    pub interpreter: Option<String>,
}

impl Program {
    /// Finds the program as a shell would. Checks that it can be run and read before
    /// anything is started.
    ///
    /// # Errors
    /// What is wrong and what to do about it.
    pub fn find(arguments: &[OsString]) -> Result<Self, TargetError> {
        let Some(name) = arguments.first() else {
            return Err(TargetError::NotFound {
                program: String::new(),
                why: "no program was named; put it after --".to_owned(),
            });
        };
        let shown = name.to_string_lossy().into_owned();
        let not_found = |why: &str| TargetError::NotFound {
            program: shown.clone(),
            why: why.to_owned(),
        };
        let not_runnable = |why: String| TargetError::NotRunnable {
            program: shown.clone(),
            why,
        };
        let path = if name.as_bytes().contains(&b'/') {
            PathBuf::from(name)
        } else {
            search(name).ok_or_else(|| not_found("no such program on PATH"))?
        };
        let data = fs::metadata(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                not_runnable("its folder may not be searched; check the permissions".to_owned())
            }
            io::ErrorKind::NotFound => not_found("no such file"),
            _ => not_found(&error.to_string()),
        })?;
        if data.is_dir() {
            return Err(not_runnable("it is a folder".to_owned()));
        }
        if data.permissions().mode() & 0o111 == 0 {
            return Err(not_runnable(
                "it is not executable; use chmod +x if it is a program".to_owned(),
            ));
        }
        let mut interpreter = None;
        match Image::open(&path) {
            Ok(image) => {
                if let Some(missing) = image.interpreter().filter(|path| !path.exists()) {
                    return Err(not_runnable(format!(
                        "its dynamic linker {} is not on this system",
                        missing.display()
                    )));
                }
            }
            Err(ImageError::Read { source, .. }) if is_shortage(&source) => {
                let action = format!("cannot read {}", path.display());
                return Err(TargetError::System { action, source });
            }
            Err(ImageError::Read { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                return Err(not_runnable(
                    "it may not be read, and Redhanded can only sample code that it can read"
                        .to_owned(),
                ));
            }
            Err(error @ ImageError::NotElf { .. }) => match script_interpreter(&path) {
                Some(name) if Path::new(&name).exists() => interpreter = Some(name),
                Some(name) => {
                    return Err(not_runnable(format!(
                        "the interpreter in its first line, {name}, does not exist"
                    )));
                }
                None => return Err(not_runnable(error.to_string())),
            },
            Err(error) => return Err(not_runnable(error.to_string())),
        }
        Ok(Self {
            path,
            arguments: arguments.to_vec(),
            interpreter,
        })
    }

    /// Whether it is setuid or setgid and we are not root: the kernel gives a traced
    /// program no privileges.
    #[must_use]
    pub fn has_rights_of_its_own(&self) -> bool {
        sys::effective_user() != 0
            && fs::metadata(&self.path).is_ok_and(|data| data.permissions().mode() & 0o6000 != 0)
    }

    /// Runs the program in place of this process, untraced. Returns only if that fails.
    pub fn become_it(&self, signals: &super::Signals) -> TargetError {
        match self.c_strings() {
            Err(error) => error,
            Ok((program, arguments)) => {
                self.not_started(sys::exec(&program, &arguments, signals.held()))
            }
        }
    }

    /// What exec's error means.
    fn not_started(&self, source: io::Error) -> TargetError {
        let program = self.path.display().to_string();
        if is_shortage(&source) {
            let action = format!("cannot start {program}");
            return TargetError::System { action, source };
        }
        TargetError::NotRunnable {
            program,
            why: source.to_string(),
        }
    }

    /// The program and its arguments for exec.
    fn c_strings(&self) -> Result<(CString, Vec<CString>), TargetError> {
        let c_string = |text: &OsStr| {
            CString::new(text.as_bytes()).map_err(|_| TargetError::NotRunnable {
                program: self.path.display().to_string(),
                why: "an argument contains a zero byte".to_owned(),
            })
        };
        let arguments: Result<Vec<_>, _> = self.arguments.iter().map(|a| c_string(a)).collect();
        Ok((c_string(self.path.as_os_str())?, arguments?))
    }

    /// Starts it, traced with `options`, and stops it right after exec.
    pub(super) fn start(
        &self,
        options: i32,
        signals: &SignalSet,
        parent: Parent,
    ) -> Result<Tid, TargetError> {
        let (program, arguments) = self.c_strings()?;
        let system = |action: &str| {
            let action = action.to_owned();
            move |source| TargetError::System { action, source }
        };
        let launch =
            sys::launch(&program, &arguments, signals, parent).map_err(system("cannot fork"))?;
        if let Err(source) = sys::seize(launch.pid, options) {
            let tracer = tasks::tracer_of(launch.pid).filter(|tracer| *tracer != 0);
            drop(launch);
            return Err(match tracer {
                Some(tracer) => TargetError::Unsupported(format!(
                    "cannot trace the program: {} (process {tracer}) traces it already, because it \
                     traces redhanded and everything that redhanded starts; run redhanded without it",
                    tasks::name(tracer, tracer)
                )),
                None => TargetError::System {
                    action: "ptrace refused to trace the program; a container may need \
                             --cap-add=SYS_PTRACE, and seccomp or kernel.yama.ptrace_scope=3 \
                             forbid it"
                        .to_owned(),
                    source,
                },
            });
        }
        launch.go().map_err(system("cannot start the program"))?;
        loop {
            match await_change(launch.pid).map_err(system("cannot wait for the program"))? {
                Some(Change::Stopped(_, libc::PTRACE_EVENT_EXEC)) => return Ok(launch.pid),
                Some(Change::Stopped(signal, 0)) => {
                    // A signal between fork and exec is meant for the program.
                    sys::resume(launch.pid, signal).map_err(system("cannot continue"))?;
                }
                Some(Change::Stopped(..)) => {
                    sys::resume(launch.pid, 0).map_err(system("cannot continue"))?;
                }
                Some(Change::Exited(_) | Change::Killed(..)) | None => {
                    let error = launch.failure();
                    return Err(self.not_started(
                        error.unwrap_or_else(|| io::Error::other("it died before it began")),
                    ));
                }
            }
        }
    }
}

/// Whether a limit on memory, descriptors or processes is the cause. Then nothing is wrong
/// with the program.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
    error
        .raw_os_error()
        .is_some_and(|number| shortages.contains(&number))
}

fn search(name: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let candidates = || env::split_paths(&path).map(|folder| folder.join(name));
    let executable = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    candidates()
        .find(executable)
        .or_else(|| candidates().find(|path| path.is_file()))
}

/// The interpreter of a `#!` script.
fn script_interpreter(path: &Path) -> Option<String> {
    /// The kernel looks at no more of a file.
    const LONGEST: u64 = 256;
    let mut text = Vec::new();
    let file = open_regular(path).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let line = text
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    // To the kernel, a carriage return is part of the name.
    let mut words = line.split(|byte| b" \t".contains(byte));
    let name = words.find(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(name).into_owned())
}
