//! How it ends is how it would end alone.

use crate::row::{Row, User};

#[test]
fn its_exit_status_is_its_own() {
    let row = Row::new("endings");
    for status in [0, 1, 2, 42, 66, 127, 128, 255] {
        let number = status.to_string();
        row.same_for(User::Own, &["leader", "exit", &number], status);
    }
    row.same_as_alone(&["returns", "", "9"], 9);
    row.same_as_alone(&["leader", "_exit", "200"], 200);
    row.same_as_alone(&["thread", "exit", "3"], 3);
    row.same_as_alone(&["thread", "_exit", "4"], 4);
}

#[test]
fn others_go_on_when_its_first_thread_leaves() {
    Row::new("endings").same_as_alone(&["leaves", "", "12"], 12);
}

#[test]
fn it_dies_by_the_same_signal() {
    let row = Row::new("endings");
    for (how, number, signal) in [
        ("crash", "0", 11),
        ("abort", "0", 6),
        ("int3", "0", 5),
        ("pipe", "0", 13),
        ("raise", "5", 5),
        ("raise", "11", 11),
        ("kill", "9", 9),
        ("kill", "15", 15),
        ("kill", "1", 1),
        ("kill", "34", 34),
    ] {
        row.same_for(User::Own, &["leader", how, number], 128 + signal);
        row.same_for(User::Own, &["thread", how, number], 128 + signal);
    }
    row.same_as_alone(&["thread", "crash", "0"], 128 + 11);
}
