//! Filling the folder with QEMU and kernels.

use super::apt::{Apt, Refusal, free, full, unpack};
use super::provision::{
    Archive, Part, Provision, Tools, Wanted, find, find_tools, note_of, on_path, parts, qemu_part,
    tools, unpacked_qemu,
};
use super::{Qemu, on_file, unsupported};
use crate::ProvisionError;
use redhanded_sys::effective_user;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Finds what is wanted in the folder, or fetches what is missing into it. What is
/// fetched, and how large it is, is said.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide(
    folder: &Path,
    wanted: &Wanted,
    say: &mut dyn FnMut(&str),
) -> Result<Provision, ProvisionError> {
    let found = match find(folder, wanted) {
        Some(found) => found,
        None => find(&fill(folder, Some(wanted), say)?, wanted).ok_or_else(empty)?,
    };
    found.tools.qemu.version()?;
    Ok(found)
}

/// The same for what any machine takes, whatever kernel it runs.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide_tools(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Tools, ProvisionError> {
    let found = match find_tools(folder) {
        Some(found) => found,
        None => find_tools(&fill(folder, None, say)?).ok_or_else(empty)?,
    };
    found.qemu.version()?;
    Ok(found)
}

fn empty() -> ProvisionError {
    unsupported("the packages that were fetched do not hold what they should")
}

