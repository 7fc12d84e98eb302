//! What the tests need on the machine besides cargo, and how it gets there.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::command;

/// Something that must be installed.
struct Need {
    /// What shows that it is installed.
    sign: Sign,
    /// The Debian package it is in.
    package: &'static str,
    /// What it is for.
    why: &'static str,
}

enum Sign {
    /// A program on the path.
    Program(&'static str),
    /// A file that gcc finds in its library folders.
    Library(&'static str),
    /// A header that gcc finds.
    Header(&'static str),
}

const NEEDS: &[Need] = &[
    Need {
        sign: Sign::Program("gcc"),
        package: "gcc",
        why: "builds the C programs of the corpus",
    },
    Need {
        sign: Sign::Program("g++"),
        package: "g++",
        why: "builds the C++ programs of the corpus, and the fuzzer's engine",
    },
    Need {
        sign: Sign::Program("clang"),
        package: "clang",
        why: "builds programs of the corpus a second way",
    },
    Need {
        sign: Sign::Library("libomp5.so"),
        package: "libomp-dev",
        why: "links programs with OpenMP that clang builds",
    },
    Need {
        sign: Sign::Program("ld.lld"),
        package: "lld",
        why: "links programs that clang optimises at link time",
    },
    Need {
        sign: Sign::Library("libatomic.a"),
        package: "gcc",
        why: "16-byte atomics in programs of the corpus",
    },
    Need {
        sign: Sign::Program("musl-gcc"),
        package: "musl-tools",
        why: "links programs of the corpus against another C library",
    },
    Need {
        sign: Sign::Program("go"),
        package: "golang-go",
        why: "builds the Go programs of the corpus",
    },
    Need {
        sign: Sign::Program("gdb"),
        package: "gdb",
        why: "opens the core files that tests write",
    },
    Need {
        sign: Sign::Program("curl"),
        package: "curl",
        why: "fetches debug information from a server in a test",
    },
    Need {
        sign: Sign::Program("chromium"),
        package: "chromium",
        why: "opens the HTML reports that tests write",
    },
    Need {
        sign: Sign::Header("pthread.h"),
        package: "libc6-dev",
        why: "headers of the C library",
    },
    Need {
        sign: Sign::Library("libc.a"),
        package: "libc6-dev",
        why: "links static programs of the corpus",
    },
    Need {
        sign: Sign::Library("libgomp.so"),
        package: "gcc",
        why: "OpenMP programs of the corpus",
    },
    Need {
        sign: Sign::Program("strip"),
        package: "binutils",
        why: "strips programs of the corpus",
    },
    Need {
        sign: Sign::Program("objcopy"),
        package: "binutils",
        why: "makes separate debug files in tests",
    },
    Need {
        sign: Sign::Program("nm"),
        package: "binutils",
        why: "names the functions of stripped programs",
    },
    Need {
        sign: Sign::Program("ld"),
        package: "binutils",
        why: "links kernel modules in tests",
    },
    Need {
        sign: Sign::Program("make"),
        package: "make",
        why: "builds the modules of the kernel corpus",
    },
    Need {
        sign: Sign::Program("gzip"),
        package: "gzip",
        why: "packs a kernel for the fuzzer",
    },
    Need {
        sign: Sign::Program("xz"),
        package: "xz-utils",
        why: "packs kernels in tests",
    },
    Need {
        sign: Sign::Program("bzip2"),
        package: "bzip2",
        why: "packs kernels in tests",
    },
    Need {
        sign: Sign::Program("lz4"),
        package: "lz4",
        why: "packs kernels in tests",
    },
    Need {
        sign: Sign::Program("zstd"),
        package: "zstd",
        why: "packs kernels in tests",
    },
];

/// What the recorder is built with.
const OF_RECORDER: &[Need] = &[
    Need {
        sign: Sign::Program("cmake"),
        package: "cmake",
        why: "configures DynamoRIO",
    },
    Need {
        sign: Sign::Program("make"),
        package: "make",
        why: "builds DynamoRIO",
    },
    Need {
        sign: Sign::Program("patch"),
        package: "patch",
        why: "DynamoRIO's configuration asks for it",
    },
    Need {
        sign: Sign::Program("gcc"),
        package: "gcc",
        why: "compiles DynamoRIO and the recorder's client",
    },
    Need {
        sign: Sign::Program("g++"),
        package: "g++",
        why: "DynamoRIO's configuration asks for it",
    },
    Need {
        sign: Sign::Header("pthread.h"),
        package: "libc6-dev",
        why: "headers of the C library",
    },
    Need {
        sign: Sign::Header("zlib.h"),
        package: "zlib1g-dev",
        why: "DynamoRIO's configuration asks for it",
    },
];

impl Sign {
    fn name(&self) -> &'static str {
        match self {
            Self::Program(name) | Self::Library(name) | Self::Header(name) => name,
        }
    }

    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => on_path(name),
            // gcc answers with the bare name when it does not find the file.
            Self::Library(name) => gcc(&[&format!("-print-file-name={name}")])
                .is_some_and(|path| Path::new(path.trim()).is_absolute()),
            Self::Header(name) => gcc(&["-E", "-include", name, "-x", "c", "/dev/null"]).is_some(),
        }
    }
}

/// Installs what the tests need and is missing, or says what to install.
pub fn provide() -> Result<()> {
    provide_all(NEEDS)
}

/// The same for what the recorder is built with.
pub fn provide_for_recorder() -> Result<()> {
    provide_all(OF_RECORDER)
}

fn provide_all(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.sign.is_there()).collect();
    if missing.is_empty() {
        println!("all installed: {}", names(needs));
        return Ok(());
    }
    for need in &missing {
        println!(
            "missing: {} ({}; package {})",
            need.sign.name(),
            need.why,
            need.package
        );
    }
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let packages = packages.join(" ");
    let is_debian = Path::new("/etc/debian_version").exists() && on_path("apt-get");
    ensure!(
        is_debian,
        "please install {}: xtask can do that on Debian only",
        names(missing)
    );
    let install = format!("apt-get install -y --no-install-recommends {packages}");
    ensure!(
        nix::unistd::geteuid().is_root(),
        "please run `sudo apt-get update && sudo {install}`, then start again"
    );
    // Lists that are missing or old name no packages, or packages that are gone.
    println!("installing {packages}, after updating the package lists");
    if !apt_get("update -qq")? {
        println!("the package lists cannot be updated; trying with those that are there");
    }
    ensure!(
        apt_get(&format!(
            "install -y -qq --no-install-recommends {packages}"
        ))?,
        "`{install}` failed"
    );
    let still = missing.into_iter().filter(|need| !need.sign.is_there());
    let still = names(still);
    ensure!(
        still.is_empty(),
        "still missing after the installation: {still}"
    );
    Ok(())
}

/// Runs apt-get, which must not ask questions; true if it succeeded.
fn apt_get(words: &str) -> Result<bool> {
    let mut arguments = vec!["DEBIAN_FRONTEND=noninteractive", "apt-get"];
    arguments.extend(words.split(' '));
    command::shown("env", &arguments)
}

/// Whether a program of this name can be started.
pub fn on_path(name: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

fn gcc(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("gcc");
    command.args(arguments);
    let outcome = command::captured(&mut command, Duration::from_secs(20)).ok()?;
    outcome.success().then_some(outcome.stdout)
}

fn names<'a>(needs: impl IntoIterator<Item = &'a Need>) -> String {
    let names: Vec<_> = needs.into_iter().map(|need| need.sign.name()).collect();
    names.join(", ")
}
