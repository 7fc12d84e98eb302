//! Debug information in other files.

use super::compile::{Built, build, run, separate};
use object::{Object, ObjectSymbol};
use redhanded_image::{DebugInfo, DebugSearch};
use redhanded_model::Svma;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A stripped program, where its variable `list` and `bump` are, and its debug file.
fn stripped() -> (Built, Svma, Svma, PathBuf) {
    let built = build("variables.c", &["-g", "-O1", "-Wl,--build-id=sha1"]);
    let (list, bump) = (built.symbol("list"), built.symbol("bump"));
    separate(&built, "program.debug");
    let debug = built.folder.path().join("program.debug");
    (built, list, bump, debug)
}

fn debug(built: &Built, root: &Path) -> DebugInfo {
    DebugInfo::new(
        &built.image(),
        DebugSearch {
            roots: vec![root.to_owned()],
            ..DebugSearch::nowhere()
        },
    )
}

/// Checks that everything is told from the file at `source`.
fn check(built: &Built, root: &Path, (list, bump): (Svma, Svma), source: &Path) {
    let debug = debug(built, root);
    assert_eq!(debug.source(), Some(source));
    let variable = debug.variable_at(list.offset(8)).unwrap();
    assert_eq!(variable.name, "list");
    assert_eq!(variable.part(8, 8).path, ".next");
    let frames = debug.frames(bump);
    assert_eq!(frames[0].function.as_deref(), Some("bump"));
    assert!(frames[0].line.is_some());
}

fn move_to(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, to).unwrap();
}

#[test]
fn by_link_beside_the_file_or_below_it() {
    let (built, list, bump, file) = stripped();
    let folder = built.folder.path().canonicalize().unwrap();
    let nowhere = folder.join("nowhere");
    check(
        &built,
        &nowhere,
        (list, bump),
        &folder.join("program.debug"),
    );
    let below = folder.join(".debug/program.debug");
    move_to(&file, &below);
    check(&built, &nowhere, (list, bump), &below);
}

#[test]
fn by_link_under_a_root() {
    let (built, list, bump, file) = stripped();
    let folder = built.folder.path().canonicalize().unwrap();
    let root = folder.join("root");
    let there = root
        .join(folder.strip_prefix("/").unwrap())
        .join("program.debug");
    move_to(&file, &there);
    check(&built, &root, (list, bump), &there);
}

/// A stripped library names what it exports, as far as it says where that ends.
#[test]
fn exported_functions_keep_their_names() {
    let built = build("exported.c", &["-O1", "-shared", "-fPIC"]);
    let at = |name: &str| built.symbol(name);
    let places = ["own", "sized", "sizeless", "behind"].map(at);
    let told = || {
        let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
        places.map(|place| debug.frames(place).pop()?.function)
    };
    let all = ["own", "sized", "sizeless", "behind"].map(|name| Some(name.to_owned()));
    assert_eq!(told(), all);
    run(Command::new("strip").arg(&built.program));
    let [_, sized, ..] = all;
    assert_eq!(told(), [None, sized, None, None]);
}

/// Where debuggers look for the debug file of a build id, below their folder.
fn build_id_path(built: &Built) -> String {
    let image = built.image();
    let id = image.build_id().unwrap().iter();
    let id: String = id.map(|byte| format!("{byte:02x}")).collect();
    format!(".build-id/{}/{}.debug", &id[..2], &id[2..])
}

#[test]
fn by_build_id() {
    let (built, list, bump, file) = stripped();
    let root = built.folder.path().join("root");
    let there = root.join(build_id_path(&built));
    move_to(&file, &there);
    check(&built, &root, (list, bump), &there);
}

#[test]
fn a_fifo_in_the_place_of_the_debug_file_is_passed_over() {
    let (built, _, bump, file) = stripped();
    let root = built.folder.path().join("root");
    let by_id = root.join(build_id_path(&built));
    std::fs::create_dir_all(by_id.parent().unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    run(Command::new("mkfifo").arg(&file).arg(&by_id));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let debug = debug(&built, &root);
        tell.send((debug.available(), debug.frames(bump))).unwrap();
    });
    let found = told.recv_timeout(std::time::Duration::from_secs(60));
    assert_eq!(found.expect("it waits for the FIFO"), (false, vec![]));
}

#[test]
fn what_belongs_to_another_build_is_not_used() {
    let (built, _, bump, file) = stripped();
    // The same length, another checksum.
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let root = built.folder.path().join("root");
    assert!(!debug(&built, &root).available());
    let there = root.join(build_id_path(&built));
    let other = build("variables.cc", &["-g", "-Wl,--build-id=sha1"]);
    std::fs::create_dir_all(there.parent().unwrap()).unwrap();
    std::fs::copy(&other.program, &there).unwrap();
    assert!(!debug(&built, &root).available());
    assert!(debug(&built, &root).frames(bump).is_empty());
}

#[test]
fn a_stripped_library_has_its_dynamic_symbols() {
    let built = build("variables.c", &["-g", "-shared", "-fPIC"]);
    run(Command::new("strip").arg(&built.program));
    let data = std::fs::read(&built.program).unwrap();
    let object = object::File::parse(&*data).unwrap();
    let find = |name| {
        object
            .dynamic_symbols()
            .find(|s| s.name() == Ok(name))
            .unwrap()
            .address()
    };
    let debug = debug(&built, Path::new("/nonexistent"));
    assert!(!debug.available());
    let grid = debug.variable_at(Svma(find("grid") + 4)).unwrap();
    assert_eq!((grid.name.as_str(), grid.is_typed()), ("grid", false));
    let frames = debug.frames(Svma(find("bump") + 1));
    assert_eq!(frames[0].function.as_deref(), Some("bump"));
}

#[test]
fn split_debug_information_is_left_out_gracefully() {
    let built = build("variables.c", &["-g", "-gsplit-dwarf"]);
    let (list, bump) = (built.symbol("list"), built.symbol("bump"));
    let debug = debug(&built, Path::new("/nonexistent"));
    // The skeleton has lines, but neither functions nor variables.
    let frames = debug.frames(bump);
    assert_eq!(frames.last().unwrap().function.as_deref(), Some("bump"));
    assert!(frames[0].line.is_some());
    assert_eq!(debug.variable_at(list).unwrap().name, "list");
}
