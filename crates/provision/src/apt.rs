//! Debian's packages, downloaded and unpacked without being installed.

use super::cache::make_folder;
use super::{last_line, on_file, system, unsupported};
use crate::ProvisionError;
use redhanded_sys::{die_with_this_thread, effective_user};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

/// A package as the archive offers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The name of its file.
    pub file: String,
    /// The size of the file.
    pub bytes: u64,
}

impl Offer {
    /// The package's version, if this is the package of that name.
    pub fn version_of(&self, package: &str) -> Option<&str> {
        let rest = self.file.strip_prefix(package)?.strip_prefix('_')?;
        rest.split('_').next()
    }
}

/// Why apt refused, as far as it decides what to do next.
#[derive(Debug)]
pub enum Refusal {
    /// The package is not in the lists, or its file not in the archive: new lists
    /// may help.
    Lists(String),
    /// Anything else.
    Other(ProvisionError),
}

impl From<Refusal> for ProvisionError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Lists(why) => {
                unsupported(format!("the package archive lacks a package: {why}"))
            }
            Refusal::Other(error) => error,
        }
    }
}

impl From<ProvisionError> for Refusal {
    fn from(error: ProvisionError) -> Self {
        Self::Other(error)
    }
}

/// apt, with the host's package lists or with lists of our own.
#[derive(Debug)]
pub struct Apt {
    options: Vec<OsString>,
}

impl Apt {
    /// apt with the host's lists.
    pub fn host() -> Self {
        Self {
            options: Vec::new(),
        }
    }

    /// apt with lists of its own in `folder`, which needs no privileges. They are
    /// those of the host's sources, or of `sources`.
    pub fn private(folder: &Path, sources: Option<&str>) -> Result<Self, ProvisionError> {
        let lists = folder.join("lists");
        for part in [folder.join("cache/archives/partial"), lists.join("partial")] {
            make_folder(&part)?;
        }
        let mut options = Vec::new();
        let mut set = |name: &str, value: &Path| {
            let mut option = OsString::from(name);
            option.push("=");
            option.push(value);
            options.extend(["-o".into(), option]);
        };
        set("Dir::State::Lists", &lists);
        set("Dir::Cache", &folder.join("cache"));
        if let Some(sources) = sources {
            let list = folder.join("sources.list");
            fs::write(&list, sources).map_err(on_file("write", &list))?;
            set("Dir::Etc::SourceList", &list);
            set("Dir::Etc::SourceParts", Path::new("/dev/null"));
        }
        Ok(Self { options })
    }

    /// Makes apt prefer the packages of this release.
    pub fn preferring(mut self, release: &str) -> Self {
        let option = format!("APT::Default-Release={release}");
        self.options.extend(["-o".into(), option.into()]);
        self
    }

    /// Fetches the lists.
    pub fn update(&self) -> Result<(), ProvisionError> {
        Ok(self.run("apt-get", &["-q", "update"], None).map(drop)?)
    }

    /// What installing a package would install: the package first, and those of its
    /// dependencies that the host does not have.
    pub fn missing_for(&self, package: &str) -> Result<Vec<String>, Refusal> {
        let arguments = ["install", "-s", "--no-install-recommends", package];
        let printed = self.run("apt-get", &arguments, None)?;
        let mut packages = would_install(&printed);
        packages.sort_by_key(|name| name != package);
        if packages.is_empty() {
            // It is installed already, and its file can be downloaded all the same.
            return Ok(vec![package.to_owned()]);
        }
        Ok(packages)
    }

    /// The packages that a package depends on directly.
    pub fn dependencies(&self, package: &str) -> Result<Vec<String>, Refusal> {
        let printed = self.run("apt-cache", &["depends", "--important", package], None)?;
        Ok(depended_on(&printed))
    }

    /// The files of packages, with their sizes.
    pub fn offers(&self, packages: &[String]) -> Result<Vec<Offer>, Refusal> {
        let mut arguments = vec!["download", "--print-uris"];
        arguments.extend(packages.iter().map(String::as_str));
        Ok(offered(&self.run("apt-get", &arguments, None)?))
    }

