//! Filling the cache folder from the distribution's package archive.
//!
//! All packages of a kernel are looked up in the lists before the first of them is
//! downloaded: they must be of one version. Lists that lack one of them, or name
//! files that the archive no longer has, are fetched anew.

use super::apt::{Apt, Offer, Refusal, free, full, unpack};
use super::cache::{Cache, check_owner, make_folder, tidy};
use super::find::{
    Archive, BUSYBOX, DEBUG, HEADERS, IMAGE, Provision, QEMU, Tools, Wanted, find, find_busybox,
    find_newer_qemu, find_qemu, find_tools, on_path, tool_folder, version_folder,
};
use super::{Qemu, on_file, unsupported};
use crate::ProvisionError;
use std::fs;
use std::path::{Path, PathBuf};

/// Finds what is wanted in the folder, or fetches what is missing into it. `say` is
/// told what is fetched, and how large it is.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide(
    folder: &Path,
    wanted: &Wanted,
    say: &mut dyn FnMut(&str),
) -> Result<Provision, ProvisionError> {
    let found = obtain(folder, Some(wanted), &|folder| find(folder, wanted), say)?;
    found.tools.qemu.version()?;
    Ok(found)
}

/// Does the same for what every machine needs, whatever kernel it runs.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide_tools(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Tools, ProvisionError> {
    let found = obtain(folder, None, &find_tools, say)?;
    found.qemu.version()?;
    Ok(found)
}

fn obtain<T>(
    folder: &Path,
    wanted: Option<&Wanted>,
    find: &dyn Fn(&Path) -> Option<T>,
    say: &mut dyn FnMut(&str),
) -> Result<T, ProvisionError> {
    if let Some(found) = look(folder, find)? {
        return Ok(found);
    }
    let cache = begin(folder, say)?;
    // Another run may have fetched it while we waited for the lock.
    if let Some(found) = find(&cache.folder) {
        return Ok(found);
    }
    fill(&cache, wanted, say)?;
    find(&cache.folder).ok_or_else(|| unsupported("a package that was fetched lacks its files"))
}

/// What is there already, after removing what interrupted runs have left.
fn look<T>(folder: &Path, find: &dyn Fn(&Path) -> Option<T>) -> Result<Option<T>, ProvisionError> {
    if folder.exists() {
        check_owner(folder)?;
        tidy(folder);
    }
    Ok(find(folder))
}

/// Fetches what is missing of what is wanted, or of the tools.
fn fill(
    cache: &Cache,
    wanted: Option<&Wanted>,
    say: &mut dyn FnMut(&str),
) -> Result<(), ProvisionError> {
    let lists = cache.stage()?;
    let mut sources = Sources {
        release: Apt::host(),
        backports: match wanted.map(|wanted| wanted.archive) {
            None | Some(Archive::Release) => None,
            Some(Archive::Backports) => Some(backports(lists.path(), Lists::Alone, say)?),
        },
    };
    let mut fetched = sources.fetch(cache, wanted, say);
    if let Err(Refusal::Lists(why)) = fetched {
        say(&format!("fetching new package lists ({why})"));
        // Into a folder of our own: that takes no privileges, and apt would not
        // replace lists that it takes for current.
        sources.release = Apt::private(&lists.path().join("release"), None)?;
        sources.release.update()?;
        fetched = sources.fetch(cache, wanted, say);
    }
    Ok(fetched?)
}

