//! Debug information and unwinding, on programs compiled while the tests run.

mod debug {
    mod compile;
    mod contents;
    mod evidence;
    mod frames;
    mod hostile;
    mod pointers;
    mod separate;
    mod synchronisation;
    mod unwinding;
    mod values;
    mod variables;
}