    /// Downloads packages into a folder.
    pub fn download(&self, packages: &[String], folder: &Path) -> Result<(), Refusal> {
        if let Some(user) = sandbox_user().filter(|_| effective_user() == 0) {
            // apt downloads as this user if the user can write to the folder, and
            // as root otherwise.
            chown(folder, Some(user), None).map_err(on_file("change the owner of", folder))?;
        }
        let mut arguments = vec!["-q", "download"];
        arguments.extend(packages.iter().map(String::as_str));
        self.run("apt-get", &arguments, Some(folder)).map(drop)
    }

    /// Where the host gets its packages from: site and release of each list.
    pub fn sites(&self) -> Result<Vec<(String, String)>, ProvisionError> {
        let format = "$(SITE) $(RELEASE)";
        let arguments = ["indextargets", "--format", format, "Created-By: Packages"];
        let printed = self.run("apt-get", &arguments, None)?;
        let pairs = printed.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect())
    }

    fn run(
        &self,
        program: &str,
        arguments: &[&str],
        folder: Option<&Path>,
    ) -> Result<String, Refusal> {
        let mut command = Command::new(program);
        command
            .args(&self.options)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        die_with_this_thread(&mut command, Vec::new());
        let output = command
            .output()
            .map_err(system(format!("cannot run {program}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(explain(program, &String::from_utf8_lossy(&output.stderr)))
    }
}

/// Unpacks a package into a folder.
pub fn unpack(package: &Path, folder: &Path) -> Result<(), ProvisionError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("-x").args([package, folder]);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    die_with_this_thread(&mut command, Vec::new());
    let output = command.output().map_err(system("cannot run dpkg-deb"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No space left") {
        return Err(full(folder));
    }
    Err(unsupported(format!(
        "cannot unpack {}: {}",
        package.display(),
        last_line(said.as_bytes()),
    )))
}

/// The user that apt becomes for downloads.
fn sandbox_user() -> Option<u32> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut user| (user.next()? == "_apt").then(|| user.nth(1)?.parse().ok())?)
}

/// How many bytes are free in a folder's file system; `None` if df does not say.
pub fn free(folder: &Path) -> Option<u64> {
    let mut command = Command::new("df");
    command.args(["-P", "-B1"]).arg(folder).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    printed
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()
}

/// The error for a full disk.
pub fn full(folder: &Path) -> ProvisionError {
    unsupported(format!(
        "no room left in {}: free some space, or set REDHANDED_KERNELS to another folder",
        folder.display(),
    ))
}

fn would_install(printed: &str) -> Vec<String> {
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("Inst "));
    let names = lines.filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

fn depended_on(printed: &str) -> Vec<String> {
    let lines = printed
        .lines()
        .filter_map(|line| line.split_once("Depends: "));
    // Virtual packages are in angle brackets.
    let names = lines.map(|(_, name)| name.trim());
    let names = names.filter(|name| !name.starts_with('<'));
    names.map(str::to_owned).collect()
}

fn offered(printed: &str) -> Vec<Offer> {
    let line = |line: &str| {
        let mut words = line.strip_prefix('\'')?.split(' ').skip(1);
        let (file, bytes) = (words.next()?, words.next()?.parse().ok()?);
        // The name becomes a part of a path.
        let plain = !file.contains('/') && file.ends_with(".deb");
        plain.then(|| Offer {
            file: file.to_owned(),
            bytes,
        })
    };
    printed.lines().filter_map(line).collect()
}

