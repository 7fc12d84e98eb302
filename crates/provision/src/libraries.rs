//! The shared libraries and interpreters that a program of the host needs.
//!
//! They are read from its headers and looked up as the dynamic loader would. Nothing
//! is executed, as `ldd` would do: the program may be anybody's.

use super::host_files::{Chooser, Room};
use super::{on_file, unsupported};
use crate::ProvisionError;
use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, EM_386, EM_X86_64};
use object::elf::{ELFCLASS32, FileHeader32, FileHeader64};
use object::read::StringTable;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// No program needs more libraries, and no loader searches more folders for one.
const MOST: usize = 4096;
/// As long as a path may be (`PATH_MAX`).
const LONGEST: usize = 4096;
/// What [`companions`] reads of all of them together at most.
const ROOM: u64 = 1 << 30;

/// The shared libraries and the loader of a program, or the interpreter of a script
/// with its own libraries. In the guest they have to be where they are on the host.
///
/// # Errors
/// When a library is not found.
pub fn companions(program: &Path) -> Result<Vec<PathBuf>, ProvisionError> {
    let mut room = Room::new(ROOM);
    let (file, chooser) = Chooser::CALLER
        .open(program)
        .map_err(on_file("open", program))?;
    let contents = room.read(file).map_err(on_file("read", program))?;
    let mut paths = Vec::new();
    let program = Program {
        path: program,
        contents: &contents,
        chooser: &chooser,
    };
    program.companions(&mut |path, file| {
        paths.push(path.to_owned());
        room.read(file).map_err(on_file("read", path))
    })?;
    Ok(paths)
}

/// A program that was read.
pub struct Program<'a> {
    pub path: &'a Path,
    pub contents: &'a [u8],
    /// Who chose what is in it.
    pub chooser: &'a Chooser,
}

/// Takes each companion, and gives its contents.
type Take<'a> = &'a mut dyn FnMut(&Path, &File) -> Result<Vec<u8>, ProvisionError>;

impl Program<'_> {
    /// Hands over what it needs.
    pub fn companions(&self, take: Take<'_>) -> Result<(), ProvisionError> {
        let Some(path) = interpreter(self.contents) else {
            return self.libraries(take);
        };
        // Without its interpreter a script does not run on the host either.
        let opened = self.chooser.open(&path);
        let Some((file, chooser)) = opened.ok().filter(|(file, _)| is_executable(file)) else {
            return Ok(());
        };
        let contents = take(&path, &file)?;
        let interpreter = Program {
            path: &path,
            contents: &contents,
            chooser: &chooser,
        };
        interpreter.libraries(take)
    }

    /// Follows the dependencies breadth first, as the loader does.
    fn libraries(&self, take: Take<'_>) -> Result<(), ProvisionError> {
        let real = self.chooser.with(|| self.path.canonicalize());
        let real = real.map_err(on_file("find", self.path))?;
        let Some(main) = read(&real, self.contents) else {
            return Ok(());
        };
        let kind = main.kind;
        let mut known = BTreeSet::new();
        let mut is_musl = false;
        if let Some(loader) = &main.loader {
            // Without its loader a program does not run on the host either.
            let Ok((file, _)) = self.chooser.open(loader) else {
                return Ok(());
            };
            if !is_of_kind(&file, kind) {
                return Ok(());
            }
            take(loader, &file)?;
            let name = loader.file_name().unwrap_or_default();
            is_musl = name.as_bytes().starts_with(b"ld-musl");
            known.insert(name.to_owned());
        }
        let defaults = default_folders(is_musl);
        let variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let variable: Vec<PathBuf> = env::split_paths(&variable)
            .filter(|path| path.is_absolute())
            .collect();
        let mut queue = VecDeque::from([(main, Vec::new(), self.chooser.clone())]);
        while let Some((object, inherited, chooser)) = queue.pop_front() {
            let mut rpath = object.rpath;
            rpath.extend(inherited);
            rpath.truncate(MOST);
            for name in object.needed {
                // musl's loader is the C library as well.
                let is_loader = is_musl && name.as_bytes().starts_with(b"libc.");
                if is_loader || !known.insert(name.clone()) {
                    continue;
                }
                let old = object.runpath.is_none().then_some(&rpath);
                let folders = old.into_iter().flatten().chain(&variable);
                let folders = folders.chain(object.runpath.iter().flatten());
                // A name with a slash is a path, which replaces the folder.
                let mut paths = folders.chain(&defaults).map(|folder| folder.join(&name));
                let library = paths.find_map(|path| {
                    let (file, chooser) = chooser.open(&path).ok()?;
                    is_of_kind(&file, kind).then_some((path, file, chooser))
                });
                let Some((path, file, chooser)) = library.filter(|_| known.len() <= MOST) else {
                    return Err(unsupported(format!(
                        "{} needs {}, which is not found",
                        self.path.display(),
                        name.display(),
                    )));
                };
                let contents = take(&path, &file)?;
                if let Some(dynamic) = read(&path, &contents) {
                    queue.push_back((dynamic, rpath.clone(), chooser));
                }
            }
        }
        Ok(())
    }
}

