//! The process backend on small real programs, compiled here.

use redhanded_image::{DebugSearch, Selected};
use redhanded_model::{Delays, Loss, Strategy, WindowPlan};
use redhanded_process::{Follow, Process, Program, Settings};
use redhanded_target::driver::Driver;
use redhanded_target::images::Images;
use redhanded_target::{Arm, Batch, Control, Ending, Event, Hint, Inspect, Signals, Stop, Target};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Compiles C to a program in `folder`.
fn compile(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (c, out) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&c, source).unwrap();
    let status = Command::new("gcc")
        .args(["-g", "-pthread"])
        .args(flags)
        .arg(&c)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("gcc is needed for the tests");
    assert!(status.success());
    out
}

fn launch(program: &Path) -> Driver<Process> {
    launch_with(program, Settings::default())
}

fn launch_with(program: &Path, settings: Settings) -> Driver<Process> {
    let program = Program::find(&[program.into()]).unwrap();
    let images = Arc::new(Images::new(DebugSearch::default(), |_| Selected::default()));
    Driver::new(Process::launch(&program, images, Signals::hold(), settings, None).unwrap())
}

/// Arms every site of the program itself.
fn arm_all(target: &mut dyn Target, delay: Duration) {
    let module = target.modules().first().cloned().unwrap();
    let image = module.image.clone().unwrap();
    let plan = WindowPlan {
        delay: Delays::of_tasks(delay),
        strategy: Strategy::Both,
        end_early: true,
    };
    let arms: Vec<Arm> = image
        .sites()
        .sites
        .iter()
        // A static program has the whole C library beside its own functions.
        .filter(|site| {
            let function = image.functions().get(site.function);
            let name = function.and_then(|f| f.name.as_deref()).unwrap_or_default();
            ["bump", "work", "once", "main"].contains(&name)
        })
        .map(|site| Arm {
            module: module.id,
            svma: site.svma,
            plan,
        })
        .collect();
    assert!(!arms.is_empty());
    target.arm(&arms);
}

/// How long they may take to meet, on a machine that has no processor for the second.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two threads increment a counter until they are told to end, so that they meet however busy
/// the machine is. If nobody tells them, they end by themselves.
const RACE: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static long counter;
static volatile sig_atomic_t done;
static void end(int signal) { done = signal; }
__attribute__((noinline)) static void bump(void) { counter++; }
static void *work(void *arg) {
    while (!done) bump();
    return arg;
}
int main(void) {
    pthread_t a, b;
    signal(SIGUSR1, end);
    alarm(300);
    pthread_create(&a, 0, work, 0);
    pthread_create(&b, 0, work, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 7;
}
"#;

/// Tells [`RACE`] to end.
fn tell_to_end(pid: u32) {
    redhanded_sys::kill(pid.cast_signed(), libc::SIGUSR1).unwrap();
}

#[test]
fn two_threads_are_caught_at_one_counter() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        &["-O0"][..],
        &["-O2"],
        &["-O2", "-static"],
        &["-O2", "-no-pie"],
    ] {
        let program = compile(folder.path(), RACE, flags);
        let mut target = launch(&program);
        target.allow(Duration::from_secs(60));
        arm_all(&mut target, Duration::from_millis(5));
        let (mut caught, start) = (0, Instant::now());
        let ending = loop {
            match target.wait(Duration::from_secs(120)).unwrap() {
                Event::Collision(record) => {
                    let hit = record.hit.clone();
                    if let Some(hit) = hit {
                        assert_ne!(hit.task, record.task);
                        assert_eq!(hit.watched.start, record.bytes.start);
                        let stack = target.inspect().stack(record.task, &record.registers);
                        assert!(stack.len() >= 3, "{stack:?}");
                        caught += 1;
                    }
                    target.release(record.id);
                    if caught < 3 {
                        arm_all(&mut target, Duration::from_millis(5));
                    } else if caught == 3 {
                        tell_to_end(target.machine().pid());
                    }
                }
                // What met nobody, or was not held for whatever reason, gets another chance.
                Event::Window(_) | Event::Passed { .. } if caught < 3 => {
                    // One thread alone has thousands of these before the other gets a processor.
                    let waited = start.elapsed();
                    assert!(waited < PATIENCE, "{caught} caught with {flags:?}");
                    arm_all(&mut target, Duration::from_millis(5));
                }
                Event::Ended(ending) => break ending,
                Event::Deadline => panic!("it hangs"),
                _ => {}
            }
        };
        assert!(caught >= 3, "{caught} caught with {flags:?}");
        assert_eq!(ending, Ending::Exited { status: 7 });
    }
}

