//! What cannot be observed is recognised and left alone, with a sentence.

use crate::row::{NOBODY, Row, User, same};
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_program_that_traces_its_children() {
    Row::new("traces").same_as_alone(&[], 0);
}

/// A program that takes on the rights of its owner, and a user without them.
fn run_as_nobody(row: &Row, mut command: Command) -> crate::place::Outcome {
    command.uid(NOBODY).gid(NOBODY);
    row.place.finish(command)
}

fn setuid_root() -> Option<Row> {
    if !geteuid().is_root() {
        println!("skipped: only root can make a program that takes on root's rights");
        return None;
    }
    let row = Row::new("privileged");
    fs::set_permissions(&row.program, fs::Permissions::from_mode(0o4755)).unwrap();
    let alone = run_as_nobody(&row, row.alone(&[]));
    if alone.stdout().contains("effective 0") {
        println!("skipped: the temporary folder gives nobody other rights (nosuid)");
        return None;
    }
    assert_eq!(alone.stdout(), "user 0, effective 1, secure 1\n");
    Some(row)
}

#[test]
fn a_program_with_the_rights_of_another() {
    let Some(row) = setuid_root() else { return };
    let alone = run_as_nobody(&row, row.alone(&[]));
    let observed = run_as_nobody(&row, row.observed(&[]));
    same(&alone, &observed);
    assert!(observed.stderr.contains("setuid"), "{observed:#?}");
}

/// Its parent is traced, so the kernel gives it none; untraced children have them.
#[test]
fn a_child_with_the_rights_of_another() {
    let Some(row) = setuid_root() else { return };
    let script = "./privileged; ./privileged; exit 3";
    // It forks; a vforked child is in its parent's memory until it execs, and traced.
    let mut alone = row.place.command("bash");
    alone.args(["-c", script]);
    let alone = run_as_nobody(&row, alone);
    let mut observed = row.place.command(&row.tool);
    observed.args([
        "run",
        "--fail-on",
        "never",
        "--follow",
        "none",
        "--",
        "bash",
        "-c",
        script,
    ]);
    let observed = run_as_nobody(&row, observed);
    assert_eq!((observed.status, observed.stdout()), (3, alone.stdout()));
    let mut followed = row.place.command(&row.tool);
    followed.args(["run", "--fail-on", "never", "--", "bash", "-c", script]);
    let followed = run_as_nobody(&row, followed);
    assert_eq!(followed.status, 3);
    assert!(followed.says("--follow none"), "{followed:#?}");
}

#[test]
fn root_needs_not_leave_it_alone() {
    let Some(row) = setuid_root() else { return };
    row.same_for(User::Own, &[], 0);
}