/// The interpreter in a script's first line, if the guest's busybox does not stand in for it.
fn interpreter(contents: &[u8]) -> Option<PathBuf> {
    let head = contents.get(..256).unwrap_or(contents);
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace);
    let word = words.find(|word| !word.is_empty())?;
    let path = Path::new(OsStr::from_bytes(word));
    let shell = matches!(path.to_str(), Some("/bin/sh" | "/usr/bin/env"));
    (!shell).then(|| path.to_owned())
}

fn is_executable(file: &File) -> bool {
    let mode = file.metadata().map(|about| about.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o111 != 0)
}

/// Word size and machine.
type Kind = (u8, u16);

/// What the headers of a program or library say about linking.
#[derive(Default)]
struct Dynamic {
    /// Libraries of another kind are skipped.
    kind: Kind,
    loader: Option<PathBuf>,
    needed: Vec<OsString>,
    /// Also searched for the libraries of its libraries.
    rpath: Vec<PathBuf>,
    /// Searched for its own libraries only. It makes the loader ignore `rpath`.
    runpath: Option<Vec<PathBuf>>,
}

/// Whether the first bytes of a file are those of an ELF file of this kind.
fn is_of_kind(file: &File, kind: Kind) -> bool {
    let mut head = [0; 20];
    let read = file.read_exact_at(&mut head, 0);
    let machine = u16::from_le_bytes([head[18], head[19]]);
    read.is_ok() && head.starts_with(b"\x7fELF") && (head[4], machine) == kind
}

/// Reads the headers of a linked ELF file for x86; `None` for any other file.
fn read(path: &Path, contents: &[u8]) -> Option<Dynamic> {
    let folder = path.parent()?;
    match *contents.get(4)? {
        ELFCLASS32 => read_headers::<FileHeader32<Endianness>>(contents, folder),
        _ => read_headers::<FileHeader64<Endianness>>(contents, folder),
    }
}

fn read_headers<Elf: FileHeader<Endian = Endianness>>(
    data: &[u8],
    origin: &Path,
) -> Option<Dynamic> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let machine = header.e_machine(endian);
    let segments = header.program_headers(endian, data).ok()?;
    let mut dynamic = Dynamic {
        kind: (header.e_ident().class, machine),
        ..Dynamic::default()
    };
    let mut entries: &[Elf::Dyn] = &[];
    for segment in segments {
        if let Ok(Some(loader)) = segment.interpreter(endian, data) {
            dynamic.loader = Some(PathBuf::from(OsStr::from_bytes(loader)));
        }
        if let Ok(Some(found)) = segment.dynamic(endian, data) {
            entries = found;
        }
    }
    if entries.is_empty() || !matches!(machine, EM_386 | EM_X86_64) {
        return None;
    }
    let value = |tag| {
        let entry = entries.iter().find(|entry| entry.tag(endian) == tag)?;
        Some(entry.val(endian))
    };
    let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let start = segments.iter().find_map(|segment| {
        let offset = address.checked_sub(segment.p_vaddr(endian).into())?;
        let is_inside = segment.p_type(endian) == object::elf::PT_LOAD
            && offset < segment.p_filesz(endian).into();
        is_inside.then(|| offset.checked_add(segment.p_offset(endian).into()))?
    })?;
    let strings = StringTable::new(data, start, start.checked_add(size)?);
    for entry in entries.iter().take_while(|entry| entry.tag(endian) != 0) {
        let tag = entry.tag(endian);
        if !matches!(tag, DT_NEEDED | DT_RPATH | DT_RUNPATH) {
            continue;
        }
        let Ok(text) = entry.string(endian, strings) else {
            continue;
        };
        match tag {
            // Many entries can share one long name.
            DT_NEEDED if text.len() > LONGEST || dynamic.needed.len() > MOST => return None,
            DT_NEEDED => dynamic.needed.push(OsStr::from_bytes(text).to_owned()),
            DT_RPATH => dynamic.rpath = folders(text, origin),
            DT_RUNPATH => dynamic.runpath = Some(folders(text, origin)),
            _ => {}
        }
    }
    Some(dynamic)
}

