//! Nothing that sleeps is woken, and nothing that is to be woken sleeps on.

use crate::row::Row;

#[test]
fn no_system_call_is_interrupted() {
    Row::new("asleep").same_as_alone(&[], 0);
}

#[test]
fn timers_come_exactly_as_often() {
    Row::new("timers").same_as_alone(&[], 0);
}
