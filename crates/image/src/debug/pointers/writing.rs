//! How the source writes what is reached through a pointer.

use super::held::{Object, Within, Written};
use crate::debug::parts::{Reached, Step};
use crate::debug::program::{Die, MAX_HOPS, Program};
use crate::debug::types::{Spelling, is_qualifier};
use gimli::constants as dw;
use std::sync::Arc;

/// Members that no programmer writes: what smart pointers, cells and containers of Rust keep
/// their contents in. Each is the beginning of a type's name, and the member.
const UNWRITTEN: [(&str, &str); 40] = [
    ("core::ptr::unique::Unique<", ".pointer"),
    ("core::ptr::non_null::NonNull<", ".pointer"),
    ("core::pin::Pin<", ".pointer"),
    ("core::cell::UnsafeCell<", ".value"),
    ("core::cell::SyncUnsafeCell<", ".value"),
    ("core::cell::Cell<", ".value"),
    ("core::cell::RefCell<", ".value"),
    ("core::cell::once::OnceCell<", ".inner"),
    ("core::mem::manually_drop::ManuallyDrop<", ".value"),
    ("core::mem::maybe_dangling::MaybeDangling<", ".0"),
    ("core::mem::maybe_uninit::MaybeUninit<", ".value"),
    ("alloc::boxed::Box<", ".0"),
    ("alloc::boxed::Box<", ".data_ptr"),
    ("alloc::sync::Arc<", ".ptr"),
    ("alloc::sync::ArcInner<", ".data"),
    ("alloc::rc::Rc<", ".ptr"),
    ("alloc::rc::RcInner<", ".value"),
    ("alloc::rc::RcBox<", ".value"),
    ("alloc::string::String", ".vec"),
    ("alloc::vec::Vec<", ".buf"),
    ("alloc::collections::vec_deque::VecDeque<", ".buf"),
    ("alloc::raw_vec::RawVec<", ".inner"),
    ("alloc::raw_vec::RawVec<", ".ptr"),
    ("alloc::raw_vec::RawVecInner<", ".ptr"),
    ("std::sync::poison::mutex::Mutex<", ".data"),
    ("std::sync::mutex::Mutex<", ".data"),
    ("std::sync::nonpoison::mutex::Mutex<", ".data"),
    ("std::sync::poison::rwlock::RwLock<", ".data"),
    ("std::sync::rwlock::RwLock<", ".data"),
    ("std::sync::nonpoison::rwlock::RwLock<", ".data"),
    ("std::sync::once_lock::OnceLock<", ".value"),
    ("std::sync::reentrant_lock::ReentrantLock<", ".data"),
    ("lock_api::mutex::Mutex<", ".data"),
    ("lock_api::rwlock::RwLock<", ".data"),
    ("crossbeam_utils::cache_padded::CachePadded<", ".value"),
    ("&", ".data_ptr"),
    ("*const ", ".data_ptr"),
    ("*mut ", ".data_ptr"),
    ("core::ptr::unique::Unique<", ".data_ptr"),
    ("core::ptr::non_null::NonNull<", ".data_ptr"),
];

/// The same of C++'s library, in whichever class of it.
const UNWRITTEN_CPP: [&str; 15] = [
    "._M_t",
    "._M_head_impl",
    "._M_ptr",
    "._M_impl",
    "._M_start",
    "._M_payload",
    "._M_value",
    "._M_engaged",
    "._M_storage",
    "._M_elems",
    "._M_dataplus",
    "._M_p",
    "._M_b",
    "._M_i",
    "._M_u",
];

/// Whether a type is of C++'s library.
fn is_of_library(name: &str) -> bool {
    ["std::", "__gnu_cxx::"]
        .iter()
        .any(|of| name.starts_with(of))
}

fn is_written(step: &Step) -> bool {
    let of_library = || is_of_library(&step.of);
    let unwritten = UNWRITTEN
        .iter()
        .any(|(of, to)| step.to == *to && step.of.starts_with(of))
        || (UNWRITTEN_CPP.contains(&step.to.as_str()) && of_library());
    !unwritten
}

/// A path as the source writes it.
pub(in crate::debug) fn path(steps: &[Step]) -> String {
    let written = steps.iter().filter(|step| is_written(step));
    written.map(|step| step.to.as_str()).collect()
}

/// The last member on the way that a programmer writes.
pub(super) fn last_member(steps: &[Step]) -> Option<&Step> {
    let mut members = steps.iter().rev();
    members.find(|step| step.to.starts_with('.') && is_written(step))
}

/// The whole expression: an object, and the path to a part of it. Nobody writes the object in which
/// a lambda finds its captures, whatever variable that is in.
pub(super) fn expression(program: &Program<'_>, object: &Object, path: &str) -> Option<String> {
    let written = object.written.as_ref()?;
    if let Some(captured) = path.strip_prefix('.')
        && !object.element
        && program.is_lambda(object.kind)
    {
        return Some(captured.to_owned());
    }
    let spelling = program.spelling(object.kind);
    Some(write(written, object.element, path, spelling))
}

