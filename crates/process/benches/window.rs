//! What a sample costs, side by side with what the system charges for letting
//! two processes take turns. Prints ratios; take those, not the absolute times.
//!
//! `cargo bench -p redhanded-target`

use redhanded_image::{DebugSearch, Selected};
use redhanded_model::{Delays, Strategy, WindowPlan};
use redhanded_process::{Process, Program, Settings};
use redhanded_target::driver::Driver;
use redhanded_target::images::Images;
use redhanded_target::{Arm, Event, Signals, Target};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
#include <pthread.h>
#include <unistd.h>
static long x;
__attribute__((noinline)) static void hot(void) { x++; }
static void *idle(void *p) { for (;;) pause(); return p; }
int main(int argc, char **argv) {
    pthread_t t;
    if (argc > 1) pthread_create(&t, 0, idle, 0);
    for (;;) hot();
}
"#;

const ROUNDS: u32 = 5_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile(folder.path());
    let turn = turns();
    let passed = samples(&program, &[], Duration::ZERO);
    let window = samples(&program, &["company"], Duration::ZERO);
    println!(
        "two processes taking turns through pipes  {:>8.1} µs",
        micros(turn)
    );
    for (name, cost) in [
        ("sample passed at once (one thread)", passed),
        ("window without delay (two threads)", window),
    ] {
        println!(
            "{name:<41} {:>8.1} µs   {:.1} times that",
            micros(cost),
            cost.as_secs_f64() / turn.as_secs_f64()
        );
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn compile(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("hot.c"), folder.join("hot"));
    std::fs::write(&source, SOURCE).expect("the temporary folder is writable");
    let status = Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "gcc is needed");
    program
}

/// The time of one sample: from arming the site of the hot function to hearing
/// that it fired and what came of it.
fn samples(program: &Path, arguments: &[&str], delay: Duration) -> Duration {
    let mut words = vec![program.into()];
    words.extend(arguments.iter().map(Into::into));
    let program = Program::find(&words).expect("it was just compiled");
    let images = Arc::new(Images::new(DebugSearch::default(), |_| Selected::default()));
    let process = Process::launch(&program, images, Signals::hold(), Settings::default(), None)
        .expect("it can be traced");
    let mut target = Driver::new(process);
    target.allow(Duration::MAX);
    let module = target
        .modules()
        .first()
        .cloned()
        .expect("the program itself");
    let image = module.image.clone().expect("it has a file");
    let hot = image
        .sites()
        .sites
        .iter()
        .find(|site| {
            let function = image.functions().get(site.function);
            function.and_then(|f| f.name.as_deref()) == Some("hot")
        })
        .expect("the hot function has a site")
        .svma;
    let arm = Arm {
        module: module.id,
        svma: hot,
        plan: WindowPlan {
            delay: Delays::of_tasks(delay),
            strategy: Strategy::Both,
            end_early: false,
        },
    };
    let mut started = Instant::now();
    let mut done = 0;
    target.arm(&[arm]);
    while done < ROUNDS {
        match target.wait(target.now() + Duration::from_secs(10)) {
            Ok(Event::Passed { .. } | Event::Window(_)) => {
                done += 1;
                // The first ones start the program.
                if done == 100 {
                    started = Instant::now();
                }
                target.arm(&[arm]);
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let time = started.elapsed() / (ROUNDS - 100);
    target.into_machine().kill();
    time
}

/// The time of one turn: a byte to another process and back, which is two
/// context switches, as a stop and a resume are.
fn turns() -> Duration {
    let mut cat = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    let (mut to, mut from) = (
        cat.stdin.take().expect("piped"),
        cat.stdout.take().expect("piped"),
    );
    let started = Instant::now();
    let mut byte = [0];
    for _ in 0..ROUNDS {
        to.write_all(&byte).expect("cat reads");
        from.read_exact(&mut byte).expect("cat writes");
    }
    let time = started.elapsed() / ROUNDS;
    drop(to);
    let _ = cat.wait();
    time
}
