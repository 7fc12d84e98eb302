//! Rows that do not hold yet; not part of the tests until they do.

use crate::row::Row;

#[test]
fn it_has_traps_of_its_own() {
    let row = Row::new("own_traps");
    row.same_as_alone(&[], 0);
    row.same_as_alone(&["steps"], 0);
}

#[test]
fn threads_keep_their_signal_masks() {
    Row::new("masked").same_as_alone(&[], 0);
}

#[test]
fn what_is_ignored_stays_ignored() {
    Row::new("ignored").same_as_alone(&[], 0);
}

#[test]
fn clones_with_and_without_the_same_memory() {
    Row::new("clones").same_as_alone(&[], 0);
}

#[test]
fn clones_no_tracer_is_told_of() {
    Row::new("clones").same_as_alone(&["untraced"], 0);
}
