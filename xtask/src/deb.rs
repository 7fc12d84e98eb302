//! `cargo xtask deb`: the Debian package, with the binary, its pages and completions, the
//! documents, and the notices of everything that is linked into it.

mod notices;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::results::Tally;
use crate::{command, paths};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// More than any step of it takes, on a busy machine too: packing takes minutes there.
const LIMIT: Duration = Duration::from_secs(900);
/// Where documents are, below the root.
const DOCUMENTS: &str = "usr/share/doc/redhanded";

/// Where shells look for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/redhanded"),
    ("zsh", "usr/share/zsh/vendor-completions/_redhanded"),
    ("fish", "usr/share/fish/vendor_completions.d/redhanded.fish"),
];

/// Options of `cargo xtask deb`.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// The binary to pack. Default: one built for release
    #[arg(long, value_name = "FILE")]
    redhanded: Option<PathBuf>,
}

/// Builds the package, and checks that what is in it works.
pub fn run(options: &Options) -> Result<Tally> {
    let binary = paths::redhanded(options.redhanded.as_deref())?;
    let folder = paths::target().join("deb");
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).context("cannot remove an earlier package's files")?;
    }
    fill(&root, &binary)?;
    let package = folder.join(format!("redhanded_{VERSION}_amd64.deb"));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&package);
    done(&mut build)?;
    check(&package)?;
    println!("{}", package.display());
    Ok(Tally::PASSED)
}

/// Puts everything where it will be installed.
fn fill(root: &Path, binary: &Path) -> Result<()> {
    install(root, "usr/bin/redhanded", &fs::read(binary)?, 0o755)?;
    let pages = root.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    done(Command::new(binary).args(["generate", "man"]).arg(&pages))?;
    for (shell, place) in COMPLETIONS {
        let printed = done(Command::new(binary).args(["generate", shell]))?;
        install(root, place, printed.as_bytes(), 0o644)?;
    }
    document(root, "README.md", "README.md")?;
    document(root, "CHANGELOG.md", "changelog")?;
    for folder in ["docs", "examples", "examples/ci"] {
        for entry in fs::read_dir(paths::root().join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                document(root, &name, &name)?;
            }
        }
    }
    let mit = fs::read_to_string(paths::root().join("LICENSE-MIT"))?;
    let copyright = copyright(&mit);
    install(
        root,
        &format!("{DOCUMENTS}/copyright"),
        copyright.as_bytes(),
        0o644,
    )?;
    let notices = notices::of_dependencies("redhanded")?;
    install(
        root,
        &format!("{DOCUMENTS}/NOTICES"),
        notices.as_bytes(),
        0o644,
    )?;
    let packed = [
        &pages,
        &root.join(DOCUMENTS).join("changelog"),
        &root.join(DOCUMENTS).join("NOTICES"),
    ];
    // Without names and times, so that the same files give the same package.
    done(
        Command::new("gzip")
            .args(["-9n", "--recursive"])
            .args(packed),
    )?;
    let sums = done(
        Command::new("sh")
            .args([
                "-c",
                "find usr -type f | LC_ALL=C sort | xargs -d '\\n' md5sum",
            ])
            .current_dir(root),
    )?;
    install(root, "DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    install(
        root,
        "DEBIAN/control",
        control(root, binary)?.as_bytes(),
        0o644,
    )
}

fn document(root: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read(paths::root().join(from)).with_context(|| from.to_owned())?;
    install(root, &format!("{DOCUMENTS}/{to}"), &text, 0o644)
}

