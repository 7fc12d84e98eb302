//! The recorder: builds DynamoRIO from the source that its crate has, and our client for it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use redhanded_recorder::Engine;
use redhanded_recording::wire::{
    CHUNK_HEADER_SIZE, CHUNK_MAGIC, ChunkKind, FIRST_OWN, Function, Kind, LONGEST_CHUNK,
    LONGEST_OWN, MOST_PROCESSES, OPTION_VALUES, OWN_ARGUMENTS, check, register,
};
use serde_json::Value;

use crate::{command, packages, paths};

/// What is built of DynamoRIO: the core, and extensions under the BSD licence. drwrap, drutil and
/// drsyms are not among them because of their licences.
const TARGETS: [&str; 5] = [
    "dynamorio",
    "drmgr_static",
    "drreg_static",
    "drx_static",
    "drcontainers",
];

/// The profiles whose binaries look for it beside them.
const PROFILES: [&str; 2] = ["release", "debug"];

/// Options of `cargo xtask recorder`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Options {
    /// Also place it in your data folder, where an installed binary finds it
    #[arg(long)]
    install: bool,
}

/// Builds the recorder and places it beside the binaries.
pub fn build(options: &Options) -> Result<()> {
    packages::provide_for_recorder()?;
    let source = source()?;
    let build = paths::target().join("recorder");
    fs::create_dir_all(&build)?;
    let build = build.canonicalize()?;
    configure(&source, &build)?;
    let jobs = available_parallelism().map_or(1, usize::from).to_string();
    let mut arguments = vec!["--build", text(&build)?, "--parallel", &jobs, "--target"];
    arguments.extend(TARGETS);
    ensure!(
        command::shown("cmake", &arguments)?,
        "DynamoRIO does not build"
    );
    let client = client(&build)?;
    let beside = |profile| paths::target().join(profile).join("recorder");
    let mut folders = PROFILES.map(beside).to_vec();
    if options.install {
        folders.push(Engine::users_folder().context("neither XDG_DATA_HOME nor HOME is set")?);
    }
    for folder in folders {
        fs::create_dir_all(&folder)?;
        place(&build.join("lib64/release/libdynamorio.so"), &folder)?;
        place(&client, &folder)?;
        place(&source.join("License.txt"), &folder)?;
        println!("the recorder is in {}", folder.display());
    }
    Ok(())
}

/// Where the source of DynamoRIO is. Cargo fetches it if need be.
fn source() -> Result<PathBuf> {
    let manifest = paths::root().join("recorder/engine/Cargo.toml");
    let mut cargo = Command::new(paths::cargo());
    cargo.args(["metadata", "--format-version", "1", "--locked"]);
    cargo.arg("--manifest-path").arg(&manifest);
    let outcome = command::captured(&mut cargo, Duration::from_secs(600))?;
    ensure!(
        outcome.success(),
        "cannot fetch the source of DynamoRIO: {}",
        outcome.stderr
    );
    let data: Value = serde_json::from_str(&outcome.stdout)?;
    let packages = data["packages"].as_array().context("no packages")?;
    let package = packages
        .iter()
        .find(|package| package["name"] == "dynamorio-sys");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.context("cargo does not say where dynamorio-sys is")?);
    let folder = manifest.parent().context("a manifest has no folder")?;
    Ok(folder.join("dynamorio"))
}

/// Configures the build once. A cache that names another source is of another version.
fn configure(source: &Path, build: &Path) -> Result<()> {
    let cache = fs::read_to_string(build.join("CMakeCache.txt")).unwrap_or_default();
    let built_from = format!("CMAKE_HOME_DIRECTORY:INTERNAL={}", text(source)?);
    if cache.contains(&built_from) && build.join("Makefile").exists() {
        return Ok(());
    }
    if !cache.is_empty() {
        fs::remove_dir_all(build)?;
        fs::create_dir_all(build)?;
    }
    let mut arguments = vec!["-S", text(source)?, "-B", text(build)?];
    arguments.extend([
        "-G",
        "Unix Makefiles",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_ASM_COMPILER=/usr/bin/as",
        "-DCMAKE_ASM_FLAGS=",
        "-DBUILD_CLIENTS=NO",
        "-DBUILD_DOCS=NO",
        "-DBUILD_SAMPLES=NO",
        "-DBUILD_TESTS=NO",
        "-DBUILD_TOOLS=NO",
    ]);
    ensure!(
        command::shown("cmake", &arguments)?,
        "DynamoRIO cannot be configured"
    );
    Ok(())
}

