//! A worker on its own, for tests and benchmarks.

fn main() {
    redhanded_replay::serve()
}
