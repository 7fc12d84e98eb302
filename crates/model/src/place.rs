//! The code place of an access, in words that survive a rebuild: what two collisions have to have in
//! common to be one race.

use crate::library::is_of_language;
use crate::{AccessReport, Fingerprint, Frame, Race, is_runtime, library_function};

impl AccessReport {
    /// The innermost function of the program, inlined or not, and how it got to the bytes if it
    /// did not access them itself. `nameless` tells what a function without a name is called; if
    /// it cannot, there is no place.
    ///
    /// What a compiler puts into the program of a library does not count: in the next build it is
    /// inlined, or another function of the library is.
    #[must_use]
    pub fn place(&self, nameless: impl Fn(&Frame) -> Option<String>) -> Option<String> {
        let function = |frame: &Frame| match &frame.function {
            Some(name) => {
                let known = library_function(name).filter(|_| frame.is_library());
                Some(known.unwrap_or_else(|| source_name(name)).to_owned())
            }
            None => nameless(frame),
        };
        let in_module = |frame: &Frame| {
            let module = frame.module.as_deref().map_or("?", unversioned);
            Some(format!("{module}!{}", function(frame)?))
        };
        let own = self.own();
        if let Some(free) = &self.freed_by {
            let named = own.and_then(|(_, frame)| frame.function.as_ref());
            let caller = named.or(self.function.as_ref());
            let caller = caller.map_or("?", |name| source_name(name));
            return Some(format!("{free} from {caller}"));
        }
        let Some(innermost) = self.stack.first() else {
            return Some(format!("?!+{:#x}", self.pc));
        };
        if let Some(call) = &self.system_call {
            // The innermost function is a wrapper of libc; its caller tells more.
            let caller = own.map_or(innermost, |(_, frame)| frame);
            return Some(format!("{call}(2) from {}", function(caller)?));
        }
        match own {
            // Generated code is nobody's own, and not its caller's either.
            Some((at, own)) if innermost.module.is_some() => {
                let called = at.checked_sub(1).and_then(|at| called(self.stack.get(at)?));
                let place = in_module(own)?;
                Some(called.map_or_else(|| place.clone(), |how| format!("{how} from {place}")))
            }
            _ => in_module(innermost),
        }
    }
}

impl Race {
    /// The fingerprint with the code places as they are told today. Earlier versions may have told
    /// them otherwise, but the stacks are the same. It stays as it is where a function has no name.
    #[must_use]
    pub fn placed_today(&self) -> Fingerprint {
        self.placed_as(&self.accesses)
    }

    /// The same for these accesses, which are one pair of the race.
    #[must_use]
    pub fn placed_as(&self, accesses: &[AccessReport]) -> Fingerprint {
        let places = accesses.iter().map(|access| access.place(|_| None));
        match places.collect::<Option<Vec<String>>>() {
            Some(places) if !places.is_empty() => self.fingerprint.between(places),
            _ => self.fingerprint.clone(),
        }
    }
}