fn write(object: &Written, element: bool, path: &str, spelling: Spelling) -> String {
    match object {
        Written::Itself(name) => {
            let index = if element { "[…]" } else { "" };
            format!("{name}{index}{path}")
        }
        Written::Behind(name) if name.starts_with('*') && (element || !path.is_empty()) => {
            let pointer = Written::Behind(format!("({name})").into());
            write(&pointer, element, path, spelling)
        }
        Written::Behind(name) if element => format!("{name}[…]{path}"),
        Written::Behind(name) => match (path.strip_prefix('.'), spelling) {
            (Some(_), Spelling::Rust) => format!("{name}{path}"),
            (Some(member), _) => format!("{name}->{member}"),
            (None, _) if path.starts_with('[') => format!("{name}{path}"),
            (None, _) => format!("*{name}"),
        },
    }
}

/// The part of an object that `size` bytes at an address within it touch; and which element
/// of an array the object is, if it is not the first. Only an access that is `indexed` gets to
/// another structure than the one that is pointed to.
pub(super) fn reach(
    program: &Program<'_>,
    object: &Object,
    size: u64,
    named: &[&str],
    indexed: bool,
) -> Option<(Reached, i64, Object)> {
    let settled;
    let object = if object.stride == 0 {
        object
    } else {
        let first = Object {
            stride: 0,
            ..object.clone()
        };
        settled = element(program, &first, object.stride)?;
        &settled
    };
    let whole = program.size_of(object.kind).filter(|size| *size > 0)?;
    let length = i64::try_from(whole).ok()?;
    let index = object.offset.div_euclid(length);
    let within = u64::try_from(object.offset.rem_euclid(length)).ok()?;
    // A variable has nothing beside it that is its own.
    let is_variable = matches!(object.written, Some(Written::Itself(_)));
    let stays = is_variable
        || (!indexed && is_aggregate(program, object.kind) && !(object.first && index > 0));
    if index != 0 && !object.element && stays {
        return None;
    }
    // Past the end of an element. Several numbers of an array may be accessed at once.
    if within.checked_add(size)? > whole && is_aggregate(program, object.kind) {
        return None;
    }
    let reached = program.reach(object.called, within, size, named);
    Some((reached, index, object.clone()))
}

/// What a pointer of `size` bytes in an object points to.
pub(super) fn member(
    program: &Program<'_>,
    object: &Object,
    size: u64,
    named: &[&str],
) -> Option<Object> {
    if size != 8 {
        return None;
    }
    let (reached, index, object) = reach(program, object, size, named, false)?;
    if reached.into != 0 || (reached.part.in_union && named.is_empty()) {
        return None;
    }
    // Rust's hash tables are reached from the bytes in their middle.
    let is_table = |step: &Step| step.of.starts_with("hashbrown::raw::") && step.to == ".ctrl";
    if reached.part.steps.iter().any(is_table) {
        return None;
    }
    let (called, reference) = target(program, reached.kind)?;
    let called = match erased(&reached.part.steps) {
        Some(at) => {
            let before = |at: usize| reached.along.get(at).map(|(kind, _)| *kind);
            let holder = match at.checked_sub(1) {
                Some(at) => before(at)?,
                None => object.called,
            };
            program.parameter(bare(program, holder)?, "T")?
        }
        None => called,
    };
    let kind = bare(program, called)?;
    let mut own = path(&reached.part.steps);
    if (index != 0 || object.first) && !object.element {
        own = format!("[{index}]{own}");
    }
    let written = expression(program, &object, &own);
    Some(Object {
        kind,
        called,
        offset: 0,
        stride: 0,
        element: false,
        first: reached.part.steps.iter().any(is_container),
        global: None,
        within: None,
        written: written.map(|text| {
            if reference {
                Written::Itself(text.into())
            } else {
                Written::Behind(text.into())
            }
        }),
        declared: object.declared,
        doubtful: object.doubtful,
    })
}

/// Whether a pointer at the end of the way leads to the first of several: the step into a
/// vector's buffer, or a slice.
fn is_container(step: &Step) -> bool {
    let of = |name: &str| step.of.starts_with(name);
    match step.to.as_str() {
        "._M_start" => of("std::"),
        ".data_ptr" => true,
        ".ptr" => of("alloc::raw_vec::RawVec"),
        _ => false,
    }
}

/// What the source calls the type of an object, of which the access touches the part that `steps`
/// lead to. A library's own name for a type of the program, such as `element_type` of a pointer, is
/// not the source's. Neither is the type in which a library keeps one of the program, such as
/// Rust's `ArcInner`.
pub(super) fn type_name(program: &Program<'_>, object: &Object, steps: &[Step]) -> String {
    if let Some(kept) = steps.iter().position(is_written).filter(|at| *at > 0)
        && let Some(step) = steps.get(kept).filter(|step| step.to.starts_with('.'))
    {
        return step.of.clone();
    }
    let called = program.type_name(Some(object.called));
    if object.called != object.kind && is_of_library(&called) {
        let own = program.type_name(Some(object.kind));
        // A library's names for its own types are the shorter ones.
        if !is_of_library(&own) {
            return own;
        }
    }
    called
}