/// The folders of a search path. `$ORIGIN` is the folder of the file that has it.
fn folders(path: &[u8], origin: &Path) -> Vec<PathBuf> {
    let paths = path.split(|byte| *byte == b':').filter_map(|part| {
        let rest = part
            .strip_prefix(b"$ORIGIN")
            .or_else(|| part.strip_prefix(b"${ORIGIN}"));
        let whole = match rest {
            Some(rest) => [origin.as_os_str().as_bytes(), rest].concat(),
            None => part.to_vec(),
        };
        Some(PathBuf::from(OsString::from_vec(whole))).filter(|path| path.is_absolute())
    });
    paths.take(MOST).collect()
}

/// Where a loader looks last. glibc's has a cache of these folders' files.
fn default_folders(is_musl: bool) -> Vec<PathBuf> {
    if is_musl {
        let set = fs::read("/etc/ld-musl-x86_64.path").unwrap_or_default();
        let mut set = set.split(|byte| b":\n".contains(byte)).peekable();
        return match set.peek() {
            Some([_, ..]) => set.map(|part| OsStr::from_bytes(part).into()).collect(),
            _ => ["/lib", "/usr/local/lib", "/usr/lib"]
                .map(PathBuf::from)
                .into(),
        };
    }
    let mut folders = Vec::new();
    configured(Path::new("/etc/ld.so.conf"), &mut folders, 0);
    let built_in = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
        "/lib32",
        "/usr/lib32",
    ];
    folders.extend(built_in.map(PathBuf::from));
    folders
}