/// Fetches what is missing of a wish, or of the tools; the folder.
fn fill(
    folder: &Path,
    wanted: Option<&Wanted>,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, ProvisionError> {
    let (folder, _lock) = begin(folder, say)?;
    let mut sources = Sources {
        release: Apt::host(),
        backports: match wanted.map(|wanted| wanted.archive) {
            None | Some(Archive::Release) => None,
            Some(Archive::Backports) => Some(backports(&folder, Lists::Alone, say)?),
        },
    };
    match fetch(&sources, &folder, wanted, say) {
        Ok(()) => {}
        Err(Refusal::Lists(why)) => {
            sources.release = renewed(&folder, &why, say)?;
            fetch(&sources, &folder, wanted, say)?;
        }
        Err(Refusal::Other(error)) => return Err(error),
    }
    Ok(folder)
}

/// A second QEMU, the one of the backports, in a folder of its own below `folder`.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide_newer_qemu(
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Qemu, ProvisionError> {
    let newer = folder.join("newer-qemu");
    let part = qemu_part();
    if let Some(qemu) = unpacked_qemu(&newer).filter(|_| !part.mark(&newer).exists()) {
        qemu.version()?;
        return Ok(qemu);
    }
    let (folder, _lock) = &begin(folder, say)?;
    let newer = folder.join("newer-qemu");
    fs::create_dir_all(&newer).map_err(on_file("create", &newer))?;
    // What it depends on is in the release as well.
    let apt = backports(folder, Lists::WithRelease, say)?;
    let packages = apt.missing_for(&part.packages[0])?;
    fetch_part(&apt, &newer, &part, &packages, say)?;
    let qemu = unpacked_qemu(&newer)
        .ok_or_else(|| unsupported("the package of QEMU does not hold what it should"))?;
    qemu.version()?;
    Ok(qemu)
}

/// Makes the folder, and keeps others from filling it meanwhile.
fn begin(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<(PathBuf, File), ProvisionError> {
    if !on_path("apt-get") || !on_path("dpkg-deb") {
        return Err(unsupported(
            "packages can be fetched on Debian and its like only: install QEMU \
             (qemu-system-x86_64) and a static busybox, and name a kernel with --kernel \
             and its debug information with --vmlinux",
        ));
    }
    fs::create_dir_all(folder).map_err(on_file("create", folder))?;
    let folder = folder.canonicalize().map_err(on_file("find", folder))?;
    let lock = folder.join(".lock");
    let lock_file = File::create(&lock).map_err(on_file("create", &lock))?;
    if lock_file.try_lock().is_err() {
        let folder = folder.display();
        say(&format!("waiting for another that fetches into {folder}"));
        lock_file.lock().map_err(on_file("lock", &lock))?;
    }
    Ok((folder, lock_file))
}

/// Where packages come from.
struct Sources {
    release: Apt,
    /// Where the kernel comes from instead.
    backports: Option<Apt>,
}

impl Sources {
    fn kernels(&self) -> &Apt {
        self.backports.as_ref().unwrap_or(&self.release)
    }
}

fn fetch(
    sources: &Sources,
    folder: &Path,
    wanted: Option<&Wanted>,
    say: &mut dyn FnMut(&str),
) -> Result<(), Refusal> {
    let Some(wanted) = wanted else {
        return fetch_parts(&tools(), sources, folder, say);
    };
    let newest = sources.kernels().dependencies("linux-image-cloud-amd64")?;
    let newest = newest.iter().find_map(|name| {
        let release = name.strip_prefix("linux-image-")?;
        release.ends_with("-amd64").then(|| release.to_owned())
    });
    let Some(release) = newest else {
        return Err(Refusal::Lists("there is no cloud kernel".to_owned()));
    };
    fetch_parts(&parts(wanted, &release), sources, folder, say)?;
    let note = folder.join(note_of(wanted.archive));
    fs::write(&note, release).map_err(on_file("write", &note))?;
    Ok(())
}

/// Fetches those parts that are missing.
fn fetch_parts(
    parts: &[Part],
    sources: &Sources,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), Refusal> {
    for part in parts.iter().filter(|part| part.missing(folder)) {
        // QEMU and busybox come from the release, whatever the kernel does.
        let general = matches!(part.name.as_str(), "qemu" | "busybox");
        let apt = if general {
            &sources.release
        } else {
            sources.kernels()
        };
        let mut packages = part.packages.clone();
        if part.name == "qemu" {
            packages = apt.missing_for("qemu-system-x86")?;
        } else if part.name.starts_with("headers-") {
            let all = apt.dependencies(&packages[0])?;
            let kept = |name: &String| {
                name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-")
            };
            packages.extend(all.into_iter().filter(kept));
        }
        fetch_part(apt, folder, part, &packages, say)?;
    }
    Ok(())
}

fn fetch_part(
    apt: &Apt,
    folder: &Path,
    part: &Part,
    packages: &[String],
    say: &mut dyn FnMut(&str),
) -> Result<(), Refusal> {
    let debs = folder.join("debs");
    fs::create_dir_all(&debs).map_err(on_file("create", &debs))?;
    let offers = apt.offers(packages)?;
    if offers.is_empty() {
        return Err(Refusal::Lists(format!("{} is not offered", packages[0])));
    }
    let bytes: u64 = offers.iter().map(|offer| offer.bytes).sum();
    let more = match offers.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let main = &part.packages[0];
    say(&format!("fetching {main}{more} ({})", megabytes(bytes)));
    // Packages of kernels unpack to about four times their size.
    if free(folder).is_some_and(|free| free < bytes.saturating_mul(5)) {
        return Err(full(folder).into());
    }
    apt.download(packages, &debs)?;
    say(&format!("unpacking {main}{more}"));
    let mark = part.mark(folder);
    let marks = folder.join(".unfinished");
    fs::create_dir_all(&marks).map_err(on_file("create", &marks))?;
    File::create(&mark).map_err(on_file("create", &mark))?;
    for offer in &offers {
        let deb = debs.join(&offer.file);
        unpack(&deb, folder)?;
        fs::remove_file(&deb).map_err(on_file("remove", &deb))?;
    }
    fs::remove_file(&mark).map_err(on_file("remove", &mark))?;
    // Nothing but what was once interrupted is left in it.
    drop(fs::remove_dir_all(&debs));
    Ok(())
}

/// The release's packages by new lists: the host's where we may renew them, else
/// some of our own.
fn renewed(folder: &Path, why: &str, say: &mut dyn FnMut(&str)) -> Result<Apt, ProvisionError> {
    let apt = if effective_user() == 0 {
        Apt::host()
    } else {
        say("the host's package lists are old, and only root may renew them: using others");
        Apt::private(&folder.join("apt"), None)?
    };
    say(&format!("fetching new package lists ({why})"));
    apt.update()?;
    Ok(apt)
}

/// Which lists stand beside those of the backports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Alone,
    WithRelease,
}

/// apt with the lists of the backports of the host's release, from where the host
/// gets its own packages.
fn backports(
    folder: &Path,
    lists: Lists,
    say: &mut dyn FnMut(&str),
) -> Result<Apt, ProvisionError> {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = system
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let sites = Apt::host().sites()?;
    let site = codename.and_then(|codename| {
        let site = sites.iter().find(|(_, release)| *release == codename)?;
        Some((site.0.clone(), codename))
    });
    let Some((site, codename)) = site else {
        return Err(unsupported(
            "the host's package sources do not name its release, so its backports are unknown",
        ));
    };
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let signed = match Path::new(keys).exists() {
        true => format!("[signed-by={keys}] "),
        false => String::new(),
    };
    let mut sources = format!("deb {signed}{site} {codename}-backports main\n");
    let mut own = "apt-backports";
    if lists == Lists::WithRelease {
        sources.push_str(&format!("deb {signed}{site} {codename} main\n"));
        own = "apt-both";
    }
    let apt = Apt::private(&folder.join(own), Some(&sources))?
        .preferring(&format!("{codename}-backports"));
    say(&format!(
        "fetching the package lists of {codename}-backports"
    ));
    apt.update()?;
    Ok(apt)
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
