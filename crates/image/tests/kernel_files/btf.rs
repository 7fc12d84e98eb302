//! Types from sections made here.

use super::btf_encoder::Encoder;
use proptest::prelude::*;
use redhanded_image::How;
use redhanded_image::kernel_file::{Btf, Field};
use std::sync::Arc;

const fn whole(offset_bytes: u64, size: u64) -> Field {
    Field {
        offset_bytes,
        bit_offset: 0,
        bit_size: 0,
        size,
    }
}

/// ```c
/// typedef struct { int counter; } atomic_t;
/// struct range { unsigned long base; unsigned int size; };
/// struct module {
///     int state;
///     char name[8];
///     union { struct range layout; struct { struct module *next; unsigned long flags; }; };
///     struct range mem[3];
///     unsigned int a : 3, b : 13;
///     atomic_t users;
///     volatile unsigned int seen;
/// };
/// ```
fn sample() -> Encoder {
    let mut types = Encoder::new();
    let int = types.int("int", 4);
    let unsigned = types.int("unsigned int", 4);
    let long = types.int("long unsigned int", 8);
    let char = types.int("char", 1);
    let range = types.aggregate(
        "range",
        false,
        16,
        &[("base", long, 0, 0), ("size", unsigned, 64, 0)],
    );
    let name = types.array(char, 8);
    let layouts = types.array(range, 3);
    let inner = types.aggregate("", false, 4, &[("counter", int, 0, 0)]);
    let atomic = types.typedef("atomic_t", inner);
    let volatile = types.volatile(unsigned);
    // The module's number is needed before it is there.
    let module = types.next() + 3;
    let pointer = types.pointer(module);
    let unnamed = types.aggregate(
        "",
        false,
        16,
        &[("next", pointer, 0, 0), ("flags", long, 64, 0)],
    );
    let union = types.aggregate(
        "",
        true,
        16,
        &[("layout", range, 0, 0), ("", unnamed, 0, 0)],
    );
    let added = types.aggregate(
        "module",
        false,
        96,
        &[
            ("state", int, 0, 0),
            ("name", name, 32, 0),
            ("", union, 128, 0),
            ("mem", layouts, 256, 0),
            ("a", unsigned, 640, 3),
            ("b", unsigned, 643, 13),
            ("users", atomic, 672, 0),
            ("seen", volatile, 704, 0),
        ],
    );
    assert_eq!(added, module);
    let constant = types.constant(module);
    let constant = types.pointer(constant);
    let alias = types.typedef("module_t", module);
    types.function(
        "load",
        int,
        &[("mod", pointer), ("count", int), ("old", constant), ("", 0)],
    );
    types.others(alias);
    types
}

fn parsed(types: &Encoder) -> Btf {
    Btf::parse(&types.section(), None).unwrap()
}

#[test]
fn fields_by_name() {
    let btf = parsed(&sample());
    for (path, expected) in [
        ("state", whole(0, 4)),
        ("name", whole(4, 8)),
        ("name[3]", whole(7, 1)),
        ("layout.size", whole(24, 4)),
        ("next", whole(16, 8)),
        ("flags", whole(24, 8)),
        ("mem", whole(32, 48)),
        ("mem[2].size", whole(72, 4)),
        ("users", whole(84, 4)),
        ("users.counter", whole(84, 4)),
        (
            "a",
            Field {
                offset_bytes: 80,
                bit_offset: 0,
                bit_size: 3,
                size: 1,
            },
        ),
        (
            "b",
            Field {
                offset_bytes: 80,
                bit_offset: 3,
                bit_size: 13,
                size: 2,
            },
        ),
    ] {
        assert_eq!(btf.field("module", path), Some(expected), "{path}");
        assert_eq!(btf.field("module_t", path), Some(expected), "{path}");
        assert_eq!(btf.field("struct module", path), Some(expected), "{path}");
    }
    for path in [
        "",
        "nothing",
        "mem[3]",
        "mem[",
        "mem[x]",
        "name.x",
        ".state",
        "next.state",
        "state[0]",
    ] {
        assert_eq!(btf.field("module", path), None, "{path:?}");
    }
    assert_eq!(btf.field("union module", "state"), None);
    assert_eq!(btf.size_of("module"), Some(96));
    assert_eq!(btf.size_of("atomic_t"), Some(4));
    assert_eq!(btf.size_of("elsewhere"), None);
}

