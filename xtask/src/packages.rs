//! What the tests need on the machine beside cargo, and installing it.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::command;

/// Something that must be there.
struct Need {
    /// How it shows that it is there.
    sign: Sign,
    /// The Debian package that brings it.
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
        why: "builds the C kernels of the corpus",
    },
    Need {
        sign: Sign::Program("g++"),
        package: "g++",
        why: "builds the C++ kernels of the corpus",
    },
    Need {
        sign: Sign::Program("gdb"),
        package: "gdb",
        why: "opens the cores that tests write",
    },
    Need {
        sign: Sign::Header("pthread.h"),
        package: "libc6-dev",
        why: "headers of the C library",
    },
    Need {
        sign: Sign::Library("libc.a"),
        package: "libc6-dev",
        why: "static kernels of the corpus",
    },
    Need {
        sign: Sign::Library("libgomp.so"),
        package: "gcc",
        why: "OpenMP kernels of the corpus",
    },
    Need {
        sign: Sign::Program("strip"),
        package: "binutils",
        why: "stripped kernels of the corpus",
    },
    Need {
        sign: Sign::Program("objcopy"),
        package: "binutils",
        why: "separate debug files in tests",
    },
    Need {
        sign: Sign::Program("nm"),
        package: "binutils",
        why: "judging reports of stripped kernels",
    },
    Need {
        sign: Sign::Program("ld"),
        package: "binutils",
        why: "modules for kernels in tests",
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
        why: "packs kernels in tests, as do the next ones",
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

/// Installs what is missing, or says what to do.
pub fn provide() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.sign.is_there()).collect();
    if missing.is_empty() {
        println!("all there: {}", names(&NEEDS.iter().collect::<Vec<_>>()));
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
    if !(Path::new("/etc/debian_version").exists() && on_path("apt-get")) {
        bail!(
            "please install {}: this is no Debian, so it is left to you",
            names(&missing)
        );
    }
    let install = format!(
        "apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    if !nix::unistd::geteuid().is_root() {
        bail!("please run `sudo {install}`, then start again");
    }
    println!("installing {}", packages.join(", "));
    command::shown("apt-get", &["update", "-qq"])?;
    let mut words = vec!["install", "-y", "-qq", "--no-install-recommends"];
    words.extend(&packages);
    ensure!(command::shown("apt-get", &words)?, "`{install}` failed");
    let still: Vec<&Need> = missing
        .into_iter()
        .filter(|need| !need.sign.is_there())
        .collect();
    ensure!(
        still.is_empty(),
        "still missing after installing: {}",
        names(&still)
    );
    Ok(())
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

fn names(needs: &[&Need]) -> String {
    let names: Vec<_> = needs.iter().map(|need| need.sign.name()).collect();
    names.join(", ")
}
