//! Filling the cache folder from a package archive of our own, with apt's lists of it
//! as old as a test wants them.

use redhanded_provision::{Archive, Provision, Wanted, find, provide};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tempfile::TempDir;

const WANTED: Wanted = Wanted {
    archive: Archive::Release,
    debug: true,
    headers: true,
};

/// Names the cache folder for `provider`.
const CACHE: &str = "REDHANDED_TEST_CACHE";
/// The number of the message at which `provider` kills itself.
const DIES_AT: &str = "REDHANDED_TEST_DIES_AT";

/// Not a test of its own: what the tests start, with an apt that knows only their
/// archive.
#[test]
#[ignore = "started by the other tests"]
fn provider() {
    let cache = std::env::var_os(CACHE).unwrap();
    let dies_at = std::env::var(DIES_AT)
        .ok()
        .and_then(|text| text.parse().ok());
    let mut count = 0;
    let provided = provide(cache.as_ref(), &WANTED, &mut |message| {
        println!("\nsaid {message}");
        if dies_at == Some(count) {
            // As abruptly as any other death: nothing is dropped.
            std::process::abort();
        }
        count += 1;
    });
    provided.unwrap();
}

/// An archive, the lists of it that apt has, and a cache folder.
struct World {
    folder: TempDir,
}

/// What a run of `provider` said, and how it ended.
struct Ran {
    said: String,
    status: ExitStatus,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for part in [
            "archive",
            "cache",
            "state/lists/partial",
            "apt/archives/partial",
        ] {
            fs::create_dir_all(base.join(part)).unwrap();
        }
        fs::write(base.join("status"), "").unwrap();
        let base = base.display();
        let source = format!("deb [trusted=yes] file:{base}/archive ./\n");
        fs::write(folder.path().join("sources.list"), source).unwrap();
        // Compressed lists are copies: plain ones would be links to the archive's.
        let configuration = format!(
            "Dir::Etc::SourceList \"{base}/sources.list\";\n\
             Dir::Etc::SourceParts \"/dev/null\";\n\
             Dir::Etc::PreferencesParts \"/dev/null\";\n\
             Dir::State \"{base}/state\";\n\
             Dir::State::Status \"{base}/status\";\n\
             Dir::Cache \"{base}/apt\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Architectures \"amd64\";\n\
             Acquire::GzipIndexes \"true\";\n"
        );
        fs::write(folder.path().join("apt.conf"), configuration).unwrap();
        let world = Self { folder };
        let qemu = (
            "usr/bin/qemu-system-x86_64",
            "#!/bin/sh\necho QEMU of the test\n",
        );
        world.package("qemu-system-x86", "1", "", &[qemu]);
        world.package("busybox-static", "1", "", &[("bin/busybox", "")]);
        world
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Adds a package to the archive, and to the list of what it has.
    fn package(&self, name: &str, version: &str, depends: &str, files: &[(&str, &str)]) {
        let tree = tempfile::tempdir().unwrap();
        let mut control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\n\
             Maintainer: nobody <nobody@localhost>\nDescription: for a test\n"
        );
        if !depends.is_empty() {
            control.push_str(&format!("Depends: {depends}\n"));
        }
        for (path, text) in [("DEBIAN/control", control.as_str())].iter().chain(files) {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if path.ends_with("usr/bin/qemu-system-x86_64") {
                Command::new("chmod").arg("755").arg(path).status().unwrap();
            }
        }
        Command::new("chmod")
            .arg("755")
            .arg(tree.path())
            .status()
            .unwrap();
        let file = format!("{name}_{version}_amd64.deb");
        let deb = self.path("archive").join(&file);
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Znone", "--build"]);
        output(build.arg(tree.path()).arg(&deb));
        let sum = output(Command::new("sha256sum").arg(&deb));
        let sum = sum.split(' ').next().unwrap();
        let size = fs::metadata(&deb).unwrap().len();
        let entry = format!("{control}Filename: ./{file}\nSize: {size}\nSHA256: {sum}\n\n");
        let list = self.path("archive/Packages");
        let listed = fs::read_to_string(&list).unwrap_or_default();
        fs::write(list, listed + &entry).unwrap();
    }

    /// Adds the packages of a kernel; of its debug information only if it is to
    /// have any.
    fn kernel(&self, abi: &str, version: &str, debug: Option<&str>) {
        let release = format!("6.1.0-{abi}-cloud-amd64");
        let modules = format!("lib/modules/{release}/kernel/loop.ko");
        let exact = format!("linux-image-{release} (= {version})");
        self.package("linux-image-cloud-amd64", version, &exact, &[]);
        let vmlinuz = format!("boot/vmlinuz-{release}");
        let image = [(vmlinuz.as_str(), version), (&modules, version)];
        self.package(&format!("linux-image-{release}"), version, "", &image);
        let common = format!("linux-headers-6.1.0-{abi}-common");
        let makefile = format!("usr/src/linux-headers-{release}/Makefile");
        let headers = format!("linux-headers-{release}");
        self.package(&headers, version, &common, &[(&makefile, "")]);
        let makefile = format!("usr/src/{common}/Makefile");
        self.package(&common, version, "", &[(&makefile, "")]);
        if let Some(version) = debug {
            let vmlinux = format!("usr/lib/debug/boot/vmlinux-{release}");
            let modules = format!("usr/lib/debug/{modules}");
            let files = [(vmlinux.as_str(), version), (&modules, version)];
            self.package(&format!("linux-image-{release}-dbg"), version, "", &files);
        }
    }

    /// Removes packages from the archive, whose list no longer names them either.
    fn remove(&self, name: &str) {
        for entry in fs::read_dir(self.path("archive")).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().contains(name) {
                fs::remove_file(path).unwrap();
            }
        }
        let list = self.path("archive/Packages");
        let listed = fs::read_to_string(&list).unwrap();
        let kept = listed
            .split_inclusive("\n\n")
            .filter(|entry| !entry.contains(name));
        fs::write(list, kept.collect::<String>()).unwrap();
    }

    /// Has apt take note of what the archive has now.
    fn update_lists(&self) {
        let mut update = Command::new("apt-get");
        output(
            update
                .args(["-q", "update"])
                .env("APT_CONFIG", self.path("apt.conf")),
        );
    }

    fn provide(&self, dies_at: Option<usize>) -> Ran {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "provider", "--nocapture"])
            .env("APT_CONFIG", self.path("apt.conf"))
            .env(CACHE, self.path("cache"))
            .env("PATH", self.search_path());
        if let Some(number) = dies_at {
            command.env(DIES_AT, number.to_string());
        }
        let output = command.output().unwrap();
        Ran {
            said: String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
            status: output.status,
        }
    }

    /// Where programs are searched: those of the test first.
    fn search_path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.path("bin").display())
    }

    /// Provides, and checks that the cache has this kernel in whole and not a file
    /// of any other.
    fn expect(&self, abi: &str, version: &str) -> Ran {
        let ran = self.provide(None);
        assert!(ran.status.success(), "{}", ran.said);
        let found = find(&self.path("cache"), &WANTED).unwrap();
        assert_eq!(found.release, format!("6.1.0-{abi}-cloud-amd64"));
        check(&found, version);
        let versions: Vec<_> = fs::read_dir(self.path("cache/release")).unwrap().collect();
        assert_eq!(versions.len(), 1, "{versions:?}");
        assert_eq!(self.unfinished(), 0);
        ran
    }

    /// How many folders of interrupted runs there are.
    fn unfinished(&self) -> usize {
        let entries = fs::read_dir(self.path("cache")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".fetching-")).count()
    }
}

