//! The command lines that build a program, for each language and variant.

use std::path::{Path, PathBuf};

use super::compile::Build;
use super::program::{Change, Language};
use super::variant::{Debug, Linkage, Place, Variant};

/// The commands that build it, in order. They run in the repository's root.
pub fn commands(build: &Build) -> Vec<Vec<String>> {
    let folder = folder(build);
    let mut commands = Vec::new();
    let source = source(build);
    if source != build.program.source {
        commands.push(line(&["cp", &text(&build.program.source), &text(&source)]));
    }
    let mut link = Vec::new();
    for library in &build.program.libraries {
        let output = folder.join(&library.file);
        let mut command = vec![compiler(build).to_owned()];
        command.extend(line(&["-Wall", "-Wextra", "-fPIC", "-shared"]));
        command.extend(debug_words(&build.variant));
        command.push(format!("-O{}", build.variant.level));
        command.extend(line(&["-o", &text(&output)]));
        command.push(text(&Path::new("corpus").join(&library.source)));
        commands.push(command);
        if build.variant.is_stripped() {
            commands.push(line(&["strip", &text(&output)]));
        }
        if library.linked {
            let name = library.file.trim_start_matches("lib");
            link.push(format!("-L{}", text(folder)));
            link.push(format!("-l{}", name.trim_end_matches(".so")));
        }
    }
    if !build.program.libraries.is_empty() {
        link.push("-Wl,-rpath,$ORIGIN".to_owned());
    }
    match build.program.language() {
        Language::C | Language::Cpp => commands.extend(c(build, &source, link)),
        Language::Rust => commands.push(rustc(build, &source)),
        Language::Go => commands.push(go(build, &source)),
    }
    commands.extend(separate(build));
    commands.extend(change(build, &source));
    commands
}

fn folder(build: &Build) -> &Path {
    build.path.parent().unwrap_or(Path::new("."))
}

/// The file that the compiler reads: a copy, if it will be changed.
fn source(build: &Build) -> PathBuf {
    let file = build.program.source.file_name().unwrap_or_default();
    match build.program.after_build {
        Some(_) => folder(build).join(file),
        None => build.program.source.clone(),
    }
}

fn compiler(build: &Build) -> &'static str {
    let variant = &build.variant;
    match build.program.language() {
        Language::Cpp if variant.clang => "clang++",
        Language::Cpp => "g++",
        _ if variant.clang => "clang",
        _ if variant.musl => "musl-gcc",
        _ => "gcc",
    }
}

fn debug_words(variant: &Variant) -> Vec<String> {
    let mut words = line(match variant.debug {
        Debug::None => &[],
        Debug::Lines if variant.clang => &["-gline-tables-only"],
        // All that gcc's first level has beyond lines are the names of functions.
        Debug::Lines | Debug::Limited => &["-g1"],
        Debug::Full => &["-g"],
        Debug::Macros if variant.clang => &["-g3", "-fdebug-macro"],
        Debug::Macros => &["-g3"],
    });
    if let Some(version) = variant.dwarf {
        words.push(format!("-gdwarf-{version}"));
    }
    if variant.place == Place::Split {
        words.push("-gsplit-dwarf".to_owned());
    }
    words
}

fn c(build: &Build, source: &Path, link: Vec<String>) -> Vec<Vec<String>> {
    let variant = &build.variant;
    let mut command = line(&[compiler(build), "-Wall", "-Wextra", "-pthread"]);
    command.extend(debug_words(variant));
    command.push(format!("-O{}", variant.level));
    command.extend(line(match variant.linkage {
        Linkage::Static => &["-static", "-fno-pie", "-no-pie"],
        Linkage::StaticPie => &["-static-pie", "-fPIE"],
        Linkage::NoPie => &["-fno-pie", "-no-pie"],
        Linkage::Pie => &["-fPIE", "-pie"],
    }));
    if variant.lto {
        command.push("-flto".to_owned());
        if variant.clang {
            command.push("-fuse-ld=lld".to_owned());
        }
    }
    if source != build.program.source {
        let original = build.program.source.parent().unwrap_or(Path::new("."));
        command.extend(line(&["-iquote", &text(original)]));
    }
    if build.twin {
        command.push("-DTWIN".to_owned());
    }
    let mut commands = Vec::new();
    let mut input = text(source);
    // The file of split debug information is named after the object file, which must not
    // be a temporary one.
    if variant.place == Place::Split {
        let object = text(&build.path.with_extension("o"));
        let mut first = command.clone();
        first.extend(line(&["-c", "-o", &object, &input]));
        first.extend(compile_flags(&build.program.flags));
        commands.push(first);
        input = object;
    }
    command.extend(line(&["-o", &text(&build.path), &input]));
    command.extend(build.program.flags.iter().cloned());
    command.extend(link);
    commands.push(command);
    commands
}

