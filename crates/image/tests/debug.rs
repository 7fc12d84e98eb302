//! Debug information and unwinding, on programs compiled while the tests run.

mod debug {
    mod compile;
    mod frames;
    mod hostile;
    mod separate;
    mod synchronisation;
    mod unwinding;
    mod variables;
}