/// Checks that every file of a kernel is there and of the same version.
fn check(found: &Provision, version: &str) {
    let headers = found.headers.as_ref().unwrap();
    assert!(headers.join("Makefile").exists());
    let beside = fs::read_dir(headers.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 2, "the common headers as well");
    let [modules, debug] = [&found.modules, &found.modules_debug].map(|it| it.as_ref().unwrap());
    for file in [
        &found.kernel,
        found.vmlinux.as_ref().unwrap(),
        &modules.join("kernel/loop.ko"),
        &debug.join("kernel/loop.ko"),
    ] {
        assert_eq!(
            fs::read_to_string(file).unwrap(),
            version,
            "{}",
            file.display()
        );
    }
}

fn output(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// apt warns if it downloads as root because its own user cannot reach the folder.
#[test]
fn root_downloads_as_the_user_that_apt_has_for_it() {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    if redhanded_sys::effective_user() != 0 || !users.contains("\n_apt:") {
        eprintln!("skipped: only root downloads as another user, and only where apt has one");
        return;
    }
    let world = World::new();
    // Its user can get through to the archive and to the cache.
    fs::set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    world.update_lists();
    let (warnings, wrapper) = (world.path("warnings"), world.path("bin/apt-get"));
    fs::create_dir(world.path("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\n/usr/bin/apt-get \"$@\" 2>> {}\n",
        warnings.display()
    );
    // Another program writes it: a file that is open for writing in a process that another test
    // forks cannot be executed.
    let write = Command::new("sh")
        .args(["-c", r#"printf %s "$1" > "$2""#, "sh", &script])
        .arg(&wrapper)
        .status();
    assert!(write.unwrap().success());
    fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).unwrap();
    world.expect("54", "6.1.180-1");
    let warned = fs::read_to_string(warnings).unwrap();
    assert!(!warned.contains("unsandboxed"), "{warned}");
}

#[test]
fn an_empty_cache_is_filled_once() {
    let world = World::new();
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    world.update_lists();
    let ran = world.expect("54", "6.1.180-1");
    assert!(
        ran.said
            .contains("fetching linux-headers-6.1.0-54-cloud-amd64 and 1 more")
    );
    assert!(!ran.said.contains("new package lists"), "{}", ran.said);
    let ran = world.expect("54", "6.1.180-1");
    assert!(!ran.said.contains("\nsaid "), "{}", ran.said);
}

#[test]
fn a_kernel_without_companions_in_old_lists_is_not_touched() {
    let world = World::new();
    world.kernel("48", "6.1.172-1", None);
    world.update_lists();
    // The archive still has the old one: only the lists keep it from being fetched.
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    let ran = world.expect("54", "6.1.180-1");
    assert!(
        !ran.said.contains("fetching linux-image-6.1.0-48"),
        "{}",
        ran.said
    );
    let lists = ran.said.find("new package lists").unwrap();
    assert!(lists < ran.said.find("said fetching linux").unwrap());
}

#[test]
fn companions_of_another_build_are_none() {
    let world = World::new();
    world.kernel("54", "6.1.179-1", Some("6.1.178-1"));
    world.update_lists();
    world.remove("6.1.179-1");
    world.remove("6.1.178-1");
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    let ran = world.expect("54", "6.1.180-1");
    assert!(ran.said.contains("is of version 6.1.178-1"), "{}", ran.said);
}

#[test]
fn a_kernel_that_has_left_the_archive_leaves_nothing_behind() {
    // All of it, or only what is fetched after the rest.
    for gone in ["6.1.172-1", "-dbg_6.1.172-1", "48-common_6.1.172-1"] {
        let world = World::new();
        world.kernel("48", "6.1.172-1", Some("6.1.172-1"));
        world.update_lists();
        world.remove(gone);
        world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
        let ran = world.expect("54", "6.1.180-1");
        assert!(ran.said.contains("new package lists"), "{}", ran.said);
    }
}

#[test]
fn an_archive_that_lacks_companions_is_an_error_and_leaves_nothing_behind() {
    let world = World::new();
    world.kernel("54", "6.1.180-1", None);
    world.update_lists();
    let ran = world.provide(None);
    assert!(!ran.status.success());
    assert!(
        !ran.said.contains("said fetching linux-image"),
        "{}",
        ran.said
    );
    assert!(!world.path("cache/release").exists());
    assert_eq!(world.unfinished(), 0);
}

#[test]
fn leftovers_are_ignored_or_removed() {
    let world = World::new();
    let old = "6.1.0-48-cloud-amd64";
    for path in [
        // Of an earlier layout, half fetched.
        format!("boot/vmlinuz-{old}"),
        format!("lib/modules/{old}/kernel/loop.ko"),
        format!(".unfinished/debug-{old}"),
        "debs/half.deb".to_owned(),
        // Of a run that was killed.
        format!(".fetching-old/0/boot/vmlinuz-{old}"),
    ] {
        let path = world.path("cache").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "6.1.172-1").unwrap();
    }
    fs::write(world.path("cache/.release"), old).unwrap();
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    world.update_lists();
    world.expect("54", "6.1.180-1");
}

#[test]
fn a_version_that_was_fetched_in_part_is_completed_or_passed_over() {
    for (abi, version) in [("48", "6.1.172-1"), ("54", "6.1.180-1")] {
        let world = World::new();
        world.kernel("48", "6.1.172-1", Some("6.1.172-1"));
        world.update_lists();
        let image = world.path("cache/release/6.1.0-48-cloud-amd64_6.1.172-1/image");
        world.expect("48", "6.1.172-1");
        fs::remove_dir_all(image.with_file_name("debug")).unwrap();
        if abi == "54" {
            world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
            world.update_lists();
        }
        assert!(world.provide(None).status.success());
        let found = find(&world.path("cache"), &WANTED).unwrap();
        assert_eq!(found.release, format!("6.1.0-{abi}-cloud-amd64"));
        check(&found, version);
    }
}

#[test]
fn a_fetch_that_is_killed_anywhere_leaves_nothing_that_counts() {
    let world = World::new();
    world.kernel("48", "6.1.172-1", Some("6.1.172-1"));
    world.update_lists();
    world.remove("-dbg_6.1.172-1");
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    let mut interrupted = 0;
    for number in 0.. {
        let cache = world.path("cache");
        fs::remove_dir_all(&cache).unwrap();
        let ran = world.provide(Some(number));
        if ran.status.success() {
            assert!(number >= 6, "{}", ran.said);
            break;
        }
        assert_eq!(find(&cache, &WANTED), None, "{}", ran.said);
        assert!(!cache.join("release").exists(), "{}", ran.said);
        interrupted += world.unfinished();
        world.expect("54", "6.1.180-1");
    }
    assert!(interrupted >= 6, "in the middle of it: {interrupted}");
}

#[test]
fn a_cache_that_others_may_write_to_is_refused() {
    let world = World::new();
    world.kernel("54", "6.1.180-1", Some("6.1.180-1"));
    world.update_lists();
    world.expect("54", "6.1.180-1");
    let cache = world.path("cache");
    for mode in ["0777", "0775"] {
        Command::new("chmod")
            .arg(mode)
            .arg(&cache)
            .status()
            .unwrap();
        assert!(!world.provide(None).status.success());
        assert_eq!(find(&cache, &WANTED), None);
    }
    assert_eq!(find(Path::new("/absent"), &WANTED), None);
}