/// Writes a file below the root. Folders can be entered by everybody, whatever the umask is.
fn install(root: &Path, place: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let path = root.join(place);
    let mut folder = root.to_owned();
    for part in Path::new(place)
        .parent()
        .into_iter()
        .flat_map(Path::components)
    {
        folder.push(part);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    }
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Runs a program that must succeed; what it prints.
fn done(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let outcome = command::captured(command, LIMIT)?;
    ensure!(
        outcome.success(),
        "{name}: {}\n{}",
        outcome.status_in_words(),
        outcome.stderr
    );
    Ok(outcome.stdout)
}

fn control(root: &Path, binary: &Path) -> Result<String> {
    let size = done(Command::new("du").args(["-sk", "usr"]).current_dir(root))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let libc = newest_glibc(&fs::read(binary)?);
    Ok(format!(
        "Package: redhanded\n\
         Version: {VERSION}\n\
         Architecture: amd64\n\
         Maintainer: The Redhanded developers <redhanded@localhost>\n\
         Installed-Size: {size}\n\
         Depends: libc6 (>= 2.{libc}), libgcc-s1\n\
         Suggests: curl, gdb, qemu-system-x86\n\
         Section: devel\n\
         Priority: optional\n\
         Description: data-race detector for programs and kernels as they are\n \
         Catches data races in x86-64 Linux programs and in the Linux kernel. Nothing is\n \
         recompiled or instrumented: a thread is held for a moment just before a memory\n \
         access, and whoever touches the same bytes meanwhile is caught.\n"
    ))
}

/// The newest version 2.N of the C library that a binary asks for.
fn newest_glibc(binary: &[u8]) -> u32 {
    let mark = b"GLIBC_2.";
    let found = binary.windows(mark.len()).enumerate();
    let versions = found.filter(|(_, bytes)| bytes == mark).map(|(at, _)| {
        let digits = binary[at + mark.len()..].iter();
        let digits = digits.take(3).take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    });
    versions.max().unwrap_or(0)
}

fn copyright(mit: &str) -> String {
    let mit: String = mit
        .lines()
        .map(|line| match line.trim_end() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        })
        .collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: redhanded\n\n\
         Files: *\n\
         Copyright: the Redhanded developers\n\
         License: MIT or Apache-2.0\n\
         Comment: The libraries that are linked into the binary have licences of their own,\n \
         all of them permissive: NOTICES.gz beside this file has them.\n\n\
         License: MIT\n{mit}\n\
         License: Apache-2.0\n \
         On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.\n"
    )
}

/// What users will find when they install it.
const EXPECTED: [&str; 9] = [
    "usr/bin/redhanded",
    "usr/share/man/man1/redhanded.1.gz",
    "usr/share/man/man1/redhanded-run.1.gz",
    "usr/share/bash-completion/completions/redhanded",
    "usr/share/zsh/vendor-completions/_redhanded",
    "usr/share/fish/vendor_completions.d/redhanded.fish",
    "usr/share/doc/redhanded/docs/store.md",
    "usr/share/doc/redhanded/copyright",
    "usr/share/doc/redhanded/NOTICES.gz",
];

/// Installs the package into an empty root, tries it, and removes it again.
fn check(package: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    for part in ["var/lib/dpkg/updates", "var/lib/dpkg/info"] {
        fs::create_dir_all(root.join(part))?;
    }
    fs::write(root.join("var/lib/dpkg/status"), "")?;
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        // There is no C library in an empty root, and it may not be ours to be root in.
        dpkg.arg(format!("--root={}", root.display()))
            .args([
                "--force-depends",
                "--force-not-root",
                "--force-script-chrootless",
            ])
            .args(["--log=/dev/null"])
            .args(arguments);
        done(&mut dpkg)
    };
    dpkg(&["--install", &package.to_string_lossy()])?;
    for place in EXPECTED {
        ensure!(root.join(place).is_file(), "the package has no {place}");
    }
    let told = done(Command::new(root.join("usr/bin/redhanded")).arg("--version"))?;
    ensure!(
        told.trim() == format!("redhanded {VERSION}"),
        "it says {told}"
    );
    dpkg(&["--purge", "redhanded"])?;
    for place in EXPECTED {
        ensure!(!root.join(place).exists(), "{place} stays after a removal");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_counts() {
        let binary = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_2.";
        assert_eq!(newest_glibc(binary), 34);
        assert_eq!(newest_glibc(b"static"), 0);
    }

    #[test]
    fn an_empty_line_of_a_licence_is_a_dot() {
        let text = copyright("MIT\n\nPermission");
        assert!(
            text.contains("License: MIT\n MIT\n .\n Permission\n"),
            "{text}"
        );
    }
}
