//! Which accesses are an allocator's own.

use redhanded_model::{Allocator, Fact, Frame, Region, SideEvidence, allocator};

/// How many frames of an allocator there may be.
const ALLOCATOR_FRAMES: usize = 12;

/// Adds which sides are an allocator's own accesses to the blocks that it manages.
pub(super) fn add(sides: &mut [SideEvidence], frames: &[&[Frame]; 2], region: &Region) {
    // Its variables are not in blocks, and blocks are not on stacks.
    if !matches!(
        region,
        Region::Heap | Region::Mapping { .. } | Region::Unknown
    ) {
        return;
    }
    for (at, side) in sides.iter_mut().enumerate() {
        let other = frames.get(1 - at).copied().unwrap_or_default();
        let own = frames.get(at).copied().unwrap_or_default();
        if let Some((name, frees, _)) = allocator_call(own, other) {
            let fact = Fact::Allocator {
                name: name.to_owned(),
                frees,
                hands_out: !frees && hands_out(side, own),
            };
            side.facts.push(fact.into());
        }
    }
}

/// Whether an access of glibc's allocator is one to the very block that it is about to hand out:
/// it takes the block from its cache, or clears it. What its inner functions do beyond that is
/// mostly to the sizes between blocks.
fn hands_out(side: &SideEvidence, own: &[Frame]) -> bool {
    let of_glibc = |frame: &&Frame| {
        let module = frame.module.as_deref().unwrap_or_default();
        module.starts_with("libc.so.") || module.starts_with("libc-2")
    };
    let name = |frame: &&Frame| {
        let function = allocator(frame.function.as_deref()?);
        function.map(|(name, _)| name.to_owned())
    };
    let innermost = own.first();
    let clears = |fact: &Fact| match fact {
        Fact::MemoryFunction { name } => (name == "memset").then_some(()),
        _ => None,
    };
    match innermost.as_ref().and_then(name).as_deref() {
        Some("tcache_get" | "tcache_get_n") => true,
        Some("malloc" | "calloc") => innermost.is_some_and(|frame| of_glibc(&frame)),
        Some(_) => false,
        None => {
            let caller = own.get(1).filter(of_glibc);
            side.find(clears).is_some()
                && caller.as_ref().and_then(name).as_deref() == Some("calloc")
        }
    }
}

/// The call of an allocator that an access belongs to: its function, whether that frees, and
/// the frame of its caller. `other` is the stack of the other side.
///
/// An allocator that is linked into the program may be the program's own, and then it counts
/// what it does in variables that others read. So it must be in another module than the other
/// access, or be one whose inner functions are known.
fn allocator_call<'a>(own: &'a [Frame], other: &[Frame]) -> Option<(&'a str, bool, usize)> {
    let name = |frame: &'a Frame| allocator(frame.function.as_deref()?);
    let innermost = own.first()?;
    let called = own
        .iter()
        .take(ALLOCATOR_FRAMES)
        .take_while(|frame| frame.module == innermost.module || name(frame).is_some())
        .position(|frame| name(frame).is_some())?;
    let inner = own.first().and_then(name);
    let is_inner = inner.is_some_and(|(_, does)| does == Allocator::Inner);
    if innermost.module.is_none()
        || (!is_inner && other.first().map(|frame| &frame.module) == Some(&innermost.module))
    {
        return None;
    }
    // `operator delete` calls `free`, and that what does the work.
    let outermost = own
        .iter()
        .enumerate()
        .skip(called)
        .take_while(|(_, frame)| name(frame).is_some())
        .last()?
        .0;
    let (function, does) = own.get(outermost).and_then(name)?;
    let frees = |frame: &'a Frame| name(frame).is_some_and(|(_, d)| d == Allocator::Frees);
    let frees = own.get(called..=outermost)?.iter().any(frees);
    // A call of `free` within `malloc` is the allocator's own business.
    let frees = frees && does != Allocator::Allocates;
    Some((function, frees, outermost + 1))
}

