//! `cargo xtask hostile`: programs, files, stubs and users that attack the tool, each
//! with what must happen.

mod attack;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use globset::GlobMatcher;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use redhanded_provision::{Archive, Wanted, cache_folder, find};

use crate::corpus::matcher;
use crate::results::Tally;
use crate::{command, jobs, paths};
use attack::{Attack, User};

/// Options of `cargo xtask hostile`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Only attacks whose name fits
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How many attacks to run at a time
    #[arg(long, value_name = "N", default_value_t = JOBS)]
    jobs: usize,
    /// How much larger the attacks that repeat something are
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u32,
    /// Try the pending attacks too
    #[arg(long)]
    pending: bool,
    /// The binary to attack [default: built from this repository for release]
    #[arg(long, value_name = "PATH")]
    redhanded: Option<PathBuf>,
}

/// Most attacks wait more than they compute.
const JOBS: usize = 6;

/// Each attack has users of its own, so that limits on a user's processes count only its
/// own.
const FIRST_USER: u32 = 61_000;

/// The exit status of an attack that this machine cannot stage.
const SKIPPED: i32 = 77;

/// How long processes may take to end after the attack that started them.
const LAST_ENDS_WITHIN: Duration = Duration::from_secs(10);

impl Options {
    /// As in `cargo xtask test`.
    pub fn short() -> Self {
        Self {
            jobs: JOBS,
            scale: 1,
            ..Self::default()
        }
    }
}

/// Runs all attacks and prints the results; returns how many the tool withstood.
pub fn run(options: &Options) -> Result<Tally> {
    let filter = options.filter.as_deref().map(matcher).transpose()?;
    let fits = |name: &str| {
        filter
            .as_ref()
            .is_none_or(|filter: &GlobMatcher| filter.is_match(name))
    };
    let folder = paths::root().join("hostile").canonicalize()?;
    let mut attacks = attack::read_all(&folder)?;
    attacks.retain(|attack| fits(&attack.name));
    ensure!(!attacks.is_empty(), "no attack fits the filter");
    let redhanded = paths::redhanded(options.redhanded.as_deref())?;
    let ground = Ground::prepare(&redhanded, &folder, options.scale)?;
    let mut trials = Vec::new();
    for attack in &attacks {
        if let Some(why) = attack.pending.as_ref().filter(|_| !options.pending) {
            println!("{:<34} {:<9} pending: {why}", attack.name, "");
            continue;
        }
        for user in &attack.users {
            if *user == User::Root && !geteuid().is_root() {
                println!("{:<34} {:<9} skipped: not run by root", attack.name, "root");
                continue;
            }
            trials.push((attack, *user));
        }
    }
    // The longest first, so that none runs alone at the end.
    trials.sort_by_key(|(attack, _)| std::cmp::Reverse(attack.within));
    let results = jobs::run(&trials, options.jobs, |(attack, user)| {
        ground.stage(attack, *user)
    })?;
    Ok(results.into_iter().sum())
}

/// What all attacks share.
struct Ground {
    folder: tempfile::TempDir,
    redhanded: PathBuf,
    hostile: PathBuf,
    /// A kernel, and the cache folder with the tools to boot it.
    kernel: Option<(PathBuf, PathBuf)>,
    scale: u32,
    users: AtomicUsize,
}