/// Turns what apt says into one sentence.
fn explain(program: &str, said: &str) -> Refusal {
    let has = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    let mut errors = said.lines().filter_map(|line| line.strip_prefix("E: "));
    let first = errors.next().unwrap_or("it gave no reason");
    if has(&["No space left"]) {
        return Refusal::Other(unsupported("the disk is full: packages cannot be fetched"));
    }
    if has(&[
        "Temporary failure resolving",
        "Could not resolve",
        "Could not connect",
        "Unable to connect",
        "Network is unreachable",
        "Connection timed out",
        "Connection failed",
    ]) {
        let why = format!("cannot fetch packages, the network does not answer: {first}");
        return Refusal::Other(unsupported(why));
    }
    if has(&[
        "404 ",
        "File not found",
        "Hash Sum mismatch",
        "File has unexpected size",
        "Unable to locate package",
        "No packages found",
        "no installation candidate",
        "Can't select candidate",
        "Can't find a source",
    ]) {
        return Refusal::Lists(first.to_owned());
    }
    Refusal::Other(unsupported(format!("{program} failed: {first}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_apt_prints_is_read() {
        let simulated = "Remv old [1.0]\nInst libfdt1 (1.6 Debian:12 [amd64])\n\
            Inst qemu-system-x86 (1:7.2 Debian:12 [amd64])\nConf libfdt1 (1.6)\n";
        assert_eq!(would_install(simulated), ["libfdt1", "qemu-system-x86"]);
        let printed = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-54-cloud-amd64\n \
            PreDepends: odd\n  Depends: <virtual>\n    real\n  Recommends: not-this\n";
        let expected = ["linux-image-6.1.0-54-cloud-amd64", "odd"];
        assert_eq!(depended_on(printed), expected);
        let uris = "'http://mirror/pool/a_1%3a2_all.deb' a_1%3a2_all.deb 1234 SHA512:0\n\
            'http://mirror/x' ../x.deb 5 MD5:0\n'http://mirror/y' y.deb huge\nnoise\n";
        let offer = Offer {
            file: "a_1%3a2_all.deb".to_owned(),
            bytes: 1234,
        };
        assert_eq!(offered(uris), [offer]);
    }

    #[test]
    fn downloads_are_apts_own_users() {
        let Some(user) = sandbox_user().filter(|_| effective_user() == 0) else {
            println!("skipped: this takes root and a user _apt");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        // The folder is handed over first, so it does not matter what comes of the download.
        drop(Apt::host().download(&[], folder.path()));
        let owner = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(owner, user, "apt would download as root");
    }

    #[test]
    fn a_refusal_becomes_one_sentence() {
        let lists = explain("apt-get", "E: Unable to locate package qemu-system-x86\n");
        assert!(matches!(lists, Refusal::Lists(_)));
        let gone = explain(
            "apt-get",
            "Err:1 x\n  404  Not Found\nE: Failed to fetch x\n",
        );
        assert!(matches!(gone, Refusal::Lists(why) if why == "Failed to fetch x"));
        for gone in ["File not found - /pool/x.deb", "Hash Sum mismatch"] {
            let said = format!("E: Failed to fetch x  {gone}\n");
            assert!(matches!(explain("apt-get", &said), Refusal::Lists(_)));
        }
        let network = "E: Failed to fetch x  Temporary failure resolving 'mirror'\nE: more\n";
        let sentence = ProvisionError::from(explain("apt-get", network)).to_string();
        assert!(sentence.contains("network does not answer"), "{sentence}");
        assert_eq!(sentence.lines().count(), 1);
        let disk = "W: x\nE: Write error - write (28: No space left on device)\n";
        let sentence = ProvisionError::from(explain("apt-get", disk)).to_string();
        assert!(sentence.contains("disk is full"), "{sentence}");
    }

    #[test]
    fn versions_are_read_from_file_names() {
        let offer = Offer {
            file: "linux-image-6.1.0-54-cloud-amd64_6.1.172-1_amd64.deb".to_owned(),
            bytes: 0,
        };
        let version = offer.version_of("linux-image-6.1.0-54-cloud-amd64");
        assert_eq!(version, Some("6.1.172-1"));
        assert_eq!(offer.version_of("linux-image-6.1.0-54-cloud"), None);
    }

    #[test]
    fn free_space_is_known() {
        assert!(free(&std::env::temp_dir()).is_some_and(|bytes| bytes > 0));
        assert_eq!(free(Path::new("/absent/folder")), None);
    }
}
