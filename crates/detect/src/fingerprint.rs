//! The fingerprint of a collision: which code meets at what, in words that survive a rebuild,
//! another load address, an edit elsewhere in the file and another processor.
//!
//! Kinds of access are not part of it. One statement of the source is a load, a store or an
//! update by turns, and which of them is the compiler's choice.

use crate::evidence;
use crate::naming;
use redhanded_image::is_runtime;
use redhanded_model::{AccessReport, Fingerprint, Frame, Region, Svma, UNKNOWN_ORIGIN, What};
use redhanded_target::Module;
use std::path::Path;
use std::sync::Arc;

/// What makes these accesses to `what` the race that they are.
pub fn fingerprint(accesses: &[AccessReport], what: &What, modules: &[Arc<Module>]) -> Fingerprint {
    let mut places: Vec<String> = accesses
        .iter()
        .map(|access| place(access, modules))
        .collect();
    if places.len() < 2 {
        places.push(UNKNOWN_ORIGIN.to_owned());
    }
    Fingerprint::new(places, &touched(what))
}

/// What is raced on, without addresses. What is behind a pointer is known by its member, if
/// that is certain, wherever it was allocated.
pub fn touched(what: &What) -> String {
    match what.member() {
        Some(member) => Fingerprint::behind_a_pointer(member),
        None => placed(what),
    }
}

/// The same without what a pointer leads to.
pub fn placed(what: &What) -> String {
    match (&what.name, &what.region) {
        (Some(name), _) => {
            let field = what.whole_field().unwrap_or("");
            format!("{name}{}", naming::without_indices(field))
        }
        (None, Region::Global { module }) => format!("data of {}", unversioned(module)),
        (None, Region::Heap) => "heap".to_owned(),
        (None, Region::Stack { .. }) => "stack".to_owned(),
        (None, Region::PerCpu { .. }) => "per-CPU data".to_owned(),
        (None, Region::Mapping { .. }) => "mapping".to_owned(),
        (None, Region::Unknown) => "memory".to_owned(),
    }
}

/// A code place: the innermost function of the program, inlined or not, and how it got to
/// the bytes if it did not access them itself.
fn place(access: &AccessReport, modules: &[Arc<Module>]) -> String {
    if let Some(free) = &access.freed_by {
        let caller = access.function.as_deref().map_or("?", source_name);
        return format!("{free} from {caller}");
    }
    let Some(innermost) = access.stack.first() else {
        return format!("?!+{:#x}", access.pc);
    };
    let own = || access.stack.iter().find(|frame| !is_library(frame));
    if let Some(call) = &access.system_call {
        // The innermost function is a wrapper of libc; its caller tells more.
        let caller = own().unwrap_or(innermost);
        return format!("{call}(2) from {}", function(caller, modules));
    }
    match own() {
        Some(caller) if is_library(innermost) && innermost.function.is_some() => {
            let how = function(innermost, modules);
            format!("{how} from {}", in_module(caller, modules))
        }
        _ => in_module(innermost, modules),
    }
}

/// Whether a frame is in the language's runtime, which is not the program's own.
fn is_library(frame: &Frame) -> bool {
    let module = frame.module.as_deref();
    module.is_some_and(|module| is_runtime(Path::new(module)))
}

fn in_module(frame: &Frame, modules: &[Arc<Module>]) -> String {
    let module = frame.module.as_deref().map_or("?", unversioned);
    format!("{module}!{}", function(frame, modules))
}

/// The function of a frame: by its name, or else by its code, or else by its address.
fn function(frame: &Frame, modules: &[Arc<Module>]) -> String {
    if let Some(name) = &frame.function {
        return evidence::library_function(name)
            .unwrap_or_else(|| source_name(name))
            .to_owned();
    }
    let module = modules
        .iter()
        .find(|module| Some(&module.name) == frame.module.as_ref());
    let image = module.and_then(|module| module.image.as_ref());
    match image.and_then(|image| image.code_hash(Svma(frame.address))) {
        Some(hash) => format!("code {hash:016x}"),
        None => format!("+{:#x}", frame.address),
    }
}

/// The name that a function has in the source: compilers mark the parts and copies that they
/// make of it, and number them by what else is in the file.
fn source_name(name: &str) -> &str {
    const MARKS: [&str; 7] = [
        " [clone",
        ".constprop.",
        ".isra.",
        ".part.",
        ".cold",
        ".llvm.",
        ".lto_priv.",
    ];
    let ends = MARKS.iter().filter_map(|mark| name.find(mark));
    let end = ends.filter(|end| *end > 0).min();
    end.map_or(name, |end| &name[..end])
}

/// A library's file name without its version: an update is the same library.
fn unversioned(module: &str) -> &str {
    match module.find(".so.") {
        Some(end) => &module[..end + 3],
        None => module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{AccessKind, ThreadName};

    fn frame(module: &str, function: &str) -> Frame {
        Frame {
            module: Some(module.to_owned()),
            function: (!function.is_empty()).then(|| function.to_owned()),
            address: 0x1234,
            ..Frame::default()
        }
    }

    fn access(stack: Vec<Frame>) -> AccessReport {
        AccessReport {
            thread: ThreadName::default(),
            kind: AccessKind::Read,
            size: 4,
            pc: 0x1234,
            instruction: None,
            atomic: false,
            function: stack.first().and_then(|frame| frame.function.clone()),
            file: None,
            line: None,
            system_call: None,
            freed_by: None,
            pointee: None,
            value: None,
            created: None,
            stack,
        }
    }

    fn check(stack: &[(&str, &str)], expected: &str) {
        let stack = stack
            .iter()
            .map(|(module, function)| frame(module, function));
        assert_eq!(place(&access(stack.collect()), &[]), expected);
    }

    #[test]
    fn a_variant_for_one_processor_is_the_function_that_was_called() {
        for variant in [
            "__memcpy_avx512_unaligned_erms",
            "__memcpy_evex_unaligned",
            "memcpy",
        ] {
            check(
                &[("libc.so.6", variant), ("app", "copy"), ("app", "main")],
                "memcpy from app!copy",
            );
        }
    }

    #[test]
    fn a_race_in_a_library_is_the_programs_that_called_it() {
        check(
            &[
                ("libstdc++.so.6", "std::string::append"),
                ("app", "log"),
                ("app", "main"),
            ],
            "std::string::append from app!log",
        );
        check(&[("libc.so.6", "start_thread")], "libc.so!start_thread");
    }

    #[test]
    fn marks_of_the_compiler_and_versions_of_libraries_do_not_count() {
        check(&[("libfoo.so.1.2.3", "f.constprop.0")], "libfoo.so!f");
        check(&[("libfoo.so.1.3.0", "f.isra.0.cold")], "libfoo.so!f");
        check(&[("app", "g(int) [clone .part.0]")], "app!g(int)");
        check(&[("app", ".cold")], "app!.cold");
    }

    #[test]
    fn a_system_call_belongs_to_the_programs_own_function() {
        let mut read = access(vec![frame("libc.so.6", "__read"), frame("app", "fill")]);
        read.system_call = Some("read".to_owned());
        assert_eq!(place(&read, &[]), "read(2) from fill");
    }
}
