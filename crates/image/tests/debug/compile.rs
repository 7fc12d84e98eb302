//! Compiles fixtures and finds addresses in what comes out.

use object::{Object, ObjectSymbol};
use redhanded_image::Image;
use redhanded_model::Svma;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A compiled fixture, in a folder of its own.
pub struct Built {
    pub folder: TempDir,
    pub program: PathBuf,
}

/// Compiles a fixture with the compiler its name calls for.
pub fn build(fixture: &str, options: &[&str]) -> Built {
    let folder = TempDir::new().unwrap();
    let source = folder.path().join(fixture);
    std::fs::copy(fixtures().join(fixture), &source).unwrap();
    let program = folder.path().join("program");
    let compiler = match source.extension().unwrap().to_str().unwrap() {
        "c" => "gcc",
        "cc" => "g++",
        _ => "rustc",
    };
    run(Command::new(compiler)
        .current_dir(folder.path())
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(&source));
    Built { folder, program }
}

/// Compiles the first of these fixtures with `compiler`; the others lie beside it.
pub fn build_with(compiler: &str, files: &[&str], options: &[&str]) -> Built {
    let folder = TempDir::new().unwrap();
    for file in files {
        std::fs::copy(fixtures().join(file), folder.path().join(file)).unwrap();
    }
    let program = folder.path().join("program");
    // GCC leaves no function in the debug information for one that it has folded into another.
    let unfolded = (compiler == "gcc").then_some("-fno-ipa-icf");
    run(Command::new(compiler)
        .current_dir(folder.path())
        .args(options)
        .args(unfolded)
        .arg("-o")
        .arg(&program)
        .arg(folder.path().join(files[0])));
    Built { folder, program }
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/debug/fixtures")
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| {
        panic!("cannot start {:?}: {e}", command.get_program());
    });
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Built {
    pub fn image(&self) -> Image {
        Image::open(&self.program).unwrap()
    }

    /// Where the symbol whose demangled name ends with `name` is.
    pub fn symbol(&self, name: &str) -> Svma {
        self.symbols()
            .into_iter()
            .find(|(symbol, _)| symbol == name)
            .or_else(|| {
                self.symbols().into_iter().find(|(symbol, _)| {
                    let plain = format!("{:#}", rustc_demangle::demangle(symbol));
                    plain == name || plain.ends_with(&format!("::{name}"))
                })
            })
            .unwrap_or_else(|| panic!("no symbol {name}"))
            .1
    }

    pub fn symbols(&self) -> Vec<(String, Svma)> {
        let data = std::fs::read(&self.program).unwrap();
        let object = object::File::parse(&*data).unwrap();
        object
            .symbols()
            .filter(|symbol| symbol.address() != 0)
            .map(|symbol| (symbol.name().unwrap().to_owned(), Svma(symbol.address())))
            .collect()
    }
}

/// Moves the debug information into a file `name` beside the program, which
/// keeps a link to it.
pub fn separate(built: &Built, name: &str) {
    let debug = built.folder.path().join(name);
    let objcopy = || Command::new("objcopy");
    run(objcopy()
        .arg("--only-keep-debug")
        .arg(&built.program)
        .arg(&debug));
    run(objcopy().arg("--strip-all").arg(&built.program));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(objcopy().arg(link).arg(&built.program));
}