#[test]
fn places_by_offset() {
    let btf = parsed(&sample());
    let told = |offset, size| {
        let part = btf.path_at("module", offset, size).unwrap();
        (part.path, part.type_name)
    };
    let pair = |path: &str, name: &str| (path.to_owned(), name.to_owned());
    assert_eq!(told(0, 4), pair(".state", "int"));
    assert_eq!(told(6, 1), pair(".name[2]", "char"));
    assert_eq!(told(4, 4), pair(".name[0..4]", "char[8]"));
    // Of a union the first member that fits is told.
    assert_eq!(told(16, 8), pair(".layout.base", "unsigned long"));
    assert!(btf.path_at("module", 16, 8).unwrap().in_union);
    assert_eq!(told(56, 4), pair(".mem[1].size", "unsigned int"));
    assert_eq!(told(48, 16), pair(".mem[1]", "struct range"));
    let part = btf.path_at("module", 84, 4).unwrap();
    assert_eq!(
        (part.path.as_str(), part.synchronising),
        (".users", Some(How::Atomic))
    );
    let part = btf.path_at("module", 88, 4).unwrap();
    assert_eq!(
        (part.path.as_str(), part.synchronising),
        (".seen", Some(How::Volatile))
    );
    let part = btf.path_at("module", 80, 4).unwrap();
    let bits: Vec<_> = part
        .bit_fields
        .iter()
        .map(|b| (b.name.as_str(), b.first_bit, b.bits))
        .collect();
    assert_eq!(bits, [("a", 0, 3), ("b", 3, 13)]);
    assert_eq!(told(81, 1), pair(".b", "unsigned int"));
    let part = btf.path_at("module", 0, 8).unwrap();
    assert_eq!(
        (part.path.as_str(), part.spans),
        ("", vec!["state".to_owned(), "name".to_owned()])
    );
    assert!(btf.path_at("module", 96, 1).is_none());
    assert!(btf.path_at("module", u64::MAX, 8).is_none());
}

#[test]
fn parts_of_variables() {
    let btf = parsed(&sample());
    let part = btf.part_of_variable("counter", 88, 4).unwrap();
    assert_eq!(part.path, ".seen");
    assert_eq!(part.synchronising, Some(How::Volatile));
    assert!(btf.part_of_variable("counter", 96, 1).is_none());
    // A type of the name is no variable.
    assert!(btf.part_of_variable("module", 88, 4).is_none());
    assert!(btf.path_at("counter", 88, 4).is_none());
}

#[test]
fn a_module_goes_on_where_the_kernel_ends() {
    let base = sample();
    let kernel = Arc::new(parsed(&base));
    let long = 3;
    let module = base.next() - 12 - 3;
    let mut types = Encoder::split(&base);
    let own = types.aggregate(
        "toy",
        false,
        104,
        &[("owner", module, 0, 0), ("size", long, 768, 0)],
    );
    let both = types.array(own, 2);
    types.variable("toys", both);
    // A module's own structure of a name that the kernel has, too.
    types.aggregate("range", false, 8, &[("only", long, 0, 0)]);
    let btf = Btf::parse(&types.section(), Some(Arc::clone(&kernel))).unwrap();
    assert_eq!(btf.field("toy", "size"), Some(whole(96, 8)));
    assert_eq!(btf.field("toy", "owner.mem[1].base"), Some(whole(48, 8)));
    assert_eq!(btf.field("module", "state"), Some(whole(0, 4)));
    assert_eq!(btf.field("range", "only"), Some(whole(0, 8)));
    assert_eq!(btf.field("range", "size"), Some(whole(8, 4)));
    let part = btf.path_at("toy", 56, 4).unwrap();
    assert_eq!(part.path, ".owner.mem[1].size");
    let part = btf.part_of_variable("toys", 104 + 56, 4).unwrap();
    assert_eq!(part.path, "[1].owner.mem[1].size");
    assert_eq!(part.type_name, "unsigned int");
    assert!(btf.part_of_variable("counter", 88, 4).is_some());
    assert_eq!(kernel.field("toy", "size"), None);
}

#[test]
fn circles_end() {
    let mut types = Encoder::new();
    // A typedef of itself, and two of each other.
    types.typedef("self", 1);
    types.typedef("one", 3);
    types.typedef("other", 2);
    // A structure that holds itself without a name, often.
    let me = types.next();
    let many: Vec<_> = (0..500).map(|_| ("", me, 0, 0)).collect();
    types.aggregate("knot", false, 8, &many);
    // An array of itself.
    let me = types.next();
    types.array(me, 7);
    types.aggregate("row", false, 8, &[("x", me, 0, 0)]);
    // Each holds the next a hundred times: a hundred to the fortieth paths.
    for level in 0..40 {
        let next = types.next() + 1;
        let name = format!("tree{level}");
        let many: Vec<_> = (0..100).map(|_| ("", next, 0, 0)).collect();
        types.aggregate(&name, false, 8, &many);
    }
    let btf = parsed(&types);
    for name in ["self", "one", "other", "knot", "row", "tree0"] {
        assert_eq!(btf.field(name, "absent"), None, "{name}");
        let _ = (btf.size_of(name), btf.path_at(name, 0, 1));
    }
    assert_eq!(btf.size_of("self"), None);
    assert_eq!(btf.field("row", "x[1][1][1]"), None);
}