/// Builds our client.
fn client(build: &Path) -> Result<PathBuf> {
    let folder = build.join("client");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("wire.h"), header())?;
    let library = folder.join("libredhanded_recorder.so");
    let mut sources = Vec::new();
    for file in fs::read_dir(paths::root().join("recorder"))? {
        let path = file?.path().canonicalize()?;
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(text(&path)?.to_owned());
        }
    }
    sources.sort();
    let include = |folder: &str| Ok::<_, anyhow::Error>(format!("-I{}/{folder}", text(build)?));
    let find = |folder: &str| Ok::<_, anyhow::Error>(format!("-L{}/{folder}", text(build)?));
    let includes = [
        include("client")?,
        include("include")?,
        include("ext/include")?,
    ];
    let finds = [find("ext/lib64/release")?, find("lib64/release")?];
    let mut arguments = vec![
        "-O2",
        "-g",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        // DynamoRIO's own loader has no canary for it.
        "-fno-stack-protector",
        "-fvisibility=hidden",
        "-DUSE_VISIBILITY_ATTRIBUTES",
        "-DLINUX",
        "-DX86_64",
        "-Wl,--no-undefined",
        "-Wl,--hash-style=both",
        "-o",
        text(&library)?,
    ];
    arguments.extend(includes.iter().map(String::as_str));
    arguments.extend(sources.iter().map(String::as_str));
    arguments.extend(finds.iter().map(String::as_str));
    arguments.extend([
        "-ldrx_static",
        "-ldrreg_static",
        "-ldrmgr_static",
        "-ldrcontainers",
        "-ldynamorio",
    ]);
    ensure!(
        command::shown("gcc", &arguments)?,
        "the recorder's client does not build"
    );
    Ok(library)
}

/// The numbers of `redhanded_recording::wire` for C.
fn header() -> String {
    let mut header = String::from("/* Made from crates/recording/src/wire.rs. */\n");
    let magic = String::from_utf8_lossy(&CHUNK_MAGIC).into_owned();
    let mut define = |name: &str, value: &str| {
        let _ = writeln!(header, "#define WIRE_{} {value}", name.to_uppercase());
    };
    define("chunk_magic", &format!("\"{magic}\""));
    define("chunk_header_size", &CHUNK_HEADER_SIZE.to_string());
    define("longest_chunk", &LONGEST_CHUNK.to_string());
    define("most_processes", &MOST_PROCESSES.to_string());
    define("first_own", &FIRST_OWN.to_string());
    define("longest_own", &LONGEST_OWN.to_string());
    define("own_arguments", &OWN_ARGUMENTS.to_string());
    define("option_values", &format!("\"{OPTION_VALUES}\""));
    for (name, value) in [
        ("check_fresh", usize::from(check::FRESH)),
        ("check_opaque", usize::from(check::OPAQUE)),
        ("check_stopped", usize::from(check::STOPPED)),
        ("check_no_flags", usize::from(check::NO_FLAGS)),
        ("register_fs", register::FS),
        ("register_mxcsr", register::MXCSR),
        ("register_x87", register::X87),
        ("register_mask", register::MASK),
        ("register_st", register::ST),
        ("register_vector", register::VECTOR),
        ("registers", register::ALL),
    ] {
        define(name, &value.to_string());
    }
    for number in 0..=u8::MAX {
        if let Some(kind) = Kind::new(number) {
            define(&format!("{kind:?}"), &number.to_string());
        }
        if let Some(kind) = ChunkKind::new(number) {
            define(&format!("chunk_{kind:?}"), &number.to_string());
        }
    }
    let last = Function::ALL.iter().map(|function| *function as u16).max();
    let count = last.unwrap_or(0) + 1;
    define("functions", &count.to_string());
    for function in Function::ALL {
        define(
            &format!("function_{function:?}"),
            &(*function as u16).to_string(),
        );
    }
    header += "struct wire_function {\n    const char *symbol;\n    unsigned arguments;\n};\n";
    header += "__attribute__((unused)) static const struct wire_function \
               wire_functions[WIRE_FUNCTIONS] = {\n";
    for function in Function::ALL {
        let _ = writeln!(
            header,
            "    [{}] = {{ \"{}\", {} }},",
            *function as u16,
            function.symbol(),
            function.arguments()
        );
    }
    header += "};\n";
    header
}

/// Copies a file so that whoever has the old one open keeps it.
fn place(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("a file has no name")?;
    let draft = folder.join(".draft");
    fs::copy(file, &draft).with_context(|| format!("cannot copy {}", file.display()))?;
    // It is not used if others may write to it, whatever the umask says.
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
    fs::rename(&draft, folder.join(name))?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} has a name that is no text", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_every_kind_and_function() {
        let header = header();
        for line in [
            "#define WIRE_CHUNK_MAGIC \"RHRC\"",
            "#define WIRE_ATOMIC 4",
            "#define WIRE_FIRST_OWN 1024",
            "#define WIRE_SYSTEMRETURN 22",
            "#define WIRE_CHUNK_HELLO 1",
            "#define WIRE_OPTION_VALUES \"values\"",
            "#define WIRE_CHECK_STOPPED 4",
            "#define WIRE_REGISTER_VECTOR 128",
            "#define WIRE_FUNCTION_POSIXMEMALIGN 86",
            "    [1] = { \"pthread_mutex_lock\", 1 },",
            "    [70] = { \"pthread_create\", 3 },",
        ] {
            assert!(header.lines().any(|found| found == line), "{line}");
        }
    }
}
