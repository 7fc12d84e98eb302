//! Building loadable modules from C.

use super::find::on_path;
use super::{Provision, last_line, on_file, system, unsupported};
use crate::ProvisionError;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the one module whose C sources are in `source`. Its debug information
/// names these sources. All output goes to `out`.
///
/// # Errors
/// When there are no headers, or with the compiler's first error.
pub fn build_module(
    provision: &Provision,
    source: &Path,
    out: &Path,
) -> Result<PathBuf, ProvisionError> {
    let mut built = build_modules(provision, source, out)?;
    match (built.pop(), built.pop()) {
        (Some(module), None) => Ok(module),
        _ => Err(unsupported(format!(
            "{} does not build exactly one module",
            source.display(),
        ))),
    }
}

/// Builds the modules of a folder, and gives their paths in alphabetical order. A
/// Kbuild or Makefile names the modules; without one there is a module for each C
/// file.
///
/// # Errors
/// As [`build_module`].
pub fn build_modules(
    provision: &Provision,
    source: &Path,
    out: &Path,
) -> Result<Vec<PathBuf>, ProvisionError> {
    let Some(headers) = &provision.headers else {
        return Err(unsupported(format!(
            "the headers of {} are needed to build a module",
            provision.release,
        )));
    };
    fs::create_dir_all(out).map_err(on_file("create", out))?;
    let source = source.canonicalize().map_err(on_file("find", source))?;
    let out = out.canonicalize().map_err(on_file("find", out))?;
    let headers = headers.canonicalize().map_err(on_file("find", headers))?;
    for path in [&out, &headers, &source] {
        if path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|b| b" \t:#$%".contains(b))
        {
            return Err(unsupported(format!(
                "cannot build in {}: its path has characters that are special to make",
                path.display(),
            )));
        }
    }
    let tree = out.join(".kernel");
    make_tree(&headers, &tree)?;
    let work = out.join("modules");
    let made = link_sources(&source, &work, &out)?;
    if !made
        .iter()
        .any(|name| name == "Kbuild" || name == "Makefile")
    {
        let objects = made
            .iter()
            .filter_map(|name| name.to_str()?.strip_suffix(".c"));
        let objects: Vec<String> = objects.map(|name| format!("{name}.o")).collect();
        let kbuild = work.join("Kbuild");
        fs::write(&kbuild, format!("obj-m := {}\n", objects.join(" ")))
            .map_err(on_file("write", &kbuild))?;
    }
    make(&headers, &tree, &work, &source)?;
    let names = fs::read_dir(&work).map_err(on_file("list", &work))?;
    let paths = names.filter_map(|entry| Some(entry.ok()?.path()));
    let mut modules: Vec<PathBuf> = paths
        .filter(|path| path.extension() == Some(OsStr::new("ko")))
        .collect();
    modules.sort();
    Ok(modules)
}

/// Makes the folder that make is started in: links to everything in the headers'
/// folder, except the Makefile, which refers to `/usr/src` and is rewritten.
fn make_tree(headers: &Path, tree: &Path) -> Result<(), ProvisionError> {
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(on_file("read", &makefile))?;
    let beside = headers.parent().unwrap_or(headers);
    fs::create_dir_all(tree).map_err(on_file("create", tree))?;
    let names = fs::read_dir(headers).map_err(on_file("list", headers))?;
    for name in names {
        let name = name.map_err(on_file("list", headers))?.file_name();
        // With a vmlinux the build would make type information for the module,
        // for which it needs pahole.
        if name != "Makefile" && (name != "vmlinux" || on_path("pahole")) {
            link(&headers.join(&name), &tree.join(&name))?;
        }
    }
    let makefile = tree.join("Makefile");
    fs::write(&makefile, moved(&text, beside)).map_err(on_file("write", &makefile))
}

/// The Makefile with another folder in place of `/usr/src/`.
fn moved(makefile: &str, beside: &Path) -> String {
    makefile.replace("/usr/src/", &format!("{}/", beside.display()))
}

/// Makes links to the sources, because make writes beside them. Gives the names of
/// the files at the top.
fn link_sources(from: &Path, to: &Path, out: &Path) -> Result<Vec<OsString>, ProvisionError> {
    fs::create_dir_all(to).map_err(on_file("create", to))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(on_file("list", from))? {
        let entry = entry.map_err(on_file("list", from))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path == *out || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            link_sources(&path, &to.join(&name), out)?;
        } else {
            link(&path, &to.join(&name))?;
            names.push(name);
        }
    }
    Ok(names)
}

fn link(to: &Path, at: &Path) -> Result<(), ProvisionError> {
    if fs::read_link(at).is_ok_and(|old| old == *to) {
        return Ok(());
    }
    // Only a link of an earlier build can be there.
    drop(fs::remove_file(at));
    symlink(to, at).map_err(on_file("link", at))
}

fn make(headers: &Path, tree: &Path, work: &Path, source: &Path) -> Result<(), ProvisionError> {
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(tree)
        .arg(format!("M={}", work.display()))
        // Relative includes are looked up beside the source, not the link.
        .arg(format!(
            "KCFLAGS=-g -I{source} -fdebug-prefix-map={}={source}",
            work.display(),
            source = source.display(),
        ))
        .arg("modules")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    // If a make has started us, its flags are not meant for this one.
    for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"] {
        command.env_remove(name);
    }
    let variables = fs::read_to_string(headers.join(".kernelvariables")).unwrap_or_default();
    if wanted_compiler(&variables).is_some_and(|name| !on_path(&name)) {
        command.arg("CC=gcc");
    }
    let output = command.output().map_err(system("cannot run make"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error:"));
    let error = error.map_or_else(|| last_line(said.as_bytes()), str::to_owned);
    let source = source.display();
    Err(unsupported(format!("cannot build {source}: {error}")))
}

/// The name of the compiler that the kernel was built with, such as `gcc-12`.
fn wanted_compiler(variables: &str) -> Option<String> {
    let line = variables.lines().find(|line| line.starts_with("CC "))?;
    let name = &line[line.rfind("gcc")?..];
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_makefile_refers_to_the_unpacked_headers() {
        let text = "include /usr/src/linux-headers-6.1.0-54-common/Makefile\n";
        let expected = "include /cache/usr/src/linux-headers-6.1.0-54-common/Makefile\n";
        assert_eq!(moved(text, Path::new("/cache/usr/src")), expected);
    }

    #[test]
    fn the_kernels_own_compiler_is_found() {
        let text = "override ARCH = x86\nCCACHE = ccache\n\
            CC = $(if $(USE),$(CCACHE)) $(CROSS_COMPILE)gcc-12\n";
        assert_eq!(wanted_compiler(text).as_deref(), Some("gcc-12"));
        assert_eq!(wanted_compiler("CC = cc\n"), None);
    }

    #[test]
    fn sources_are_linked_and_the_output_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("part")).unwrap();
        fs::write(source.join("a.c"), "a").unwrap();
        fs::write(source.join("part/b.h"), "b").unwrap();
        let out = source.join("out");
        for _ in 0..2 {
            let mut names = link_sources(&source, &out.join("modules"), &out).unwrap();
            names.sort();
            assert_eq!(names, ["a.c"]);
        }
        let linked = fs::read_to_string(out.join("modules/part/b.h")).unwrap();
        assert_eq!(linked, "b");
        assert!(!out.join("modules/out").exists());
    }
}
