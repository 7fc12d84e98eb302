//! The process backend on small real programs, compiled here.

use redhanded_image::{DebugSearch, Selected};
use redhanded_model::{Delays, Loss, Strategy, WindowPlan};
use redhanded_process::{Follow, Process, Program, Settings};
use redhanded_target::driver::Driver;
use redhanded_target::images::Images;
use redhanded_target::{Arm, Ending, Event, Inspect, Signals, Target};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

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

const RACE: &str = r#"
#include <pthread.h>
static long counter;
__attribute__((noinline)) static void bump(void) { counter++; }
static pthread_barrier_t both;
static void *work(void *arg) {
    pthread_barrier_wait(&both);
    for (int i = 0; i < 20000000; i++) bump();
    return arg;
}
int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&a, 0, work, 0);
    pthread_create(&b, 0, work, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 7;
}
"#;

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
        let mut caught = 0;
        let ending = loop {
            match target.wait(Duration::from_secs(20)).unwrap() {
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
                    }
                }
                // What passed while a window was open gets another chance.
                Event::Window(_) if caught == 0 => {
                    arm_all(&mut target, Duration::from_millis(5));
                }
                Event::Ended(ending) => break ending,
                Event::Deadline => panic!("it hangs"),
                _ => {}
            }
        };
        assert!(caught > 0, "nothing was caught with {flags:?}");
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
            Event::Ended(_) => break,
            _ => {}
        }
    }
    let mut process = target.into_machine();
    process.detach();
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
        let written = (0..10_000).find_map(|_| {
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
