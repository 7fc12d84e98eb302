//! Small programs, compiled by the test that looks at them.

use redhanded_image::Image;
use redhanded_model::{Site, Svma};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A built file that lives as long as its image is looked at.
pub struct Built {
    pub image: Image,
    pub path: PathBuf,
    folder: TempDir,
}

/// Compiles `source`, C or (with extension "S") assembly, with `flags`.
pub fn build(source: &str, extension: &str, flags: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join(format!("source.{extension}"));
    let path = folder.path().join("built");
    std::fs::write(&input, source).unwrap();
    run(Command::new("gcc")
        .arg(&input)
        .arg("-o")
        .arg(&path)
        .args(flags));
    let image = Image::open(&path).unwrap();
    Built {
        image,
        path,
        folder,
    }
}

pub fn c(source: &str, flags: &[&str]) -> Built {
    build(source, "c", flags)
}

/// A shared library of assembly: nothing in it but what is written.
pub fn assembly(source: &str) -> Built {
    let source = format!(".intel_syntax noprefix\n{source}\n.section .note.GNU-stack,\"\"\n");
    build(&source, "S", &["-shared", "-nostdlib"])
}

pub fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}; install gcc"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Built {
    /// The same file without its symbol table.
    pub fn stripped(&self) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stripped");
        run(Command::new("strip").arg("-o").arg(&path).arg(&self.path));
        Built {
            image: Image::open(&path).unwrap(),
            path,
            folder,
        }
    }

    /// The same file with its bytes changed.
    pub fn edited(&self, edit: impl FnOnce(&mut Vec<u8>)) -> Built {
        let mut bytes = std::fs::read(&self.path).unwrap();
        edit(&mut bytes);
        let path = self.folder.path().join("edited");
        std::fs::write(&path, bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Built {
            image: Image::open(&path).unwrap(),
            path,
            folder,
        }
    }

    pub fn start(&self, function: &str) -> Svma {
        self.image
            .functions()
            .as_slice()
            .iter()
            .find(|f| f.name.as_deref() == Some(function))
            .unwrap_or_else(|| panic!("no function {function} in {}", show(&self.image)))
            .start
    }

    /// The sites of the function that starts at `start`.
    pub fn sites_at(&self, start: Svma) -> Vec<Site> {
        let index = self.image.functions().index_at(start).unwrap();
        let sites = self
            .image
            .sites()
            .of_function(u32::try_from(index).unwrap());
        sites.to_vec()
    }

    /// The sites of a function, as `kind size: instruction`.
    pub fn sites(&self, function: &str) -> Vec<String> {
        self.sites_at(self.start(function))
            .iter()
            .map(|site| {
                let instruction = self.image.instruction_at(site.svma).unwrap();
                format!(
                    "{} {}: {}",
                    site.kind.name(),
                    site.size,
                    mnemonic(&instruction.text())
                )
            })
            .collect()
    }
}

/// The instruction's text without the addresses a linker chose.
fn mnemonic(text: &str) -> String {
    match text.split_once("[0x") {
        Some((before, after)) => {
            let rest = after.split_once(']').map_or("", |(_, rest)| rest);
            format!("{before}[..]{rest}")
        }
        None => text.to_owned(),
    }
}

fn show(image: &Image) -> String {
    image
        .functions()
        .as_slice()
        .iter()
        .map(|f| format!("{}..{} {:?}\n", f.start, f.end, f.name))
        .collect()
}

/// A file of the machine, if it is there.
pub fn present(path: &str) -> Option<&Path> {
    let path = Path::new(path);
    path.exists().then_some(path)
}