/// The step out of the type that says what the elements are, if the pointer at the end of the
/// way does not: to Rust's `RawVecInner` they are bytes.
fn erased(steps: &[Step]) -> Option<usize> {
    let is_inner = |step: &Step| step.of.starts_with("alloc::raw_vec::RawVecInner<");
    let inner = steps
        .iter()
        .position(|step| is_inner(step) && step.to == ".ptr")?;
    // On its own it does not say it at all: no type is before it.
    Some(inner.checked_sub(1).unwrap_or(usize::MAX))
}

/// What a value of a type points to, if that is a pointer.
pub(super) fn pointee(program: &Program<'_>, kind: Die) -> Option<Object> {
    let (called, _) = target(program, kind)?;
    Some(Object {
        kind: bare(program, called)?,
        called,
        offset: 0,
        stride: 0,
        element: false,
        first: false,
        global: None,
        within: None,
        written: None,
        declared: false,
        doubtful: false,
    })
}

/// What a pointer points to, unless that is nothing in particular; and whether it is a
/// reference.
fn target(program: &Program<'_>, pointer: Die) -> Option<(Die, bool)> {
    let mut die = pointer;
    for _ in 0..MAX_HOPS {
        let tag = program.entry(die)?.tag();
        let inner = || program.link(die, dw::DW_AT_type);
        match tag {
            dw::DW_TAG_pointer_type => return Some((without_const(program, inner()?), false)),
            dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                return Some((without_const(program, inner()?), true));
            }
            tag if is_qualifier(tag) => die = inner()?,
            _ => return None,
        }
    }
    None
}

/// That an object is constant for some of the code says nothing about it.
fn without_const(program: &Program<'_>, kind: Die) -> Die {
    let mut die = kind;
    for _ in 0..MAX_HOPS {
        let tag = program.entry(die).map(|entry| entry.tag());
        match program.link(die, dw::DW_AT_type) {
            Some(inner) if tag == Some(dw::DW_TAG_const_type) => die = inner,
            _ => break,
        }
    }
    die
}

/// A type without qualifiers and other names for it.
pub(super) fn bare(program: &Program<'_>, kind: Die) -> Option<Die> {
    let mut die = kind;
    for _ in 0..MAX_HOPS {
        if !is_qualifier(program.entry(die)?.tag()) {
            return Some(program.defined(die));
        }
        die = program.link(die, dw::DW_AT_type)?;
    }
    None
}

/// Whether a bare type has members.
pub(super) fn is_aggregate(program: &Program<'_>, kind: Die) -> bool {
    matches!(
        program.entry(kind).map(|entry| entry.tag()),
        Some(dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type)
    )
}

/// The elements of an array within an object that lie `stride` bytes apart: the first address
/// as one of an element. It is where a computed index leads to.
pub(super) fn element(program: &Program<'_>, object: &Object, stride: u64) -> Option<Object> {
    if stride == 0 {
        return Some(object.clone());
    }
    let is_stride = |size: u64| size > 0 && stride.is_multiple_of(size);
    // The object is itself an element: a pointer to the first.
    let size = program.size_of(object.kind)?;
    let in_first = u64::try_from(object.offset).is_ok_and(|offset| offset < size.max(1));
    if is_stride(size) {
        let length = i64::try_from(size).ok()?;
        let offset = object.offset.rem_euclid(length);
        return Some(Object {
            offset,
            element: true,
            within: object.within.clone().filter(|_| offset == object.offset),
            ..object.clone()
        });
    }
    if !in_first {
        return None;
    }
    let offset = u64::try_from(object.offset).ok()?;
    // A member that is an array. The last index on the way is the one that varies.
    let reached = program.reach(object.called, offset, 1, &[]);
    if reached.part.in_union || !reached.part.steps.iter().any(|step| step.to.ends_with(']')) {
        return None;
    }
    let at = reached
        .part
        .steps
        .iter()
        .rposition(|step| step.to.ends_with(']'))?;
    let (called, start) = *reached.along.get(at)?;
    let kind = bare(program, called)?;
    if !is_stride(program.size_of(kind)?) {
        return None;
    }
    let before = path(reached.part.steps.get(..at)?);
    let (array, index) = reached.part.steps.get(at)?.to.rsplit_once('[')?;
    let own = format!("{before}{array}");
    let text = expression(program, object, &own);
    let index: u64 = index.trim_end_matches(']').parse().ok()?;
    let length = index.checked_mul(program.size_of(kind)?)?;
    let holder = reached.part.steps.get(..at)?.last();
    let within = holder.filter(|step| step.to.starts_with('.') && array.is_empty());
    Some(Object {
        kind,
        called,
        offset: i64::try_from(offset.checked_sub(start)?).ok()?,
        stride: 0,
        element: true,
        first: false,
        global: object.global,
        within: within.and_then(|step| {
            Some(Arc::new(Within {
                root: object.called,
                path: own,
                start: start.checked_sub(length)?,
                step: step.clone(),
            }))
        }),
        written: text.map(|text| Written::Itself(text.into())),
        declared: object.declared,
        doubtful: object.doubtful,
    })
}
