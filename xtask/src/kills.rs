//! `cargo xtask kills`: kills processes of Redhanded at random moments, on a busy machine,
//! and counts the targets that do not live on as if nothing had happened.

use std::fmt;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use crate::paths;
use crate::results::Tally;

/// An ordinary user.
const NOBODY: u32 = 65534;
/// What does not happen within this time does not happen at all.
const LONGEST: Duration = Duration::from_secs(60);
/// How much later a tool that is told to end by itself does so.
const ENDS_AFTER: Duration = Duration::from_millis(25);
/// Whoever is to run into a breakpoint that was left does so within this time.
const SETTLED: Duration = Duration::from_millis(30);
/// One in so many may die: a thread that has just run into a breakpoint cannot always be saved.
const ONE_IN: u64 = 50;
/// The same with `--safe`: its stop may not have been taken yet (docs/fidelity.md).
const ONE_IN_SAFE: u64 = 200;
/// So many may be lost by chance, however few the kills are.
const BY_CHANCE: u64 = 4;
/// The same with `--safe`.
const BY_CHANCE_SAFE: u64 = 2;

/// Options of `cargo xtask kills`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many kills for each user and mode
    #[arg(long, value_name = "N", default_value_t = 250)]
    count: u64,
    /// Only as the user of this number [default: as ourselves and, if that is root, as nobody]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Only with --safe [default: with and without]
    #[arg(long)]
    safe: bool,
    /// Only without --safe
    #[arg(long, conflicts_with = "safe")]
    not_safe: bool,
    /// Kill within so many milliseconds after the target is traced
    #[arg(long, value_name = "MS", default_value_t = 250)]
    within: u64,
    /// The seed of the random moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The binary to test [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
}

impl Options {
    /// A few of each, as in `cargo xtask test`.
    pub fn short() -> Self {
        Self {
            count: 20,
            user: None,
            safe: false,
            not_safe: false,
            within: 250,
            seed: 1,
            redhanded: None,
        }
    }
}

/// Kills in all modes; how many of them were as they must be.
pub fn run(options: &Options) -> Result<Tally> {
    let users = match options.user {
        Some(user) => vec![Some(user)],
        None if geteuid().is_root() => vec![None, Some(NOBODY)],
        None => vec![None],
    };
    let binary = paths::redhanded(options.redhanded.as_deref())?;
    let latest = Duration::from_millis(options.within);
    let mut tally = Tally::default();
    for user in users {
        for safe in [false, true] {
            if options.safe && !safe || options.not_safe && safe {
                continue;
            }
            let place = Place::new(&binary, user, safe)?;
            if safe && !place.is_root() && perf_is_for_root() {
                println!("{:<24} skipped: only root has perf events", place.title());
                continue;
            }
            let _adopts = Adopts::begin()?;
            let _load = Load::begin()?;
            let mut random = Random(options.seed);
            let mut fates = Fates::default();
            while fates.kills() < options.count {
                let kill = Kill::draw(&mut random, latest);
                let Some(fate) = place.try_kill(&kill)? else {
                    continue;
                };
                if fate != Fate::Well {
                    println!("  {kill}: {fate}");
                }
                fates.add(&fate);
            }
            let most = if safe {
                options.count.div_ceil(ONE_IN_SAFE).max(BY_CHANCE_SAFE)
            } else {
                options.count.div_ceil(ONE_IN).max(BY_CHANCE)
            };
            println!("{:<24} {fates}; at most {most} may be lost", place.title());
            tally += if fates.lost() <= most {
                Tally::PASSED
            } else {
                Tally::FAILED
            };
        }
    }
    Ok(tally)
}

/// A small generator (splitmix64): the same seed gives the same moments.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

/// Whom to kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    Tracer,
    Front,
    Both,
}

/// One kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kill {
    victim: Victim,
    /// Whether the tool starts the target, or attaches to it.
    starts: bool,
    /// Whether the tool is told to end by itself at about that moment.
    ends: bool,
    /// How long after the target is traced.
    after: Duration,
}

