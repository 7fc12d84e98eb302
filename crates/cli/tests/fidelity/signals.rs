//! Every signal reaches the program as it would alone.

use crate::row::Row;

#[test]
fn every_signal_is_caught_as_often_as_it_is_sent() {
    Row::new("every_signal").same_as_alone(&[], 0);
}

#[test]
fn a_helper_stops_and_continues_the_program() {
    let row = Row::new("stopped");
    let (stop, from_the_keyboard) = ("19", "20");
    row.same_as_alone(&[stop], 0);
    row.same_as_alone(&[from_the_keyboard], 0);
}

#[test]
fn a_parent_hears_of_every_stop_of_its_child() {
    Row::new("stopped_child").same_as_alone(&[], 0);
}

#[test]
fn it_recovers_from_its_own_faults() {
    Row::new("own_faults").same_as_alone(&[], 0);
}

#[test]
fn it_has_traps_of_its_own() {
    let row = Row::new("own_traps");
    row.same_as_alone(&[], 0);
    row.same_as_alone(&["steps"], 0);
}

#[test]
fn children_inherit_nothing_of_ours() {
    Row::new("inherited_action").same_as_alone(&[], 128 + 5);
}

#[test]
fn threads_keep_their_signal_masks() {
    Row::new("masked").same_as_alone(&[], 0);
}

#[test]
fn what_is_ignored_stays_ignored() {
    Row::new("ignored").same_as_alone(&[], 0);
}
