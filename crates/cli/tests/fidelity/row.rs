//! One row of the matrix: a program that runs alone and under the tool, and what
//! must be the same.

use crate::place::{Outcome, Place};
use nix::unistd::geteuid;
use serde_json::Value;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The user and the group of nobody in particular.
pub const NOBODY: u32 = 65534;

/// Who runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    /// Whoever runs the tests.
    Own,
    /// An ordinary user, where the tests are run by root.
    Ordinary,
}

impl User {
    /// Those that can be had here.
    pub fn all() -> Vec<Self> {
        if geteuid().is_root() {
            vec![Self::Own, Self::Ordinary]
        } else {
            println!("not run by root: everything is run once, by one ordinary user");
            vec![Self::Own]
        }
    }

    fn runs(self, command: &mut Command) {
        if self == Self::Ordinary {
            command.uid(NOBODY).gid(NOBODY);
        }
    }
}

/// One test at a time has rows: what a program notices of the tool must not be lost
/// in what it notices of other tests.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// How many rows this test has.
    static ROWS: Cell<u32> = const { Cell::new(0) };
}

/// The right to have rows.
struct Turn(#[expect(dead_code, reason = "held, not read")] Option<MutexGuard<'static, ()>>);

impl Turn {
    fn take() -> Self {
        let first = ROWS.get() == 0;
        ROWS.set(ROWS.get() + 1);
        Self(first.then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        ROWS.set(ROWS.get() - 1);
    }
}

/// A program of `programs/` in a folder of its own.
pub struct Row {
    _turn: Turn,
    pub place: Place,
    pub program: PathBuf,
    pub tool: PathBuf,
}

impl Row {
    /// Builds `programs/NAME.c`.
    pub fn new(name: &str) -> Self {
        Self::built(name, &[])
    }

    /// Builds `programs/NAME.c` with more options for the compiler.
    pub fn built(name: &str, options: &[&str]) -> Self {
        let turn = Turn::take();
        let place = Place::new();
        // What runs in it may be another user's.
        fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).unwrap();
        // The folder of the build may be closed to others.
        let tool = fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
        let tool = place.executable("redhanded", &tool);
        let mut row = Self {
            _turn: turn,
            program: place.path(name),
            place,
            tool,
        };
        row.program = row.compile(name, name, options);
        row
    }

    /// Builds another file of `programs/` as `output`.
    pub fn compile(&self, source: &str, output: &str, options: &[&str]) -> PathBuf {
        let output = self.place.path(output);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fidelity/programs")
            .join(source)
            .with_extension("c");
        let status = Command::new("gcc")
            .args(["-Wall", "-g", "-O1", "-pthread", "-o"])
            .arg(&output)
            .arg(source)
            .args(options)
            .status()
            .expect("gcc is needed to build the programs of the tests");
        assert!(status.success());
        output
    }

    /// The program alone.
    pub fn alone(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&self.program);
        command.args(arguments);
        command
    }

    /// The program under the tool; its own status is the tool's.
    pub fn observed(&self, arguments: &[&str]) -> Command {
        self.observing(&self.program, arguments)
    }

    /// Any program under the tool. More options come from the environment, so
    /// that the whole matrix can be run with them.
    pub fn observing(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&self.tool);
        let options = options();
        if options.iter().any(|option| option == "--safe") {
            // So few sites are armed at a time then that a short run may have no
            // window: take those that are always run.
            command.args(["run", "--function", "bump", "--function", "flip"]);
        } else {
            command.arg("run");
        }
        command.args(options);
        command.args(["--fail-on", "never", "--json"]);
        command.arg(self.report_path()).arg("--");
        command.arg(program).args(arguments);
        command
    }

    fn report_path(&self) -> PathBuf {
        self.place.path("report.json")
    }

    /// The report of the run before; there is none any more afterwards.
    #[track_caller]
    pub fn report(&self) -> Value {
        let report = serde_json::from_slice(&fs::read(self.report_path()).unwrap()).unwrap();
        fs::remove_file(self.report_path()).unwrap();
        report
    }

    /// Runs the program alone and observed, as every user there is, and holds
    /// the second to the first: what it prints and how it ends. The first must
    /// end with `status`. There must have been windows.
    #[track_caller]
    pub fn same_as_alone(&self, arguments: &[&str], status: i32) {
        for user in User::all() {
            self.same_for(user, arguments, status);
        }
    }

    /// As [`Self::same_as_alone`], as one user; what it printed.
    #[track_caller]
    pub fn same_for(&self, user: User, arguments: &[&str], status: i32) -> String {
        let run = |mut command: Command| {
            user.runs(&mut command);
            self.place.finish(command)
        };
        let alone = run(self.alone(arguments));
        assert_eq!(alone.status, status, "alone, {user:?}: {alone:#?}");
        let observed = run(self.observed(arguments));
        same(&alone, &observed);
        self.windows_happened(&observed);
        observed.stdout()
    }

    /// Without windows nothing was tested.
    #[track_caller]
    pub fn windows_happened(&self, observed: &Outcome) {
        let report = self.report();
        let windows = report["run"]["windows"].as_u64();
        assert!(windows > Some(0), "no window: {observed:#?}");
    }
}

/// Options for the tool from the environment, separated by blanks.
pub fn options() -> Vec<String> {
    let text = std::env::var("REDHANDED_TEST_OPTIONS").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Holds what was observed to what happens alone.
#[track_caller]
pub fn same(alone: &Outcome, observed: &Outcome) {
    let (expected, printed) = (alone.stdout(), observed.stdout());
    let told = &observed.stderr;
    let lines = expected.lines().zip(printed.lines());
    for (expected, printed) in lines {
        assert_eq!(printed, expected, "other output than alone; {told}");
    }
    assert_eq!(printed, expected, "more or less than alone; {told}");
    assert_eq!(observed.status, alone.status, "other status; {told}");
}