#[test]
fn a_lone_thread_is_not_held() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "static volatile int x; int main(void) { for (int i = 0; i < 9; i++) x++; return x; }";
    let program = compile(folder.path(), source, &["-O0"]);
    let mut target = launch(&program);
    target.allow(Duration::from_secs(60));
    arm_all(&mut target, Duration::from_millis(5));
    let mut alone = 0;
    loop {
        match target.wait(Duration::from_secs(60)).unwrap() {
            Event::Passed { loss, .. } => {
                assert_eq!(loss, Loss::Alone);
                alone += 1;
            }
            Event::Ended(ending) => {
                assert_eq!(ending, Ending::Exited { status: 9 });
                break;
            }
            Event::Window(record) => panic!("a window: {record:?}"),
            _ => {}
        }
    }
    assert!(alone > 0);
}

#[test]
fn detaching_leaves_the_text_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), RACE, &["-O0"]);
    let mut target = launch(&program);
    target.allow(Duration::from_secs(60));
    arm_all(&mut target, Duration::from_millis(5));
    for _ in 0..20 {
        match target.wait(Duration::from_secs(60)).unwrap() {
            Event::Collision(record) => target.release(record.id),
            Event::Ended(ending) => panic!("{ending:?}"),
            Event::Deadline => panic!("it hangs"),
            _ => {}
        }
        arm_all(&mut target, Duration::from_millis(5));
    }
    let mut process = target.into_machine();
    process.detach();
    tell_to_end(process.pid());
    // It ends with its own status: no breakpoint was left to kill it.
    assert_eq!(process.wait_for_end(), Ending::Exited { status: 7 });
}

#[test]
fn a_forked_child_has_clean_text() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include <sys/wait.h>
#include <unistd.h>
static int x;
__attribute__((noinline)) static void once(void) { x++; }
int main(void) {
    int status;
    pid_t child = fork();
    if (child == 0) { once(); _exit(x == 1 ? 3 : 4); }
    once();
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
"#;
    let program = compile(folder.path(), source, &["-O0"]);
    for follow in [Follow::None, Follow::Exec, Follow::All] {
        let settings = Settings {
            follow,
            ..Settings::default()
        };
        let mut target = launch_with(&program, settings);
        arm_all(&mut target, Duration::from_millis(1));
        let ending = loop {
            if let Event::Ended(ending) = target.wait(Duration::from_secs(60)).unwrap() {
                break ending;
            }
        };
        assert_eq!(ending, Ending::Exited { status: 3 });
        let unseen = target.machine().unseen();
        let told = unseen.iter().any(|u| u.what == "child processes");
        assert_eq!(told, follow == Follow::None, "{unseen:?}");
    }
}

#[test]
fn a_daemon_outlives_its_parent_with_clean_text() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include <fcntl.h>
#include <unistd.h>
static int x;
__attribute__((noinline)) static void once(void) { x++; }
int main(void) {
    int ends[2];
    if (pipe(ends)) return 1;
    if (fork()) _exit(5);
    close(ends[1]);
    once();
    int out = open("result.new", O_CREAT | O_WRONLY, 0600);
    if (write(out, x == 1 ? "good" : "bad!", 4) != 4) return 2;
    return rename("result.new", "result");
}
"#;
    let source = source.replace("\"result", &format!("\"{}/result", folder.path().display()));
    let program = compile(folder.path(), &source, &["-O0"]);
    for _ in 0..20 {
        let _ = std::fs::remove_file(folder.path().join("result"));
        let mut target = launch(&program);
        arm_all(&mut target, Duration::from_millis(1));
        let ending = loop {
            if let Event::Ended(ending) = target.wait(Duration::from_secs(60)).unwrap() {
                break ending;
            }
        };
        assert_eq!(ending, Ending::Exited { status: 5 });
        let written = (0..60_000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            std::fs::read_to_string(folder.path().join("result")).ok()
        });
        assert_eq!(written.as_deref(), Some("good"));
    }
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = Program::find(&[missing.into()]).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
    let text = folder.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let error = Program::find(&[text.clone().into()]).unwrap_err();
    assert!(error.to_string().contains("not executable"), "{error}");
}

