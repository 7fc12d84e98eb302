//! What it costs a program to be followed while nothing is armed, side by side
//! with the program alone. Prints ratios; take those, not the absolute times.
//!
//! `cargo bench -p redhanded --bench base_cost`, with names of operations after
//! `--` to measure only those.

#![expect(
    clippy::disallowed_methods,
    reason = "benchmarks write into folders of their own"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Repeats the operation that its argument names for a while, and prints the
/// nanoseconds that one took.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static char *self;
static volatile sig_atomic_t delivered;
static volatile unsigned long result;
static void *nothing(void *p) { return p; }
static void handler(int number) { (void)number; delivered++; }
static void thread(void) {
    pthread_t t;
    if (pthread_create(&t, 0, nothing, 0) || pthread_join(t, 0)) _exit(2);
}
static void child(int exec) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (exec) execl(self, self, "nothing", (char *)0);
        _exit(exec);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(2);
}
static void only_fork(void) { child(0); }
static void fork_exec(void) { child(1); }
static void own_signal(void) {
    int before = delivered;
    raise(SIGUSR1);
    if (delivered != before + 1) _exit(2);
}
static void processor(void) {
    unsigned long x = result;
    for (int i = 0; i < 1000; i++) x = x * 6364136223846793005ul + 1442695040888963407ul;
    result = x;
}
static void system_call(void) { syscall(SYS_getppid); }
static void signal_mask(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
}
static const struct { const char *name; void (*once)(void); long batch; } operations[] = {
    {"thread", thread, 8}, {"fork", only_fork, 4}, {"exec", fork_exec, 2},
    {"signal", own_signal, 64}, {"cpu", processor, 256}, {"syscall", system_call, 1024},
    {"sigmask", signal_mask, 512},
};
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(int argc, char **argv) {
    self = argv[0];
    signal(SIGUSR1, handler);
    for (unsigned i = 0; argc > 1 && i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, argv[1])) continue;
        operations[i].once();
        double start = now(), end;
        long count = 0;
        do {
            for (long n = 0; n < operations[i].batch; n++) operations[i].once();
            count += operations[i].batch;
            end = now();
        } while (end - start < 0.25e9);
        printf("%.3f\n", (end - start) / count);
    }
    return 0;
}
"#;

/// An operation's name in the program, and what it is. The first is measured
/// from outside.
const OPERATIONS: &[(&str, &str)] = &[
    ("nothing", "program started and ended"),
    ("thread", "thread created and joined"),
    ("fork", "fork, wait"),
    ("exec", "fork, exec, wait"),
    ("signal", "signal to itself, handled"),
    ("cpu", "1,000 multiplications"),
    ("syscall", "system call (getppid)"),
    ("sigmask", "pthread_sigmask, twice"),
];

/// How the program is run: what it is called, and the words before it.
const WAYS: &[(&str, &[&str])] = &[
    ("alone", &[]),
    (
        "nothing armed",
        &["run", "--quiet", "--function", "no_such_function_anywhere"],
    ),
    ("--overhead 0", &["run", "--quiet", "--overhead", "0"]),
];

const ROUNDS: usize = 9;

/// How far apart the quartiles may be when the machine has nothing else to do.
const BUSY: f64 = 1.3;

fn main() {
    // Cargo adds words of its own.
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile(folder.path());
    print!("{:<28}", "");
    for (way, _) in WAYS {
        print!("{way:>20}");
    }
    println!();
    for (name, what) in OPERATIONS {
        if !chosen.is_empty() && !chosen.iter().any(|word| word == name) {
            continue;
        }
        // Taking turns, so that what else the machine does meets all of them.
        let mut times = vec![Vec::new(); WAYS.len()];
        for _ in 0..ROUNDS {
            for ((_, words), times) in WAYS.iter().zip(&mut times) {
                times.push(measure(&program, words, name));
            }
        }
        for times in &mut times {
            times.sort_by(f64::total_cmp);
        }
        let medians: Vec<f64> = times.iter().map(|times| times[ROUNDS / 2]).collect();
        print!("{what:<28}{:>20}", shown(medians[0]));
        for time in &medians[1..] {
            let ratio = format!("{:.2}×", time / medians[0]);
            print!("{:>11}{ratio:>9}", shown(*time));
        }
        // A ratio of two numbers that each vary as much says little.
        let spread = times[0][ROUNDS * 3 / 4] / times[0][ROUNDS / 4];
        if spread > BUSY {
            print!("   busy machine: alone it varies {spread:.1}×");
        }
        println!();
    }
}

/// Nanoseconds, in the unit that reads best.
fn shown(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.1} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n => format!("{:.1} ms", n / 1e6),
    }
}

fn compile(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("base.c"), folder.join("base"));
    std::fs::write(&source, SOURCE).expect("the temporary folder is writable");
    let status = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a C compiler is needed"
    );
    program
}

/// The nanoseconds of one operation, of a run under Redhanded with these words
/// or, without words, of the program alone.
fn measure(program: &Path, words: &[&str], operation: &str) -> f64 {
    let mut command = if words.is_empty() {
        Command::new(program)
    } else {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redhanded"));
        command.args(words).arg("--").arg(program);
        command
    };
    let started = Instant::now();
    let output = command
        .arg(operation)
        .stderr(Stdio::inherit())
        .output()
        .expect("it can be started");
    let outside = started.elapsed();
    assert!(
        output.status.success(),
        "{operation} with {words:?}: {}",
        output.status
    );
    if operation == OPERATIONS[0].0 {
        return outside.as_secs_f64() * 1e9;
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().parse().expect("the program prints a time")
}
