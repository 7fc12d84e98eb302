//! Small object files and libraries, compiled by the test that looks at them.

use redhanded_image::{Image, link};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// How kernels compile C.
pub const KERNEL: [&str; 8] = [
    "-c",
    "-g",
    "-O2",
    "-mcmodel=kernel",
    "-fno-pic",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-fno-stack-protector",
];

/// Makes a file one of a kernel's.
pub const MARK: &str = "__attribute__((section(\".modinfo\"), used)) static const char license[] = \"license=none\";\n";

/// A folder with a compiled file.
pub struct Built {
    pub folder: TempDir,
    pub path: PathBuf,
}

/// Compiles `source`, in a file of this name, with `flags`.
pub fn compile(source: &str, name: &str, flags: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join(name);
    let path = folder.path().join("built");
    std::fs::write(&input, source).unwrap();
    run(Command::new("gcc")
        .args(flags)
        .arg("-o")
        .arg(&path)
        .arg(&input));
    Built { folder, path }
}

pub fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Built {
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub fn image(&self) -> Image {
        Image::open(&self.path).unwrap()
    }

    /// Links it with sections at these addresses.
    pub fn linked(&self, sections: &[(&str, u64)]) -> Image {
        let linked = link(&self.bytes(), &places(sections), None, &|_| None).unwrap();
        open(self.folder.path(), &linked)
    }
}

pub fn places(sections: &[(&str, u64)]) -> Vec<(String, u64)> {
    sections
        .iter()
        .map(|(name, address)| ((*name).to_owned(), *address))
        .collect()
}

/// Writes a linked module and opens it.
pub fn open(folder: &Path, bytes: &[u8]) -> Image {
    let path = folder.join("linked");
    std::fs::write(&path, bytes).unwrap();
    Image::open(&path).unwrap()
}

/// The start of a function.
pub fn start(image: &Image, name: &str) -> u64 {
    let functions = image.functions().as_slice();
    let mut found = functions
        .iter()
        .filter(|function| function.name.as_deref() == Some(name));
    found
        .next()
        .unwrap_or_else(|| panic!("no function {name}"))
        .start
        .0
}

/// The instructions of a function with the text of each.
pub fn instructions(image: &Image, name: &str) -> Vec<(u64, String)> {
    let start = start(image, name);
    let end = image.function_at(redhanded_model::Svma(start)).unwrap().end;
    let mut at = start;
    let mut found = Vec::new();
    while at < end.0 {
        let instruction = image.instruction_at(redhanded_model::Svma(at)).unwrap();
        found.push((at, instruction.text()));
        at = instruction.next();
    }
    found
}

/// The only instruction of a function whose text contains `text`.
pub fn one(image: &Image, function: &str, text: &str) -> u64 {
    let all = instructions(image, function);
    let mut found = all.iter().filter(|(_, told)| told.contains(text));
    let (at, _) = found
        .next()
        .unwrap_or_else(|| panic!("no {text} in {all:#?}"));
    assert_eq!(found.next(), None, "several {text}");
    *at
}
