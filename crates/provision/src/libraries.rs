//! What a program of the host needs beside itself to run in the guest.

use super::{on_file, unsupported};
use crate::ProvisionError;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shared libraries and the loader of a program, or the interpreter of a
/// script with its own; where they are on the host is where they have to be in
/// the guest.
///
/// # Errors
/// When a library is not to be found.
pub fn companions(program: &Path) -> Result<Vec<PathBuf>, ProvisionError> {
    let mut head = Vec::new();
    let file = File::open(program).map_err(on_file("open", program))?;
    file.take(256)
        .read_to_end(&mut head)
        .map_err(on_file("read", program))?;
    if let Some(interpreter) = interpreter(&head) {
        let mut found = libraries(&interpreter)?;
        found.push(interpreter);
        return Ok(found);
    }
    // Programs and shared objects; not what is still to be linked, as modules are.
    let linked = head.starts_with(b"\x7fELF") && matches!(head.get(16), Some(2 | 3));
    if linked {
        libraries(program)
    } else {
        Ok(Vec::new())
    }
}

/// The interpreter that a script names in its first line, where the host has it
/// and the guest's busybox is none.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace);
    let word = words.find(|word| !word.is_empty())?;
    let path = Path::new(OsStr::from_bytes(word));
    let shell = matches!(path.to_str(), Some("/bin/sh" | "/usr/bin/env"));
    (!shell && path.is_file()).then(|| path.to_owned())
}

/// Asks the loader, which alone knows where it would look.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, ProvisionError> {
    let ran = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    let output = match ran {
        Ok(output) => output,
        Err(why) => return Err(on_file("run ldd on", program)(why)),
    };
    // A static program has no libraries, and ldd calls that an error.
    if !output.status.success() {
        return Ok(Vec::new());
    }
    read_list(&output.stdout).map_err(|name| {
        unsupported(format!(
            "{} needs {name}, which is not to be found",
            program.display(),
        ))
    })
}

/// The files in what ldd printed, or the name of one that it did not find.
fn read_list(printed: &[u8]) -> Result<Vec<PathBuf>, String> {
    let text = String::from_utf8_lossy(printed);
    let mut files = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place.starts_with("not found") {
            return Err(name.to_owned());
        }
        // The address comes last, in brackets; the kernel's own has no file.
        let place = place.rsplit_once(" (").map_or(place, |(place, _)| place);
        if place.starts_with('/') {
            files.push(PathBuf::from(place));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_read() {
        let printed = b"\tlinux-vdso.so.1 (0x00007ffc)\n\
            \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f01)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        let files = [
            "/lib/x86_64-linux-gnu/libm.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(read_list(printed).unwrap(), files.map(PathBuf::from));
        let missing = read_list(b"\tlibodd.so.1 => not found\n");
        assert_eq!(missing.unwrap_err(), "libodd.so.1");
        assert_eq!(read_list(b"\tstatically linked\n").unwrap().len(), 0);
        assert_eq!(read_list(b"\xff (\n => \n (").unwrap().len(), 0);
    }

    #[test]
    fn a_dynamic_program_brings_its_loader() {
        let own = companions(&std::env::current_exe().unwrap()).unwrap();
        let names = own.iter().filter_map(|path| path.file_name()?.to_str());
        assert!(names.clone().any(|name| name.starts_with("libc.so")));
        assert!(names.clone().any(|name| name.starts_with("ld-")), "{own:?}");
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), None, "busybox has it");
        assert_eq!(interpreter(b"#! /absent/shell -x\n"), None);
        assert_eq!(interpreter(b"\x7fELF"), None);
        let ldd = interpreter(b"#! /usr/bin/ldd -x\n");
        assert_eq!(ldd, Some(PathBuf::from("/usr/bin/ldd")));
    }
}