/// Loads as many libraries as there are, `rounds` times, and unloads them again. Then it stays
/// for some seconds.
const LOADS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int libraries = atoi(arguments[1]), rounds = atoi(arguments[2]);
    void **loaded = malloc(libraries * sizeof *loaded);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < libraries; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s/%d.so", arguments[3], i);
            if (!(loaded[i] = dlopen(name, RTLD_NOW)))
                return 1;
        }
        for (int i = 0; i < libraries; i++)
            dlclose(loaded[i]);
    }
    sleep(atoi(arguments[4]));
    return count == 5 ? 0 : 2;
}
"#;

/// What it cost to observe a program that loads libraries.
struct Loaded {
    /// How often the driver was told that modules had changed.
    changes: u32,
    /// How long threads stood for that.
    held: Duration,
    took: Duration,
    unseen: Vec<String>,
}

fn load(libraries: u32, rounds: u32, seconds: u32, allowance: Duration) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("0.so");
    let c = folder.path().join("library.c");
    std::fs::write(&c, "int value(void) { return 1; }\n").unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o"]).args([&library, &c]);
    assert!(gcc.status().unwrap().success());
    for number in 1..libraries {
        let copy = folder.path().join(format!("{number}.so"));
        std::fs::copy(&library, copy).unwrap();
    }
    let program = compile(folder.path(), LOADS, &[]);
    let numbers = [libraries, rounds, seconds].map(|number| number.to_string().into());
    let [count, rounds, seconds] = numbers;
    let arguments = [program.into(), count, rounds, folder.path().into(), seconds];
    let program = Program::find(&arguments).unwrap();
    let images = Arc::new(Images::new(DebugSearch::default(), |_| Selected::default()));
    let (signals, settings) = (Signals::hold(), Settings::default());
    let mut process = Process::launch(&program, images, signals, settings, None).unwrap();
    process.hint(Hint::Allowance(allowance));
    let mut changes = 0;
    loop {
        let deadline = process.now() + Duration::from_secs(1);
        match process.next_stop(deadline).unwrap() {
            Stop::ModulesChanged => changes += 1,
            Stop::Ended(ending) => {
                assert_eq!(ending, Ending::Exited { status: 0 });
                break;
            }
            _ => {}
        }
    }
    Loaded {
        changes,
        held: process.held_for_modules(),
        took: process.now(),
        unseen: process.unseen().into_iter().map(|u| u.what).collect(),
    }
}

#[test]
fn each_library_is_looked_at_while_there_is_time_for_it_and_the_time_is_counted() {
    let loaded = load(20, 5, 0, Duration::MAX);
    assert!(loaded.changes >= 200, "{}", loaded.changes);
    // It stands twice for each.
    let held = loaded.held;
    assert!(held >= Duration::from_millis(1), "{held:?}");
    assert!(held < loaded.took, "{held:?} of {:?}", loaded.took);
    assert!(loaded.unseen.is_empty(), "{:?}", loaded.unseen);
}

#[test]
fn a_program_that_loads_too_many_libraries_does_not_wait_for_each() {
    let loaded = load(1500, 1, 0, Duration::ZERO);
    // The first of all, the first that was counted, and then no more than ten a second.
    let most = 4 + loaded.took.as_millis() as u32 / 100;
    let changes = loaded.changes;
    assert!(changes <= most, "{changes} in {:?}", loaded.took);
}

/// What is said of libraries that nobody looked at.
fn late() -> String {
    "some libraries that were loaded late".to_owned()
}

#[test]
fn a_library_that_came_and_went_between_two_looks_is_told_of() {
    // There is time for a last look, which finds nothing: all of them are gone.
    let loaded = load(1, 500, 3, Duration::ZERO);
    assert!(loaded.unseen.contains(&late()), "{:?}", loaded.unseen);
    // Twin: each was looked at.
    let loaded = load(1, 5, 3, Duration::MAX);
    assert!(loaded.unseen.is_empty(), "{:?}", loaded.unseen);
}
