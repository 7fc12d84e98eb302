//! `redhanded attach`: a process that runs already is observed, left as it was,
//! and outlives the tool however that ends.

use crate::place::{Place, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use object::{Object, ObjectSegment};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the tool is killed.
const KILLS: u32 = 25;

/// A server to attach to.
struct Server {
    place: Place,
    running: Running,
}

impl Server {
    fn start() -> Self {
        let place = Place::with("server");
        let mut running = place.start(place.command(place.path("server")));
        running.until_printed("serving");
        Self { place, running }
    }

    fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Attaches with `options`; the exit status and what was said.
    #[track_caller]
    fn attach(&self, options: &str) -> (i32, String) {
        let output = self.command(options).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), told)
    }

    fn command(&self, options: &str) -> Command {
        let mut command = self.place.redhanded(["attach"]);
        command
            .args(options.split_whitespace())
            .arg(self.pid().to_string());
        command
    }

    /// Whether it is traced, by whom.
    fn tracer(&self) -> u32 {
        status(self.pid(), "TracerPid:").unwrap_or(0)
    }

    /// It runs, nobody traces it, and its text is that of its file.
    #[track_caller]
    fn is_as_before(&mut self) {
        assert_eq!(self.running.child.try_wait().unwrap(), None, "it died");
        assert_eq!(self.tracer(), 0);
        let file = fs::read(self.place.path("server")).unwrap();
        let image = object::File::parse(&*file).unwrap();
        let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let mut compared = 0;
        for map in maps
            .lines()
            .filter(|map| map.ends_with("/server") && map.contains("r-xp"))
        {
            let fields: Vec<&str> = map.split_whitespace().collect();
            let start = u64::from_str_radix(fields[0].split('-').next().unwrap(), 16).unwrap();
            let offset = u64::from_str_radix(fields[2], 16).unwrap();
            let segment = image
                .segments()
                .find(|segment| segment.file_range().0 == offset)
                .unwrap();
            let wanted = segment.data().unwrap();
            let mut text = vec![0; wanted.len()];
            memory.read_exact_at(&mut text, start).unwrap();
            assert!(text == wanted, "its text was changed");
            compared += wanted.len();
        }
        assert!(compared > 0, "{maps}");
    }

    /// It ends as it would have alone.
    #[track_caller]
    fn ends_well(self) {
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM).unwrap();
        assert_eq!(self.running.end().status, 7);
    }
}

fn status(pid: u32, field: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().parse().ok()
}

/// SIGTRAP in a set of signals.
const TRAP: u64 = 1 << (Signal::SIGTRAP as u64 - 1);

fn status_set(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

#[test]
fn a_running_process_is_caught_and_left_as_it_was() {
    let mut server = Server::start();
    let options = "--max-races 1 --for 2m --json report.json";
    let (status, told) = server.attach(options);
    assert_eq!(status, 66, "{told}");
    let report = fs::read(server.place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["races"][0]["what"]["name"], "requests", "{report:#}");
    assert!(
        report["run"]["program"][0]
            .as_str()
            .unwrap()
            .ends_with("server")
    );
    server.is_as_before();
    server.ends_well();
}

#[test]
fn only_sources_that_the_user_of_the_process_may_read_are_quoted() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can attach to somebody else's process");
        return;
    }
    let place = Place::new();
    let secret = place.path("secret.c");
    fs::write(&secret, "password\n".repeat(100)).unwrap();
    let named = format!("tests/redhanded/fixtures/server.c={}", secret.display());
    let named = format!("-fdebug-prefix-map={}/{named}", env!("CARGO_MANIFEST_DIR"));
    let mut command = place.command(place.build("server", "server", &[&named]));
    command.uid(65534).gid(65534);
    let mut running = place.start(command);
    running.until_printed("serving");
    let server = Server { place, running };
    for (mode, quoted) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
        // The text is another's, so what is caught is only possibly atomic.
        let (status, told) = server.attach("--max-windows 200 --for 2m --show benign --log log");
        assert_eq!(status, 0, "{told}");
        assert!(told.contains("secret.c:"), "{told}");
        assert_eq!(told.contains("password"), quoted, "{mode:o}: {told}");
        let log = server.place.path("log");
        let kept = fs::read_to_string(&log).unwrap();
        assert_eq!(kept.contains("password"), quoted, "{mode:o}: {kept}");
        fs::remove_file(log).unwrap();
    }
    server.ends_well();
}