/// The call that frees on the side of `own`: the allocator's function, and where in the stack
/// its caller is.
pub fn freeing_call<'a>(own: &'a [Frame], other: &[Frame]) -> Option<(&'a str, usize)> {
    allocator_call(own, other)
        .filter(|(_, frees, _)| *frees)
        .map(|(name, _, caller)| (name, caller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{AccessKind, Avma, Bytes};

    fn frame(module: &str, function: &str) -> Frame {
        Frame {
            function: (!function.is_empty()).then(|| function.to_owned()),
            module: Some(module.to_owned()),
            ..Frame::default()
        }
    }

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        frames
            .iter()
            .map(|(module, function)| frame(module, function))
            .collect()
    }

    fn is_handed_out(frames: &[(&str, &str)], memory_function: Option<&str>) -> bool {
        let facts = memory_function.map(|name| {
            let name = name.to_owned();
            Fact::MemoryFunction { name }.into()
        });
        let side = SideEvidence {
            kind: AccessKind::Write,
            extent: Bytes::new(Avma(0x1000), 8).into(),
            facts: facts.into_iter().collect(),
        };
        let reader = stack(&[("app", "reads")]);
        let mut sides = [side.clone(), side];
        let writer = stack(frames);
        add(&mut sides, &[&reader, &writer], &Region::Heap);
        let handed = |fact: &Fact| match fact {
            Fact::Allocator { hands_out, .. } => Some(*hands_out),
            _ => None,
        };
        assert_eq!(sides[0].find(handed), None);
        sides[1].find(handed).unwrap_or_default()
    }

    #[test]
    fn the_block_that_an_allocator_hands_out_is_nobodys() {
        let libc = "libc.so.6";
        for (frames, memory_function) in [
            (
                vec![
                    (libc, "tcache_get"),
                    (libc, "__GI___libc_malloc"),
                    ("app", "f"),
                ],
                None,
            ),
            (vec![(libc, "malloc"), ("app", "f")], None),
            (
                vec![("app", "tcache_get"), ("app", "malloc"), ("app", "f")],
                None,
            ),
            (
                vec![(libc, ""), (libc, "calloc"), ("app", "f")],
                Some("memset"),
            ),
            (
                vec![
                    (libc, "malloc"),
                    ("libstdc++.so.6", "operator new(unsigned long)"),
                    ("app", "f"),
                ],
                None,
            ),
        ] {
            assert!(is_handed_out(&frames, memory_function), "{frames:?}");
        }
    }

    /// Sizes between blocks, accounts, and what is written once the block was handed out.
    #[test]
    fn what_else_an_allocator_accesses_is_not_the_block() {
        let libc = "libc.so.6";
        for (frames, memory_function) in [
            (
                vec![(libc, "_int_malloc"), (libc, "malloc"), ("app", "f")],
                None,
            ),
            (vec![(libc, ""), (libc, "malloc"), ("app", "f")], None),
            (vec![(libc, ""), (libc, "calloc"), ("app", "f")], None),
            (vec![(libc, ""), ("app", "f")], Some("memset")),
            (
                vec![(libc, ""), (libc, "fopen"), ("app", "f")],
                Some("memset"),
            ),
            (vec![("libjemalloc.so.2", "malloc"), ("app", "f")], None),
            (vec![("ld-musl-x86_64.so.1", "malloc"), ("app", "f")], None),
            (vec![("app", "malloc"), ("app", "f")], None),
        ] {
            assert!(!is_handed_out(&frames, memory_function), "{frames:?}");
        }
    }

    #[track_caller]
    fn check(frames: &[(&str, &str)], expect: Option<(&str, bool, usize)>) {
        let reader = stack(&[("app", "reads")]);
        assert_eq!(allocator_call(&stack(frames), &reader), expect);
    }

    #[test]
    fn the_caller_of_an_allocator_is_behind_its_last_frame() {
        check(
            &[("libc.so.6", ""), ("libc.so.6", "free"), ("app", "drops")],
            Some(("free", true, 2)),
        );
        check(
            &[
                ("libc.so.6", "_int_free"),
                ("libc.so.6", "free"),
                ("libstdc++.so.6", "operator delete(void*)"),
                ("app", "drops"),
            ],
            Some(("operator delete", true, 3)),
        );
        check(
            &[
                ("libc.so.6", "_int_malloc"),
                ("libc.so.6", "malloc"),
                ("app", "f"),
            ],
            Some(("malloc", false, 2)),
        );
        // A static program.
        check(
            &[("app", "_int_free"), ("app", "free"), ("app", "drops")],
            Some(("free", true, 2)),
        );
    }

    /// As the debug information of the C library names them.
    #[test]
    fn inlined_and_internal_names_are_known() {
        check(
            &[
                ("libc.so.6", "tcache_put"),
                ("libc.so.6", "_int_free"),
                ("libc.so.6", "__GI___libc_free"),
                ("app", "drops"),
            ],
            Some(("free", true, 3)),
        );
    }

    #[test]
    fn what_only_looks_like_an_allocator() {
        check(&[("app", "writes"), ("app", "main")], None);
        // The program's own, with its own variables.
        check(&[("app", "count"), ("app", "free"), ("app", "drops")], None);
        check(&[("app", "operator delete(void*)"), ("app", "drops")], None);
        // A destructor that an allocator's hook runs.
        check(
            &[("app", "hook"), ("libc.so.6", "free"), ("app", "drops")],
            None,
        );
        check(
            &[("libc.so.6", ""), ("libc.so.6", "fclose"), ("app", "f")],
            None,
        );
    }
}