/// Without the libraries, which clang would call unused.
fn compile_flags(flags: &[String]) -> impl Iterator<Item = String> {
    let compile = flags.iter().filter(|flag| !flag.starts_with("-l"));
    compile.cloned()
}

fn rustc(build: &Build, source: &Path) -> Vec<String> {
    let variant = &build.variant;
    let mut command = line(&["rustc", "--edition", "2024", "--check-cfg", "cfg(twin)"]);
    let mut set = |option: &str| command.extend(line(&["-C", option]));
    set(&format!("opt-level={}", variant.level));
    set(match variant.debug {
        Debug::None => "debuginfo=none",
        Debug::Lines => "debuginfo=line-tables-only",
        Debug::Limited => "debuginfo=limited",
        Debug::Full | Debug::Macros => "debuginfo=full",
    });
    if let Some(version) = variant.dwarf {
        set(&format!("dwarf-version={version}"));
    }
    if variant.place == Place::Split {
        set("split-debuginfo=packed");
    }
    if variant.lto {
        set("lto=fat");
    }
    if matches!(variant.linkage, Linkage::Static | Linkage::StaticPie) {
        set("target-feature=+crt-static");
    }
    if matches!(variant.linkage, Linkage::Static | Linkage::NoPie) {
        set("relocation-model=static");
    }
    if build.twin {
        command.extend(line(&["--cfg", "twin"]));
    }
    command.extend(build.program.flags.iter().cloned());
    command.extend(line(&["-o", &text(&build.path), &text(source)]));
    command
}

/// Go has no conditional compilation inside a file. A twin is told that it is one by the
/// string `main.twin`, which the linker sets.
fn go(build: &Build, source: &Path) -> Vec<String> {
    let variant = &build.variant;
    let mut command = line(&["go", "build"]);
    if variant.level == '0' {
        command.push("-gcflags=all=-N -l".to_owned());
    }
    let mut link = Vec::new();
    if variant.debug == Debug::None {
        link.push("-w");
    }
    if build.twin {
        link.push("-X=main.twin=yes");
    }
    if !link.is_empty() {
        command.push(format!("-ldflags={}", link.join(" ")));
    }
    if variant.linkage == Linkage::Pie {
        command.push("-buildmode=pie".to_owned());
    }
    command.extend(build.program.flags.iter().cloned());
    command.extend(line(&["-o", &text(&build.path), &text(source)]));
    command
}

/// Takes the debug information out of the program.
fn separate(build: &Build) -> Vec<Vec<String>> {
    let program = text(&build.path);
    let Some(symbols) = &build.symbols else {
        if build.variant.place != Place::Separate {
            return Vec::new();
        }
        let debug = text(&build.path.with_extension("debug"));
        return vec![
            line(&["objcopy", "--only-keep-debug", &program, &debug]),
            line(&["strip", &program]),
            vec![
                "objcopy".to_owned(),
                format!("--add-gnu-debuglink={debug}"),
                program,
            ],
        ];
    };
    vec![
        line(&["cp", &program, &text(symbols)]),
        line(&["strip", &program]),
    ]
}

/// Changes the source that the program was built from. The program stays the newer of the
/// two, as a copied one does, unless the source is to be the newer one.
fn change(build: &Build, source: &Path) -> Vec<Vec<String>> {
    let touch = |file: &Path| line(&["touch", &text(file)]);
    let change = match &build.program.after_build {
        None => return Vec::new(),
        Some(Change::Touch) => return vec![line(&["touch", "-d", "+1 hour", &text(source)])],
        Some(Change::Remove) => line(&["rm", &text(source)]),
        Some(Change::Edit(script)) => line(&["sed", "-i", "-e", script, &text(source)]),
    };
    vec![change, touch(&build.path)]
}

fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::List;
    use crate::corpus::program::Program;

    fn never(source: &str, directives: &str, twin: bool) -> Vec<Vec<String>> {
        let text = format!("{directives}\n//@ focus: f\n//@ twin-expect: what=x functions=f,f\n");
        let program = Program::parse(List::Never, Path::new(source), &text).unwrap();
        let variant = program.variants[0].clone();
        commands(&Build::new(&program, &variant, twin))
    }

    #[test]
    fn a_twin_is_the_same_source_without_its_guard() {
        let c = never("corpus/never/k.c", "//@ build: O2+nopie", true);
        assert!(c[0].contains(&"-DTWIN".to_owned()) && c[0].contains(&"-no-pie".to_owned()));
        let rust = never("corpus/never/k.rs", "//@ build: O0", true);
        assert!(rust[0].join(" ").contains("--cfg twin"));
        let go = never("corpus/never/k.go", "//@ build: O0", true);
        assert!(go[0].contains(&"-ldflags=-X=main.twin=yes".to_owned()));
        let plain = never("corpus/never/k.c", "//@ build: O2", false);
        assert!(!plain[0].contains(&"-DTWIN".to_owned()));
    }

    #[test]
    fn libraries_come_first_and_are_found_beside_the_program() {
        let directives = "//@ build: O2+stripped\n//@ lib: lib/tally.c as libtally.so linked";
        let commands = never("corpus/never/k.c", directives, false);
        let programs: Vec<_> = commands.iter().map(|command| command[0].as_str()).collect();
        assert_eq!(programs, ["gcc", "strip", "gcc", "cp", "strip"]);
        assert!(commands[2].contains(&"-ltally".to_owned()));
        assert!(commands[2].contains(&"-Wl,-rpath,$ORIGIN".to_owned()));
    }

    #[test]
    fn variants_choose_the_compiler_and_the_debug_information() {
        let first = |source: &str, word: &str| {
            let lines = never(source, &format!("//@ build: {word}"), false);
            lines[0].join(" ")
        };
        for (source, word, command) in [
            (
                "k.c",
                "O2+clang+lines",
                "clang -Wall -Wextra -pthread -gline-tables-only -O2 ",
            ),
            (
                "k.cc",
                "Os+clang+lto",
                "clang++ -Wall -Wextra -pthread -g -Os -fPIE -pie -flto ",
            ),
            (
                "k.c",
                "O3+musl+static+nodebug",
                "musl-gcc -Wall -Wextra -pthread -O3 -static ",
            ),
            (
                "k.c",
                "O0+g3+dwarf4",
                "gcc -Wall -Wextra -pthread -g3 -gdwarf-4 -O0 ",
            ),
        ] {
            let built = first(&format!("corpus/never/{source}"), word);
            assert!(built.starts_with(command), "{built}");
        }
        let rust = first("corpus/never/k.rs", "O3+lines+lto");
        assert!(rust.contains("-C opt-level=3 -C debuginfo=line-tables-only -C lto=fat"));
    }

    #[test]
    fn a_source_that_changes_is_a_copy() {
        let directives = "//@ build: O2\n//@ after-build: sed s/a/b/";
        let commands = never("corpus/never/k.c", directives, false);
        let programs: Vec<_> = commands.iter().map(|command| command[0].as_str()).collect();
        assert_eq!(programs, ["cp", "gcc", "sed", "touch"]);
        let copy = commands[0][2].clone();
        assert!(commands[1].contains(&copy) && commands[2].contains(&copy));
        assert!(commands[1].join(" ").contains("-iquote corpus/never"));
        assert_ne!(copy, "corpus/never/k.c");
        let directives = "//@ build: O2\n//@ after-build: touch";
        let touched = never("corpus/never/k.c", directives, false);
        assert_eq!(touched.len(), 3);
        assert!(touched[2][0] == "touch" && touched[2].contains(&copy));
    }

    #[test]
    fn split_debug_information_belongs_to_an_object_file() {
        let commands = never("corpus/never/k.c", "//@ build: O2+split", false);
        assert_eq!(commands.len(), 2);
        assert!(commands[0].contains(&"-c".to_owned()));
        let separate = never("corpus/never/k.c", "//@ build: O2+debugfile", false);
        let programs: Vec<_> = separate.iter().map(|command| command[0].as_str()).collect();
        assert_eq!(programs, ["gcc", "objcopy", "strip", "objcopy"]);
    }
}