#[test]
fn again_and_again_in_every_way() {
    let mut server = Server::start();
    // Ptrace last: the registers it has used in a thread stay taken.
    for options in ["", "--safe", "--watch ptrace", "--alloc", ""] {
        for _ in 0..3 {
            let line = format!("{options} --max-windows 20 --for 2m --fail-on never --quiet");
            let (status, told) = server.attach(&line);
            assert_eq!(status, 0, "{options}: {told}");
            assert!(!told.contains("guarded (long"), "{told}");
            server.is_as_before();
            let ignored = status_set(server.pid(), "SigIgn:");
            assert_eq!(ignored & TRAP, 0, "{options}: {ignored:x}");
        }
    }
    server.ends_well();
}

#[test]
fn without_an_overhead_it_is_not_attached_to() {
    let mut server = Server::start();
    let (status, told) = server.attach("--overhead 0");
    assert_eq!(status, 0);
    assert!(told.contains("did not attach"), "{told}");
    server.is_as_before();
}

#[test]
fn a_signal_lets_go_of_it() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut server = Server::start();
        let mut tool = server.command("--fail-on never");
        let mut tool = tool.stderr(Stdio::null()).spawn().unwrap();
        until(|| server.tracer() != 0);
        kill(Pid::from_raw(tool.id().cast_signed()), signal).unwrap();
        assert_eq!(tool.wait().unwrap().code(), Some(0), "{signal}");
        server.is_as_before();
        server.ends_well();
    }
}

#[track_caller]
fn until(reached: impl Fn() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < Duration::from_secs(120), "it hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Front,
    Tracer,
    /// A tracer that has heard of nothing for a while.
    StoppedTracer,
}

/// Kills one of the tool's two processes again and again, at moments that differ;
/// how many servers died of it.
fn deaths(options: &str, victim: Victim) -> u32 {
    let kill_tracer = victim != Victim::Front;
    let mut server = Server::start();
    let mut died = 0;
    for round in 0..KILLS {
        let mut tool = server.command(&format!("{options} --quiet --fail-on never"));
        let mut tool = tool.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        until(|| server.tracer() != 0);
        std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 100)));
        let killed = if kill_tracer {
            server.tracer()
        } else {
            tool.id()
        };
        let killed = Pid::from_raw(killed.cast_signed());
        if victim == Victim::StoppedTracer {
            kill(killed, Signal::SIGSTOP).unwrap();
            std::thread::sleep(Duration::from_millis(30));
        }
        kill(killed, Signal::SIGKILL).unwrap();
        let status = tool.wait().unwrap();
        assert!(!kill_tracer || status.code() == Some(125), "{status}");
        until(|| server.tracer() == 0);
        // Whoever is to run into a breakpoint that was left does it now, if it gets a processor.
        std::thread::sleep(Duration::from_millis(100));
        if server.running.child.try_wait().unwrap().is_some() {
            died += 1;
            server = Server::start();
        }
        server.is_as_before();
    }
    server.ends_well();
    died
}

#[test]
fn it_outlives_the_tool() {
    assert_eq!(deaths("", Victim::Front), 0);
    assert_eq!(deaths("--safe", Victim::Front), 0);
}

#[test]
fn it_outlives_the_tracer() {
    // A thread whose stop the tracer had not heard of yet is lost; how often that
    // happens depends on who else wants the processors, of which root's tracer gets one at
    // once. If breakpoints were left, all would die.
    let died = deaths("", Victim::Tracer);
    let most = KILLS / if geteuid().is_root() { 4 } else { 2 };
    assert!(died <= most, "{died} of {KILLS} died");
}