/// Finds or fetches a second QEMU, the one of the backports.
///
/// # Errors
/// When it cannot be had; with what to do instead.
pub fn provide_newer_qemu(
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Qemu, ProvisionError> {
    if let Some(qemu) = look(folder, &find_newer_qemu)? {
        qemu.version()?;
        return Ok(qemu);
    }
    let cache = begin(folder, say)?;
    // The release has what it depends on.
    let lists = cache.stage()?;
    let apt = backports(lists.path(), Lists::WithRelease, say)?;
    let packages = apt.missing_for(QEMU)?;
    let part = Part::look_up(&apt, tool_folder("newer-qemu"), packages)?;
    fetch(&[part], &cache, say)?;
    let qemu = find_newer_qemu(&cache.folder)
        .ok_or_else(|| unsupported("the package of QEMU lacks its files"))?;
    qemu.version()?;
    Ok(qemu)
}

/// Locks the cache for filling it, where packages can be had at all.
fn begin(folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Cache, ProvisionError> {
    if !on_path("apt-get") || !on_path("dpkg-deb") {
        return Err(unsupported(
            "packages can be fetched only on Debian and its derivatives: install QEMU \
             (qemu-system-x86_64) and a static busybox, and name a kernel with --kernel \
             and its debug information with --vmlinux",
        ));
    }
    Cache::lock(folder, say)
}

/// Where packages come from.
struct Sources {
    release: Apt,
    /// Where the kernel comes from instead.
    backports: Option<Apt>,
}

impl Sources {
    /// Looks up everything that is missing, and only then fetches it.
    fn fetch(
        &self,
        cache: &Cache,
        wanted: Option<&Wanted>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Refusal> {
        let apt = &self.release;
        let mut parts = match wanted {
            Some(wanted) => kernel_parts(self.backports.as_ref().unwrap_or(apt), wanted)?,
            None => Vec::new(),
        };
        // QEMU and busybox come from the release, wherever the kernel comes from.
        if find_qemu(&cache.folder).is_none() {
            let (to, packages) = (tool_folder(QEMU), apt.missing_for(QEMU)?);
            parts.push(Part::look_up(apt, to, packages)?);
        }
        if find_busybox(&cache.folder).is_none() {
            let (to, packages) = (tool_folder(BUSYBOX), vec![BUSYBOX.to_owned()]);
            parts.push(Part::look_up(apt, to, packages)?);
        }
        parts.retain(|part| !cache.folder.join(&part.to).exists());
        fetch(&parts, cache, say)
    }
}

/// Packages that are unpacked together.
struct Part<'a> {
    apt: &'a Apt,
    /// Where to, below the cache folder.
    to: PathBuf,
    /// The names of the packages, the main one first.
    packages: Vec<String>,
    offers: Vec<Offer>,
}

impl<'a> Part<'a> {
    fn look_up(apt: &'a Apt, to: PathBuf, packages: Vec<String>) -> Result<Self, Refusal> {
        let offers = apt.offers(&packages)?;
        if offers.is_empty() {
            return Err(Refusal::Lists(format!("{} is not offered", packages[0])));
        }
        Ok(Self {
            apt,
            to,
            packages,
            offers,
        })
    }

    /// What users are told it is.
    fn title(&self) -> String {
        let main = &self.packages[0];
        match self.offers.len() {
            1 => main.clone(),
            count => format!("{main} and {} more", count - 1),
        }
    }
}

/// The packages of the newest kernel, all of one version.
fn kernel_parts<'a>(apt: &'a Apt, wanted: &Wanted) -> Result<Vec<Part<'a>>, Refusal> {
    let newest = apt.dependencies("linux-image-cloud-amd64")?;
    let newest = newest.iter().find_map(|name| {
        let release = name.strip_prefix("linux-image-")?;
        release.ends_with("-amd64").then(|| release.to_owned())
    });
    let Some(release) = newest else {
        return Err(Refusal::Lists("there is no cloud kernel".to_owned()));
    };
    // Each with the beginnings of the names of other packages that belong to it.
    let image = format!("linux-image-{release}");
    let mut mains: Vec<(&str, String, &[&str])> =
        vec![(IMAGE, image.clone(), &["linux-modules-", "linux-binary-"])];
    if wanted.debug {
        mains.push((DEBUG, format!("{image}-dbg"), &[]));
    }
    if wanted.headers {
        let with = &["linux-headers-", "linux-kbuild-"];
        mains.push((HEADERS, format!("linux-headers-{release}"), with));
    }
    let mut version: Option<String> = None;
    let mut parts = Vec::new();
    for (part, main, with) in mains {
        let mut packages = vec![main.clone()];
        if !with.is_empty() {
            let all = apt.dependencies(&main)?;
            let belongs = |name: &String| with.iter().any(|with| name.starts_with(with));
            packages.extend(all.into_iter().filter(belongs));
        }
        let mut found = Part::look_up(apt, PathBuf::new(), packages)?;
        let of_main = found
            .offers
            .iter()
            .find_map(|offer| offer.version_of(&main));
        let of_main = of_main.ok_or_else(|| Refusal::Lists(format!("{main} is not offered")))?;
        let version = version.get_or_insert_with(|| of_main.to_owned());
        if version != of_main {
            return Err(Refusal::Lists(format!(
                "{main} is of version {of_main}, {image} of {version}"
            )));
        }
        found.to = version_folder(wanted.archive, &release, version).join(part);
        parts.push(found);
    }
    Ok(parts)
}

/// Downloads and unpacks parts aside, and moves them into place when all are whole.
fn fetch(parts: &[Part], cache: &Cache, say: &mut dyn FnMut(&str)) -> Result<(), Refusal> {
    let bytes = |part: &Part| part.offers.iter().map(|offer| offer.bytes).sum::<u64>();
    // Packages of kernels unpack to about four times their size.
    let needed = parts.iter().map(bytes).sum::<u64>().saturating_mul(5);
    if free(&cache.folder).is_some_and(|free| free < needed) {
        return Err(full(&cache.folder).into());
    }
    let stage = cache.stage()?;
    let debs = stage.path().join("debs");
    make_folder(&debs)?;
    for part in parts {
        let megabytes = bytes(part).div_ceil(1_000_000);
        say(&format!("fetching {} ({megabytes} MB)", part.title()));
        part.apt.download(&part.packages, &debs)?;
    }
    let unpacked = |number: usize| stage.path().join(number.to_string());
    for (number, part) in parts.iter().enumerate() {
        say(&format!("unpacking {}", part.title()));
        make_folder(&unpacked(number))?;
        for offer in &part.offers {
            let deb = debs.join(&offer.file);
            unpack(&deb, &unpacked(number))?;
            fs::remove_file(&deb).map_err(on_file("remove", &deb))?;
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let to = cache.folder.join(&part.to);
        make_folder(to.parent().unwrap_or(&cache.folder))?;
        fs::rename(unpacked(number), &to).map_err(on_file("move packages to", &to))?;
    }
    Ok(())
}

/// Whether the lists of the release are used with those of the backports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Alone,
    WithRelease,
}

/// apt with the lists of the backports, from the site where the host gets its own
/// packages.
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
    if lists == Lists::WithRelease {
        sources.push_str(&format!("deb {signed}{site} {codename} main\n"));
    }
    let apt = Apt::private(&folder.join("backports"), Some(&sources))?
        .preferring(&format!("{codename}-backports"));
    say(&format!(
        "fetching the package lists of {codename}-backports"
    ));
    apt.update()?;
    Ok(apt)
}