impl Kill {
    fn draw(random: &mut Random, latest: Duration) -> Self {
        Self {
            victim: [Victim::Tracer, Victim::Front, Victim::Both][random.below(3) as usize],
            starts: random.below(4) == 0,
            ends: random.below(4) == 0,
            after: Duration::from_micros(random.below(latest.as_micros().max(1) as u64)),
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = match self.victim {
            Victim::Tracer => "tracer",
            Victim::Front => "front",
            Victim::Both => "tracer and front",
        };
        let how = if self.starts { "run" } else { "attach" };
        let ends = if self.ends { ", about to end" } else { "" };
        let after = self.after.as_secs_f64() * 1e3;
        write!(f, "{victim} killed {after:.1} ms after {how}{ends}")
    }
}

/// What became of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate {
    /// It lived on and did its work.
    Well,
    /// It died, of this as far as that is known.
    Died(String),
    /// It says that something was wrong.
    Wrong(String),
    /// It is still traced or stopped.
    Held,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => write!(f, "the target lived on"),
            Self::Died(how) => write!(f, "the target died: {how}"),
            Self::Wrong(what) => write!(f, "the target found a mistake: {what}"),
            Self::Held => write!(f, "the target is still held"),
        }
    }
}

/// How many targets had which fate.
#[derive(Default)]
struct Fates {
    well: u64,
    died: u64,
    wrong: u64,
    held: u64,
}

impl Fates {
    fn add(&mut self, fate: &Fate) {
        *match fate {
            Fate::Well => &mut self.well,
            Fate::Died(_) => &mut self.died,
            Fate::Wrong(_) => &mut self.wrong,
            Fate::Held => &mut self.held,
        } += 1;
    }

    const fn kills(&self) -> u64 {
        self.well + self.lost()
    }

    const fn lost(&self) -> u64 {
        self.died + self.wrong + self.held
    }
}

impl fmt::Display for Fates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            died, wrong, held, ..
        } = self;
        let kills = self.kills();
        write!(
            f,
            "{kills} kills: {died} died, {wrong} wrong, {held} still held"
        )
    }
}

/// Adopts processes whose parent was killed, to learn how targets end.
struct Adopts;

impl Adopts {
    fn begin() -> Result<Self> {
        set_child_subreaper(true).context("cannot adopt the targets")?;
        Ok(Self)
    }
}