#[test]
fn with_safe_it_outlives_the_tracer_whatever_that_has_not_heard_of() {
    // A thread dies whose watch fired and was not heard of, which takes a window at that moment:
    // rarely, and more often on a busy machine, where kills come later.
    let died = deaths("--safe", Victim::Tracer);
    assert!(died <= KILLS / 25, "{died} of {KILLS} died");
    let died = deaths("--safe", Victim::StoppedTracer);
    assert!(died <= KILLS / 4, "{died} of {KILLS} died");
}

#[test]
fn it_is_left_stopped_at_a_race() {
    let server = Server::start();
    let (status, told) = server.attach("--stop-on-race");
    assert_eq!(status, 66, "{told}");
    assert!(told.contains(&format!("gdb -p {}", server.pid())), "{told}");
    assert!(told.contains("left stopped at the race"), "{told}");
    assert_eq!(server.tracer(), 0);
    // Its first thread slept, and needs a processor to stop.
    let state = || fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    until(|| state().contains("State:\tT"));
    // Let go on, it ends; that a stop of all interrupts sleep is the kernel's way.
    kill(Pid::from_raw(server.pid().cast_signed()), Signal::SIGCONT).unwrap();
    kill(Pid::from_raw(server.pid().cast_signed()), Signal::SIGTERM).unwrap();
    assert!([7, 9].contains(&server.running.end().status));
}

#[test]
fn a_core_shows_both_threads_at_their_accesses() {
    let mut server = Server::start();
    fs::create_dir(server.place.path("cores")).unwrap();
    // Not by changed bytes: they do not show who changed them.
    let (status, told) = server.attach("--core cores --max-races 1 --detect watch --quiet");
    assert_eq!(status, 66, "{told}");
    let mut cores = fs::read_dir(server.place.path("cores")).unwrap();
    let core = cores.next().expect("there is a core").unwrap().path();
    let mut gdb = server.place.command("gdb");
    let (register, part) = match is_x86_feature_detected!("avx") {
        true => ("print $ymm0", "v8_int32"),
        false => ("print $xmm0", "v4_int32"),
    };
    gdb.args(["-batch", "-ex", "thread apply 1 2 bt 1", "-ex", register])
        .arg(server.place.path("server"))
        .arg(core);
    let shown = gdb.output().expect("gdb is needed to read cores");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let at_access =
        shown.matches("in count_request").count() + shown.matches("#0  count_request").count();
    assert!(at_access >= 2, "{shown}");
    assert!(shown.contains(part), "{shown}");
    server.is_as_before();
    server.ends_well();
}

#[test]
fn refusals_say_why() {
    let place = Place::new();
    place
        .run(["attach", "4194305"])
        .refused(125, "no process 4194305");
    let mut zombie = place.command("true").spawn().unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/status", zombie.id())).unwrap();
    until(|| state().contains("State:\tZ"));
    place
        .run(["attach", &zombie.id().to_string()])
        .refused(125, "has ended");
    zombie.wait().unwrap();
    let server = Server::start();
    let mut tool = server.command("--quiet");
    let mut tool = tool.stderr(Stdio::null()).spawn().unwrap();
    until(|| server.tracer() != 0);
    let (status, told) = server.attach("");
    assert_eq!(status, 125);
    assert!(told.contains("is already traced by redhanded"), "{told}");
    tool.kill().unwrap();
    tool.wait().unwrap();
    until(|| server.tracer() == 0);
    if geteuid().is_root() {
        let binary = fs::read(env!("CARGO_BIN_EXE_redhanded")).unwrap();
        let mut other = server
            .place
            .command(server.place.executable("redhanded", &binary));
        other
            .uid(65534)
            .gid(65534)
            .arg("attach")
            .arg(server.pid().to_string());
        let output = other.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{told}");
        assert!(told.contains("it belongs to user 0"), "{told}");
    } else {
        println!("skipped: only root can become another user");
    }
    server.ends_well();
}