/// The function that the program called, if that is a library's and has its place there.
fn called(frame: &Frame) -> Option<&str> {
    let name = frame.function.as_deref()?;
    let in_runtime = frame.module.as_deref().is_some_and(is_runtime);
    library_function(name)
        .or_else(|| (in_runtime && !is_of_language(name)).then(|| source_name(name)))
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
#[must_use]
pub fn unversioned(module: &str) -> &str {
    match module.find(".so.") {
        Some(end) => &module[..end + 3],
        None => module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessKind, ThreadName};

    const VECTOR: &str = "/usr/include/c++/12/bits/stl_vector.h";

    fn frame(module: &str, function: &str, file: &str) -> Frame {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Frame {
            module: told(module),
            function: told(function),
            file: told(file),
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

    /// A stack of modules, functions and files.
    type Told<'a> = [(&'a str, &'a str, &'a str)];

    fn of(stack: &Told<'_>) -> AccessReport {
        let frames = stack
            .iter()
            .map(|(module, function, file)| frame(module, function, file));
        access(frames.collect())
    }

    #[track_caller]
    fn check(stack: &Told<'_>, expected: &str) {
        let place = of(stack).place(|_| Some("code".to_owned()));
        assert_eq!(place.as_deref(), Some(expected));
    }

    #[test]
    fn a_variant_for_one_processor_is_the_function_that_was_called() {
        for variant in [
            "__memcpy_avx512_unaligned_erms",
            "__memcpy_evex_unaligned",
            "memcpy",
        ] {
            for module in ["libc.so.6", "app"] {
                let stack = [
                    (module, variant, ""),
                    ("app", "copy", "copy.c"),
                    ("app", "main", "main.c"),
                ];
                check(&stack, "memcpy from app!copy");
            }
        }
    }

    #[test]
    fn a_race_in_a_library_is_the_programs_that_called_it() {
        let log = ("app", "log", "log.cc");
        check(
            &[
                ("libc.so.6", "_IO_default_xsputn", ""),
                ("libc.so.6", "printf", ""),
                log,
            ],
            "printf from app!log",
        );
        check(&[("libc.so.6", "start_thread", "")], "libc.so!start_thread");
        check(&[("libc.so.6", "", ""), log], "app!log");
        // A library of the project's own is not one of these.
        let cache = ("libcache.so.1", "put", "cache.c");
        check(&[cache, log], "libcache.so!put");
        check(
            &[("libc.so.6", "memcpy", ""), cache],
            "memcpy from libcache.so!put",
        );
    }

    #[test]
    fn what_a_compiler_puts_into_the_program_is_not_the_programs() {
        let add = ("app", "add_request", "cont.cc");
        let push = ("app", "std::vector<int>::push_back(int&&)", VECTOR);
        check(&[push, add], "app!add_request");
        check(
            &[push, push, add, ("app", "main", "main.cc")],
            "app!add_request",
        );
        check(
            &[("libc.so.6", "memmove", ""), push, add],
            "app!add_request",
        );
        let fortified = "/usr/include/x86_64-linux-gnu/bits/string_fortified.h";
        check(
            &[("app", "memcpy", fortified), add],
            "memcpy from app!add_request",
        );
        let append = "std::string::append(char const*)";
        check(&[("libstdc++.so.6", append, ""), add], "app!add_request");
        check(&[push], "app!std::vector<int>::push_back(int&&)");
        let alloc = "/rustc/90b35a62/library/alloc/src/vec/mod.rs";
        check(
            &[
                ("app", "alloc::vec::Vec<T,A>::push", alloc),
                ("app", "app::add", "src/main.rs"),
            ],
            "app!app::add",
        );
    }

    #[test]
    fn marks_of_the_compiler_and_versions_of_libraries_do_not_count() {
        check(&[("libfoo.so.1.2.3", "f.constprop.0", "")], "libfoo.so!f");
        check(&[("libfoo.so.1.3.0", "f.isra.0.cold", "")], "libfoo.so!f");
        check(&[("app", "g(int) [clone .part.0]", "")], "app!g(int)");
        check(&[("app", ".cold", "")], "app!.cold");
    }

    #[test]
    fn calls_and_frees_belong_to_the_programs_own_function() {
        let mut read = of(&[("libc.so.6", "__read", ""), ("app", "fill", "a.c")]);
        read.system_call = Some("read".to_owned());
        assert_eq!(read.place(|_| None).unwrap(), "read(2) from fill");
        let deallocate = "__gnu_cxx::new_allocator<int>::deallocate(int*, unsigned long)";
        let mut freed = of(&[
            ("libc.so.6", "_int_free", ""),
            ("app", deallocate, VECTOR),
            ("app", "drop_all", "a.cc"),
        ]);
        freed.freed_by = Some("operator delete".to_owned());
        freed.function = Some(deallocate.to_owned());
        assert_eq!(
            freed.place(|_| None).unwrap(),
            "operator delete from drop_all"
        );
    }

    #[test]
    fn a_function_without_a_name_has_a_place_if_it_can_be_told() {
        let stripped = [("libc.so.6", "memcpy", ""), ("app", "", "")];
        check(&stripped, "memcpy from app!code");
        assert_eq!(of(&stripped).place(|_| None), None);
        // Generated code is not its caller's.
        check(&[("", "", ""), ("app", "run", "run.c")], "?!code");
    }
}