/// A structure's members: names with numbers, and what they are.
#[derive(Clone, Debug)]
enum Shape {
    Int(u32),
    Array(Box<Shape>, u32),
    Struct {
        members: Vec<Shape>,
        named: bool,
        union: bool,
    },
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop::sample::select(vec![1u32, 2, 4, 8]).prop_map(Shape::Int);
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            1 => (inner.clone(), 1..5u32).prop_map(|(of, count)| Shape::Array(Box::new(of), count)),
            3 => (prop::collection::vec(inner, 1..6), any::<bool>(), any::<bool>())
                .prop_map(|(members, named, union)| Shape::Struct { members, named, union }),
        ]
    })
}

/// An integer in a structure.
struct Leaf {
    path: String,
    start: u32,
    size: u32,
    /// Whether a union is passed on the way.
    in_union: bool,
}

impl Leaf {
    fn inside(mut self, step: &str, start: u32, union: bool) -> Self {
        self.path.insert_str(0, step);
        self.start += start;
        self.in_union |= union;
        self
    }
}

/// Writes the type; its number, its size, and where its integers are.
fn write(types: &mut Encoder, shape: &Shape, number: &mut u32) -> (u32, u32, Vec<Leaf>) {
    match shape {
        Shape::Int(size) => {
            let leaf = Leaf {
                path: String::new(),
                start: 0,
                size: *size,
                in_union: false,
            };
            (types.int("int", *size), *size, vec![leaf])
        }
        Shape::Array(of, count) => {
            let (id, size, leaves) = write(types, of, number);
            let at = count - 1;
            let last = leaves
                .into_iter()
                .map(|leaf| leaf.inside(&format!("[{at}]"), at * size, false))
                .collect();
            (types.array(id, *count), size * count, last)
        }
        Shape::Struct { members, union, .. } => {
            let (mut size, mut list, mut leaves) = (0, Vec::new(), Vec::new());
            for member in members {
                let (id, len, inner) = write(types, member, number);
                let start = if *union { 0 } else { size };
                size = size.max(start + len);
                let unnamed = matches!(member, Shape::Struct { named: false, .. });
                *number += 1;
                let (name, step) = match unnamed {
                    true => (String::new(), String::new()),
                    false => (format!("m{number}"), format!(".m{number}")),
                };
                list.push((name, id, start));
                let inner = inner.into_iter();
                leaves.extend(inner.map(|leaf| leaf.inside(&step, start, *union)));
            }
            let list: Vec<_> = list
                .iter()
                .map(|(name, id, start)| (name.as_str(), *id, start * 8, 0))
                .collect();
            (types.aggregate("", *union, size, &list), size, leaves)
        }
    }
}

proptest! {
    #[test]
    fn every_integer_is_found(shape in shapes()) {
        let mut types = Encoder::new();
        let (id, size, leaves) = write(&mut types, &shape, &mut 0);
        types.aggregate("top", false, size, &[("top", id, 0, 0)]);
        let btf = parsed(&types);
        prop_assert_eq!(btf.size_of("top"), Some(u64::from(size)));
        for Leaf { path, start, size, in_union } in leaves {
            let place = whole(u64::from(start), u64::from(size));
            prop_assert_eq!(btf.field("top", &format!("top{path}")), Some(place), "{}", path);
            let part = btf.path_at("top", u64::from(start), u64::from(size)).unwrap();
            prop_assert_eq!(part.in_union, in_union, "{}", part.path);
            if !in_union {
                prop_assert_eq!(part.path, format!(".top{path}"));
            }
        }
    }

    #[test]
    fn damage_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut section = sample().section();
        for (at, byte) in damage {
            let at = at.index(section.len());
            section[at] = byte;
        }
        let cut = cut.index(section.len() * 4);
        section.truncate(cut.max(8));
        if let Ok(btf) = Btf::parse(&section, None) {
            for path in ["state", "mem[1].base", "next", "name[2]", "b"] {
                let _ = btf.field("module", path);
            }
            for offset in 0..100 {
                let _ = btf.path_at("module", offset, 4);
            }
            let _ = btf.part_of_variable("counter", 4, 4);
        }
    }
}