/// The folders that a file of ldconfig lists, with the files that it includes.
fn configured(file: &Path, folders: &mut Vec<PathBuf>, depth: u32) {
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(pattern) = line.strip_prefix("include ") else {
            folders.extend(line.starts_with('/').then(|| PathBuf::from(line)));
            continue;
        };
        // As in `ld.so.conf.d/*.conf`, beside the file itself.
        let pattern = file.with_file_name("").join(pattern.trim());
        let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
            continue;
        };
        let name = name.to_string_lossy();
        let (start, end) = name.split_once('*').unwrap_or((&name, ""));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(start) && name.ends_with(end)
        });
        files.sort();
        for file in files.iter().filter(|_| depth < 8) {
            configured(file, folders, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn names(files: &[PathBuf]) -> BTreeSet<&OsStr> {
        files.iter().filter_map(|path| path.file_name()).collect()
    }

    /// Builds in `folder`, with a program of one line or a library of none.
    fn gcc(folder: &Path, output: &str, words: &[&str]) {
        fs::write(folder.join("empty.c"), "").unwrap();
        fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
        let mut command = Command::new("gcc");
        command
            .args(["-Wl,--no-as-needed", "-o", output])
            .args(words);
        assert!(command.current_dir(folder).status().unwrap().success());
    }

    #[test]
    fn libraries_are_those_that_the_loader_finds() {
        let own = env::current_exe().unwrap();
        for program in [&own, Path::new("/usr/bin/apt-get"), Path::new("/bin/bash")] {
            let found = companions(program).unwrap();
            let said = Command::new("ldd").arg(program).output().unwrap().stdout;
            let said = String::from_utf8(said).unwrap();
            let said: Vec<PathBuf> = said
                .split_whitespace()
                .filter(|word| word.starts_with('/'))
                .map(PathBuf::from)
                .collect();
            assert!(said.len() > 1, "{said:?}");
            let resolve = |files: &[PathBuf]| -> BTreeSet<PathBuf> {
                files
                    .iter()
                    .map(|path| path.canonicalize().unwrap())
                    .collect()
            };
            assert_eq!(resolve(&found), resolve(&said), "{}", program.display());
        }
    }

    #[test]
    fn search_paths_are_followed_and_inherited() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for below in ["old", "new"] {
            fs::create_dir(folder.join(below)).unwrap();
        }
        let shared = ["-shared", "-nostdlib", "empty.c"];
        gcc(folder, "old/libdeep.so", &shared);
        gcc(
            folder,
            "old/libtop.so",
            &[&shared[..], &["-Lold", "-ldeep"]].concat(),
        );
        gcc(folder, "new/libnext.so", &shared);
        gcc(
            folder,
            "new/libfirst.so",
            &[&shared[..], &["-Lnew", "-lnext"]].concat(),
        );
        let program = |name: &str, words: &[&str]| {
            gcc(folder, name, &[&["main.c"], words].concat());
            companions(&folder.join(name))
        };
        let old = [
            "-Lold",
            "-ltop",
            "-Wl,--disable-new-dtags,-rpath,$ORIGIN/old",
        ];
        let found = program("inherits", &[&old[..], &["-Wl,-rpath-link,old"]].concat()).unwrap();
        assert!(found.contains(&folder.canonicalize().unwrap().join("old/libdeep.so")));
        let new = [
            "-Lnew",
            "-lfirst",
            "-Wl,-rpath-link,new",
            "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/new",
        ];
        let error = program("does-not", &new).unwrap_err().to_string();
        assert!(error.contains("libnext.so"), "a RUNPATH is not: {error}");
        let found = program("named", &[&new[..], &["-lnext"]].concat()).unwrap();
        assert!(names(&found).contains(OsStr::new("libnext.so")));
    }

    #[test]
    fn a_loader_is_an_elf_file_and_is_not_executed() {
        let folder = tempfile::tempdir().unwrap();
        let (loader, ran) = (folder.path().join("loader"), folder.path().join("ran"));
        let option = format!("-Wl,--dynamic-linker={}", loader.display());
        gcc(folder.path(), "program", &["main.c", &option]);
        let program = folder.path().join("program");
        let script = format!("#!/bin/sh\ntouch {}\n", ran.display());
        let libc = Path::new("/proc/self/exe");
        for (contents, is_loader) in [
            (script.into_bytes(), false),
            (fs::read(libc).unwrap(), true),
        ] {
            fs::write(&loader, contents).unwrap();
            fs::set_permissions(&loader, fs::Permissions::from_mode(0o755)).unwrap();
            let found = companions(&program).unwrap();
            assert_eq!(found.contains(&loader), is_loader);
            assert_eq!(names(&found).contains(OsStr::new("libc.so.6")), is_loader);
            assert!(!ran.exists());
        }
        // Nor does anything else get into the guest, or keep us waiting.
        fs::remove_file(&loader).unwrap();
        let made = Command::new("mkfifo").arg(&loader).status();
        assert!(made.unwrap().success());
        assert!(companions(&program).unwrap().is_empty());
        fs::remove_file(&loader).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &loader).unwrap();
        assert!(companions(&program).unwrap().is_empty());
    }

    #[test]
    fn nothing_of_a_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // The loader runs an audit library even where it only lists what a program needs.
        let source = format!(
            "#include <fcntl.h>\nunsigned la_version(unsigned version) {{ return version; }}\n\
             __attribute__((constructor)) static void run(void) {{ open(\"{}\", O_CREAT, 0600); }}\n",
            at("ran").display()
        );
        fs::write(at("audit.c"), source).unwrap();
        gcc(folder.path(), "audit.so", &["-shared", "-fPIC", "audit.c"]);
        let option = format!("-Wl,--audit={}", at("audit.so").display());
        gcc(folder.path(), "program", &["main.c", &option]);
        companions(&at("program")).unwrap();
        assert!(!at("ran").exists());
        let mut listed = Command::new(at("program"));
        listed.env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
        if !at("ran").exists() {
            println!("this loader runs no audit libraries, so nothing was tested");
        }
    }

    #[test]
    fn other_files_have_no_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        // Cut anywhere, and with every header field in turn set to its limits.
        let mut files = vec![
            b"text".to_vec(),
            b"\x7fELF\x02\x01\x01 lies".to_vec(),
            Vec::new(),
        ];
        files.extend([17, 64, 100, 1000].map(|length| own[..length].to_vec()));
        for at in 4..400 {
            let mut bytes = own[..4096].to_vec();
            bytes[at] = 0xff;
            files.push(bytes);
        }
        for bytes in files {
            fs::write(&file, bytes).unwrap();
            drop(companions(&file));
        }
        gcc(folder.path(), "static", &["-static-pie", "main.c"]);
        assert_eq!(companions(&folder.path().join("static")).unwrap().len(), 0);
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), None, "busybox has it");
        assert_eq!(interpreter(b"\x7fELF"), None);
        let ldd = interpreter(b"#! /usr/bin/ldd -x\n");
        assert_eq!(ldd, Some(PathBuf::from("/usr/bin/ldd")));
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let brings = |interpreter: &Path| {
            fs::write(at("script"), format!("#!{}\n", interpreter.display())).unwrap();
            companions(&at("script")).unwrap()
        };
        assert_eq!(brings(Path::new("/absent/shell")), [] as [&Path; 0]);
        assert!(brings(Path::new("/bin/bash")).contains(&PathBuf::from("/bin/bash")));
        fs::write(at("secret"), "not to be executed").unwrap();
        assert_eq!(brings(&at("secret")), [] as [&Path; 0]);
    }
}