impl Drop for Adopts {
    /// Waits for those that nobody waited for: they are about to end.
    fn drop(&mut self) {
        let _ = set_child_subreaper(false);
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => thread::sleep(Duration::from_millis(10)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// As many busy processes as there are processors.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).spawn()
        };
        let spinning: std::io::Result<_> = (0..processors).map(|_| spin()).collect();
        Ok(Self(spinning.context("cannot start a shell")?))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A folder with the tool and the target, and who runs them.
struct Place {
    folder: TempDir,
    user: Option<u32>,
    safe: bool,
}

impl Place {
    fn new(binary: &Path, user: Option<u32>, safe: bool) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
        fs::copy(binary, folder.path().join("redhanded"))?;
        let source = paths::root().join("xtask/testdata/worker.c");
        let built = Command::new("gcc")
            .args(["-g", "-O1", "-pthread", "-o"])
            .arg(folder.path().join("worker"))
            .arg(source)
            .status()
            .context("cannot start gcc")?;
        ensure!(built.success(), "the target does not compile");
        Ok(Self { folder, user, safe })
    }

    fn is_root(&self) -> bool {
        self.user
            .map_or_else(|| geteuid().is_root(), |user| user == 0)
    }

    fn title(&self) -> String {
        let user = if self.is_root() {
            "root"
        } else {
            "ordinary user"
        };
        format!("{user}{}", if self.safe { ", --safe" } else { "" })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.path(program));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn tool(&self, task: &str, kill: &Kill) -> Result<Command> {
        let mut tool = self.command("redhanded");
        tool.args([task, "--quiet", "--fail-on", "never"]);
        if self.safe {
            tool.arg("--safe");
        }
        if kill.ends {
            let time = (kill.after + ENDS_AFTER).as_millis();
            tool.args(["--for", &format!("{time}ms")]);
        }
        tool.stderr(fs::File::create(self.path("told"))?);
        Ok(tool)
    }

    /// Starts target and tool, and kills. Nothing came of it if the tool was faster.
    fn try_kill(&self, kill: &Kill) -> Result<Option<Fate>> {
        let (result, printed) = (self.path("result"), self.path("printed"));
        for old in [&result, &printed] {
            let _ = fs::remove_file(old);
        }
        let output = fs::File::create(&printed)?;
        let pid_told = || {
            let text = fs::read_to_string(&printed).unwrap_or_default();
            text.strip_suffix('\n')?.parse().ok()
        };
        let (mut target, mut tool) = if kill.starts {
            let mut tool = self.tool("run", kill)?;
            tool.args(["--", "./worker", "result"]).stdout(output);
            (None, Group::start(&mut tool)?)
        } else {
            let mut target = self.command("worker");
            let target = Group::start(target.arg("result").stdout(output))?;
            await_some("the target does not start", pid_told)?;
            let mut tool = self.tool("attach", kill)?;
            let tool = Group::start(tool.arg(target.0.id().to_string()))?;
            (Some(target), tool)
        };
        let traced = await_some("the target is not traced", || {
            if let Some(status) = tool.0.try_wait().ok()? {
                return Some(Err(status));
            }
            let pid = pid_told()?;
            let tracer = tracer_of(pid).filter(|tracer| *tracer != 0)?;
            Some(Ok((pid, tracer)))
        })?;
        let fate = match traced {
            Ok((pid, tracer)) => {
                thread::sleep(kill.after);
                if kill.victim != Victim::Front {
                    kill_now(tracer);
                }
                if kill.victim != Victim::Tracer {
                    let _ = tool.0.kill();
                }
                Some(self.fate(pid, target.as_mut().map(|target| &mut target.0))?)
            }
            Err(status) => {
                ensure!(status.success(), "redhanded failed: {}", self.told());
                None
            }
        };
        Ok(fate)
    }

    /// Lets the target end, and looks how it was.
    fn fate(&self, pid: u32, target: Option<&mut Child>) -> Result<Fate> {
        if await_some("", || {
            tracer_of(pid)
                .is_none_or(|tracer| tracer == 0)
                .then_some(())
        })
        .is_err()
        {
            return Ok(Fate::Held);
        }
        thread::sleep(SETTLED);
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
        if await_some("", || (!is_alive(pid)).then_some(())).is_err() {
            return Ok(Fate::Held);
        }
        Ok(match fs::read_to_string(self.path("result")).as_deref() {
            Ok("0\n") => Fate::Well,
            Ok(other) => Fate::Wrong(other.trim().to_owned()),
            Err(_) => Fate::Died(match target.map(Child::wait).transpose()? {
                Some(status) => status.to_string(),
                None => match waitpid(Pid::from_raw(pid.cast_signed()), None) {
                    Ok(WaitStatus::Signaled(_, signal, _)) => signal.to_string(),
                    Ok(other) => format!("{other:?}"),
                    // Its parent, the front, is alive.
                    Err(_) => self.told().trim().to_owned(),
                },
            }),
        })
    }

    fn told(&self) -> String {
        fs::read_to_string(self.path("told")).unwrap_or_default()
    }
}

/// A program in a process group of its own. Whatever is left of it ends with this.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn();
        let name = command.get_program().display();
        Ok(Self(child.with_context(|| format!("cannot start {name}"))?))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id().cast_signed());
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
        // Those whose parent was killed are ours.
        let member = Pid::from_raw(-group.as_raw());
        while waitpid(member, Some(WaitPidFlag::WNOHANG))
            .is_ok_and(|status| status != WaitStatus::StillAlive)
        {}
    }
}

/// Whether the system refuses perf events to ordinary users, without which there is no `--safe`.
fn perf_is_for_root() -> bool {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    level.trim().parse().is_ok_and(|level: i32| level > 2)
}

fn kill_now(pid: u32) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
}

fn await_some<T>(otherwise: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(start.elapsed() < LONGEST, "{otherwise}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn status_field(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn tracer_of(pid: u32) -> Option<u32> {
    status_field(pid, "TracerPid")?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    status_field(pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_kills_of_every_kind() {
        const LATEST: Duration = Duration::from_millis(250);
        let draw = |seed| {
            let mut random = Random(seed);
            (0..100)
                .map(|_| Kill::draw(&mut random, LATEST))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for victim in [Victim::Tracer, Victim::Front, Victim::Both] {
            assert!(draw(1).iter().any(|kill| kill.victim == victim));
        }
        assert!(draw(1).iter().any(|kill| kill.starts && kill.ends));
        assert!(draw(1).iter().all(|kill| kill.after < LATEST));
    }

    #[test]
    fn every_fate_but_one_is_a_loss() {
        let mut fates = Fates::default();
        for fate in [
            Fate::Well,
            Fate::Died(String::new()),
            Fate::Wrong(String::new()),
            Fate::Held,
        ] {
            fates.add(&fate);
        }
        assert_eq!(fates.lost(), 3);
        assert_eq!(fates.to_string(), "4 kills: 1 died, 1 wrong, 1 still held");
    }
}
