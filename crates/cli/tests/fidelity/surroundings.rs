//! Where it runs is where it would run alone.

use crate::row::{NOBODY, Row, User, same};
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What is set up before the program starts: a shell's command line, to which
/// that of the program is added. The shell stays, as the leader of the group.
fn prepared(row: &Row, script: &str, command: &Command, user: User) -> Command {
    let mut shell = row.place.command("sh");
    let script = format!("{script} \"$@\" $$; exit $?");
    shell.args(["-c", &script, "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    shell.env("COLOUR_OF_THE_BIKE_SHED", "any\nwill do");
    if user == User::Ordinary {
        shell.uid(NOBODY).gid(NOBODY);
    }
    shell
}

#[track_caller]
fn same_surroundings(script: &str, expected: &[&str]) {
    let row = Row::new("surroundings");
    for user in User::all() {
        let run = |command| row.place.finish(prepared(&row, script, &command, user));
        let alone = run(row.alone(&[]));
        assert_eq!(alone.status, 0, "{}", alone.stdout());
        for line in expected {
            let printed = alone.stdout();
            assert!(printed.contains(line), "no '{line}' in {printed}");
        }
        let observed = run(row.observed(&[]));
        same(&alone, &observed);
        row.windows_happened(&observed);
        let mut becomes = row.place.command(&row.tool);
        becomes
            .args(["run", "--overhead", "0", "--"])
            .arg(&row.program);
        same(&alone, &run(becomes));
    }
}

#[test]
fn it_finds_itself_where_it_was_started() {
    same_surroundings("", &["Threads:\t3", "group the caller's, leader 0"]);
}

#[test]
fn limits_and_masks_are_handed_on() {
    same_surroundings(
        "umask 027; cd /; ulimit -n 100; ulimit -s 4096; exec 7</dev/null; \
         nice -n 5 env --ignore-signal=HUP,USR2 --block-signal=USR1,CHLD",
        &[
            "nice 5",
            "Umask:\t0027",
            "/proc/self/cwd -> /\n",
            "limit 7: 64 64",
            "descriptor 7:",
            "signal 10: default, blocked 1",
            "signal 12: ignored, blocked 0",
        ],
    );
}

#[test]
fn a_broken_pipe_that_is_ignored() {
    same_surroundings(
        "env --ignore-signal=PIPE",
        &["signal 13: ignored, blocked 0"],
    );
}

#[test]
fn children_that_are_ignored() {
    same_surroundings(
        "env --ignore-signal=CHLD",
        &["signal 17: ignored, blocked 0"],
    );
}

#[test]
fn a_trap_that_is_blocked_or_ignored_from_the_start() {
    same_surroundings("env --block-signal=TRAP", &["signal 5: default, blocked 1"]);
    same_surroundings(
        "env --ignore-signal=TRAP",
        &["signal 5: ignored, blocked 0"],
    );
}

#[test]
fn filters_of_system_calls_hold() {
    Row::new("filtered").same_as_alone(&[], 0);
}

#[test]
fn namespaces_of_its_own() {
    Row::new("namespaces").same_as_alone(&[], 0);
}

#[test]
fn rights_that_are_dropped() {
    if !geteuid().is_root() {
        println!("skipped: only root can drop rights");
        return;
    }
    Row::new("drops_rights").same_for(User::Own, &[], 0);
}

#[test]
fn a_file_its_user_may_not_write() {
    let row = Row::new("own_faults");
    fs::set_permissions(&row.program, fs::Permissions::from_mode(0o555)).unwrap();
    let before = fs::read(&row.program).unwrap();
    row.same_as_alone(&[], 0);
    assert!(before == fs::read(&row.program).unwrap(), "it was written");
}

#[test]
fn memory_that_is_locked_or_huge() {
    Row::new("locked_memory").same_as_alone(&[], 0);
}

#[test]
fn a_thousand_threads() {
    Row::new("thousand_threads").same_as_alone(&[], 0);
}