impl Ground {
    /// Copies the tool and the attacks to where every user can reach them.
    fn prepare(redhanded: &Path, hostile: &Path, scale: u32) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        open_to_all(folder.path(), 0o755)?;
        let to = folder.path().join("hostile");
        let copied = command::shown(
            "cp",
            &["-r", &hostile.to_string_lossy(), &to.to_string_lossy()],
        )?;
        ensure!(copied, "cannot copy the attacks");
        let opened = command::shown("chmod", &["-R", "a+rX", &to.to_string_lossy()])?;
        ensure!(opened, "cannot open the attacks to all");
        let tool = folder.path().join("redhanded");
        fs::copy(redhanded, &tool).context("cannot copy the tool")?;
        open_to_all(&tool, 0o755)?;
        let wanted = Wanted {
            archive: Archive::Release,
            debug: false,
            headers: false,
        };
        let cache = cache_folder()?;
        let kernel = find(&cache, &wanted).map(|found| found.kernel);
        Ok(Self {
            folder,
            redhanded: tool,
            hostile: to,
            kernel: kernel.map(|kernel| (kernel, cache)),
            scale,
            users: AtomicUsize::new(0),
        })
    }

    /// Runs an attack and prints how it went.
    fn stage(&self, attack: &Attack, user: User) -> Tally {
        let start = Instant::now();
        let (verdict, tally) = match self.attempt(attack, user) {
            Ok(None) => ("withstood".to_owned(), Tally::PASSED),
            Ok(Some(skipped)) => (skipped, Tally::default()),
            Err(why) => (format!("FAILED\n{why:#}"), Tally::FAILED),
        };
        let seconds = start.elapsed().as_secs_f64();
        let mut lines = verdict.lines();
        let first = lines.next().unwrap_or_default();
        let mut text = format!(
            "{:<34} {:<9} {seconds:5.1} s  {first}",
            attack.name,
            user.name()
        );
        for line in lines {
            text.push_str("\n    ");
            text.push_str(line);
        }
        println!("{text}");
        tally
    }

    /// Runs an attack. Returns why it was skipped, if it was.
    fn attempt(&self, attack: &Attack, user: User) -> Result<Option<String>> {
        let number = u32::try_from(self.users.fetch_add(1, Ordering::Relaxed))?;
        let ordinary = FIRST_USER + number;
        let name = format!("{}-{}", attack.name, user.name());
        let place = self.folder.path().join(&name);
        fs::create_dir(&place).with_context(|| format!("no folder {}", place.display()))?;
        open_to_all(&place, 0o755)?;
        let vocabulary = self.hostile.join(attack::VOCABULARY);
        let mut shell = Command::new("setsid");
        shell
            .args(["--wait", "sh", "-c", r#". "$1"; . "$2""#, "sh"])
            .arg(vocabulary)
            .arg(self.hostile.join(format!("{}.sh", attack.name)))
            .current_dir(&place)
            .env("HOME", &place)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("REDHANDED_KERNELS")
            .env("REDHANDED", &self.redhanded)
            .env("HOSTILE", &self.hostile)
            .env("ORDINARY", ordinary.to_string())
            .env("SCALE", self.scale.to_string());
        // Found by what they carry, wherever they went.
        let mark = format!("REDHANDED_ATTACK={}", place.display());
        shell.env("REDHANDED_ATTACK", &place);
        if let Some((kernel, cache)) = &self.kernel {
            shell.env("KERNEL", kernel).env("KERNELS", cache);
        }
        if user == User::Ordinary && geteuid().is_root() {
            chown(&place, Some(ordinary), Some(ordinary)).context("cannot give a folder away")?;
            shell.uid(ordinary).gid(ordinary);
        }
        // A file, because a process that is left would keep a pipe open.
        let said = self.folder.path().join(format!("{name}.said"));
        let file = File::create(&said).context("no file for what is said")?;
        shell.stdin(Stdio::null());
        shell.stdout(file.try_clone()?).stderr(file);
        let mut child = shell.spawn().context("cannot start setsid")?;
        let status = command::wait(&mut child, attack.within * self.scale)?;
        let patience = match status.is_some_and(|status| status.success()) {
            true => LAST_ENDS_WITHIN,
            false => Duration::ZERO,
        };
        let left = remaining(&mark, patience);
        let said = String::from_utf8_lossy(&fs::read(said)?).into_owned();
        match status.and_then(|status| status.code()) {
            Some(0) => {
                ensure!(left.is_empty(), "processes are left: {}", left.join(", "));
                Ok(None)
            }
            Some(SKIPPED) => Ok(Some(said.trim_end().to_owned())),
            Some(code) => Err(anyhow!("status {code}\n{said}")),
            None => Err(anyhow!("it did not end in time\n{said}{}", left.join("\n"))),
        }
    }
}

/// Waits for the processes of an attack to end; kills and names those that do not.
fn remaining(mark: &str, patience: Duration) -> Vec<String> {
    let until = Instant::now() + patience;
    loop {
        let left = carriers(mark);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() >= until {
            for (pid, _) in &left {
                let _ = kill(*pid, Signal::SIGKILL);
            }
            return left.into_iter().map(|(_, name)| name).collect();
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The processes whose environment has `mark`. A zombie has none.
fn carriers(mark: &str) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
        {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push((Pid::from_raw(pid), format!("{pid} {command}")));
        }
    }
    found
}

fn open_to_all(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot open {} to all", path.display()))
}
