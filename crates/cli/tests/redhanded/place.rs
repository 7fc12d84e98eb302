//! A temporary folder to build small programs in and to run the tool in.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A run that is not over by then hangs. No test waits this long for anything.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status.
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Whether stderr has these words, however its lines are broken.
    pub fn says(&self, words: &str) -> bool {
        let said: Vec<&str> = self.stderr.split_whitespace().collect();
        said.join(" ").contains(words)
    }

    /// Holds a refusal to one sentence on stderr, which names what is wrong.
    #[track_caller]
    pub fn refused(&self, status: i32, sentence: &str) {
        assert_eq!(self.status, status, "{self:#?}");
        assert!(self.stdout.is_empty(), "{self:#?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines.as_slice() else {
            panic!("one sentence is expected: {self:#?}");
        };
        assert!(line.starts_with("redhanded: "), "{self:#?}");
        assert!(line.contains(sentence), "no '{sentence}' in: {self:#?}");
    }
}

pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Another user may be asked to run what is in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// A place with one of the programs in `fixtures/`, built as `name`.
    pub fn with(name: &str) -> Self {
        let place = Self::new();
        place.build(name, name, &[]);
        place
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that is executable.
    pub fn executable(&self, name: &str, content: &[u8]) -> PathBuf {
        self.file(name, content, 0o755)
    }

    pub fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.path(name);
        // Another program writes it. A file that we have open for writing while another
        // test forks is open in that child too, and cannot be executed until it is gone.
        let mut tee = Command::new("tee")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        tee.stdin.take().unwrap().write_all(content).unwrap();
        assert!(tee.wait().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Builds `fixtures/SOURCE.c` as `name`.
    pub fn build(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile("gcc", &format!("{source}.c"), name, flags)
    }

    /// Builds `fixtures/SOURCE.cc` as `name`.
    pub fn build_cc(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile("g++", &format!("{source}.cc"), name, flags)
    }

    fn compile(&self, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let output = self.path(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/redhanded/fixtures")
            .join(source);
        let status = Command::new(compiler)
            .args(["-g", "-O1", "-pthread", "-o"])
            .arg(&output)
            .arg(source)
            .args(flags)
            .status()
            .expect("gcc and g++ are needed to build the programs of the tests");
        assert!(status.success());
        output
    }

    /// The tool with these arguments, to be run in this folder.
    pub fn redhanded<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        // Whoever runs the tests may have had signals ignored.
        let mut command = self.command("/usr/bin/env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_redhanded")]);
        command.args(arguments);
        command
    }

    /// Any program, to be run in this folder in the same way.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .env_remove("DEBUGINFOD_URLS")
            .env_remove("REDHANDED_LOG")
            .env("no_proxy", "*")
            // So that a panic is told as one.
            .env("RUST_BACKTRACE", "0")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// Runs the tool to its end.
    #[track_caller]
    pub fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Outcome {
        self.finish(self.redhanded(arguments))
    }

    /// Runs a command to its end; what it says is collected.
    #[track_caller]
    pub fn finish(&self, command: Command) -> Outcome {
        self.start(command).end()
    }

    /// Starts a command whose output is collected.
    pub fn start(&self, mut command: Command) -> Running {
        // Files, not pipes: a program that is left running keeps its output open.
        let (stdout, stderr) = (self.path(".stdout"), self.path(".stderr"));
        command.stdout(File::create(&stdout).unwrap());
        command.stderr(File::create(&stderr).unwrap());
        Running {
            child: in_own_group(&mut command),
            stdout,
            stderr,
        }
    }

    /// Runs a command with the output it has; the exit status.
    #[track_caller]
    pub fn status_of(mut command: Command) -> i32 {
        let mut child = in_own_group(&mut command);
        let status = wait(&mut child);
        nothing_left(child.id());
        status
    }
}

/// All that a run starts is in one process group, and can be found by it.
fn in_own_group(command: &mut Command) -> Child {
    command.process_group(0).spawn().unwrap()
}

/// A command that was started.
pub struct Running {
    pub child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Waits for its end; everything it started must have ended, too.
    #[track_caller]
    pub fn end(mut self) -> Outcome {
        let outcome = self.end_leaving_some();
        nothing_left(self.child.id());
        outcome
    }

    /// Waits for its end only.
    #[track_caller]
    pub fn end_leaving_some(&mut self) -> Outcome {
        let status = wait(&mut self.child);
        let outcome = Outcome {
            status,
            stdout: fs::read(&self.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned(),
        };
        assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
        assert_ne!(outcome.status, 101, "{outcome:#?}");
        outcome
    }

    /// Waits until the program has printed `text`.
    #[track_caller]
    pub fn until_printed(&mut self, text: &str) {
        let start = Instant::now();
        while !fs::read_to_string(&self.stdout).unwrap().contains(text) {
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended too soon");
            assert!(start.elapsed() < HANGS_AFTER, "'{text}' was never printed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whatever a failed test leaves, only what it started.
        let _ = killpg(group(self.child.id()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn group(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}

/// The exit status as a shell gives it.
#[track_caller]
fn wait(child: &mut Child) -> i32 {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let signal = status.signal();
            return signal.map_or_else(|| status.code().unwrap(), |signal| 128 + signal);
        }
        if start.elapsed() > HANGS_AFTER {
            let left = members(child.id());
            let _ = killpg(group(child.id()), Signal::SIGKILL);
            panic!("it hangs: {left:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
/// A process that ends with another one may take a moment.
fn nothing_left(group: u32) {
    let start = Instant::now();
    loop {
        let left = members(group);
        if left.is_empty() {
            return;
        }
        let late = start.elapsed() > Duration::from_secs(10);
        assert!(!late, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The living processes of a group: number, name and state.
pub fn members(group: u32) -> Vec<(u32, String, char)> {
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let (name, state, of) = stat(pid)?;
            (of == group && state != 'Z' && state != 'X').then_some((pid, name, state))
        })
        .collect()
}

/// Name, state and process group of a process.
fn stat(pid: u32) -> Option<(String, char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (start, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((start.to_owned(), state, group))
}
