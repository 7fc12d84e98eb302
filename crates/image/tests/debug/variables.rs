use super::compile::{Built, build};
use redhanded_image::{DebugInfo, DebugSearch, How, Part};
use redhanded_model::{BitField, Svma};

fn debug(built: &Built) -> DebugInfo {
    DebugInfo::new(&built.image(), DebugSearch::nowhere())
}

/// Checks the path and type of `size` bytes at `offset` of a symbol.
fn check(
    built: &Built,
    symbol: &str,
    offset: u64,
    size: u64,
    name: &str,
    expect: (&str, &str),
) -> Part {
    let start = built.symbol(symbol);
    let variable = debug(built)
        .variable_at(start.offset(offset))
        .unwrap_or_else(|| panic!("nothing at {symbol}+{offset}"));
    assert_eq!(variable.name, name);
    assert_eq!(variable.svma, start);
    assert!(variable.is_typed(), "{name} has no type");
    let part = variable.part(offset, size);
    assert_eq!(
        (part.path.as_str(), part.type_name.as_str()),
        expect,
        "{name}+{offset}"
    );
    part
}

fn check_c(options: &[&str]) {
    let built = build("variables.c", options);
    check(&built, "list", 0, 4, "list", (".magic", "uint32_t"));
    check(&built, "list", 8, 8, "list", (".next", "struct node *"));
    check(&built, "list", 28, 4, "list", (".corners[1].y", "int"));
    check(&built, "list", 40, 8, "list", (".label", "const char *"));
    let value = check(&built, "list", 48, 8, "list", (".value.word", "uint64_t"));
    assert!(value.in_union);
    let stop = check(&built, "list", 60, 4, "list", (".stop", "volatile int"));
    assert_eq!(stop.synchronising, Some(How::Volatile));
    check(
        &built,
        "list",
        72,
        8,
        "list",
        (".compare", "int (*)(const void *, const void *)"),
    );
    // Two fields at once: what holds them, and their names.
    let both = check(
        &built,
        "list",
        16,
        8,
        "list",
        (".corners[0]", "struct point"),
    );
    assert_eq!(both.spans, ["x", "y"]);
    assert_eq!(both.synchronising, None);

    check(&built, "grid", 4 * 7, 4, "grid", ("[1][2]", "int"));
    check(
        &built,
        "grid",
        4 * 6,
        16,
        "grid",
        ("[1][1..5]", "int[4][5]"),
    );
    let total = check(&built, "total", 0, 4, "total", ("", "atomic_int"));
    assert_eq!(total.synchronising, Some(How::Atomic));
    let beat = check(&built, "beat", 0, 8, "beat", ("", "volatile unsigned long"));
    assert_eq!(beat.synchronising, Some(How::Volatile));
    check(&built, "cursor", 0, 8, "cursor", ("", "struct point *"));

    let bits = check(&built, "list", 56, 2, "list", ("", "struct node"));
    let expect = [("ready", 0, 1), ("level", 1, 3), ("owner", 4, 12)];
    let expect: Vec<BitField> = expect
        .into_iter()
        .map(|(name, first_bit, bits)| BitField {
            name: name.into(),
            first_bit,
            bits,
        })
        .collect();
    assert_eq!(bits.bit_fields, expect);
    // The second byte holds the rest of `owner` alone.
    let owner = check(&built, "list", 57, 1, "list", (".owner", "unsigned int"));
    let rest = BitField {
        name: "owner".into(),
        first_bit: 0,
        bits: 8,
    };
    assert_eq!(owner.bit_fields, [rest]);

    let calls = built
        .symbols()
        .into_iter()
        .find(|(name, _)| name.starts_with("calls."))
        .unwrap();
    let calls = debug(&built).variable_at(calls.1).unwrap();
    assert_eq!((calls.name.as_str(), calls.size), ("bump::calls", 4));
    let (file, line) = calls.declared.unwrap();
    assert_eq!(
        (file.file_name().unwrap().to_str(), line),
        (Some("variables.c"), 34)
    );
}

#[test]
fn c_variables_in_dwarf_5() {
    check_c(&["-g", "-gdwarf-5"]);
    let built = build("variables.c", &["-g", "-gdwarf-5"]);
    let users = check(&built, "list", 64, 4, "list", (".users", "_Atomic int"));
    assert_eq!(users.synchronising, Some(How::Atomic));
}

#[test]
fn c_variables_in_dwarf_4() {
    check_c(&["-g", "-gdwarf-4"]);
}

#[test]
fn c_variables_in_dwarf_3_count_bits_from_the_top() {
    check_c(&["-g", "-gdwarf-3", "-gstrict-dwarf"]);
}

#[test]
fn c_variables_in_compressed_sections() {
    check_c(&["-g", "-gz=zlib"]);
    check_c(&["-g", "-gz=zlib-gnu"]);
}

#[test]
fn c_variables_in_an_optimised_program() {
    check_c(&["-g", "-O1", "-fno-toplevel-reorder"]);
}

#[test]
fn c_variables_in_separate_type_units() {
    check_c(&["-g", "-fdebug-types-section"]);
    check_c(&["-g", "-gdwarf-4", "-fdebug-types-section"]);
}

#[test]
fn thread_locals_are_not_found() {
    let built = build("variables.c", &["-g"]);
    let debug = debug(&built);
    for (name, svma) in built.symbols() {
        if let Some(variable) = debug.variable_at(svma) {
            assert_ne!(variable.name, "own", "at {name}");
        }
    }
}

#[test]
fn cpp_variables_have_their_scopes() {
    let built = build("variables.cc", &["-g"]);
    check(
        &built,
        "_ZN4shop4tillE",
        0,
        8,
        "shop::till",
        (".id", "long"),
    );
    check(
        &built,
        "_ZN4shop4tillE",
        8,
        4,
        "shop::till",
        (".drawer", "int"),
    );
    let sales = check(
        &built,
        "_ZN4shop4tillE",
        12,
        4,
        "shop::till",
        (".sales", "std::atomic<int>"),
    );
    assert_eq!(sales.synchronising, Some(How::Atomic));
    check(
        &built,
        "_ZN4shop4Till5countE",
        0,
        4,
        "shop::Till::count",
        ("", "int"),
    );
    check(
        &built,
        "_ZN4shop12_GLOBAL__N_16hiddenE",
        0,
        4,
        "shop::(anonymous namespace)::hidden",
        ("", "int"),
    );
    check(
        &built,
        "_ZZN4shop5visitEvE6visits",
        0,
        4,
        "shop::visit::visits",
        ("", "int"),
    );
    check(
        &built,
        "_ZN4shop5whereE",
        0,
        8,
        "shop::where",
        ("", "std::vector<int> *"),
    );
    check(
        &built,
        "_ZN4shop5namesB5cxx11E",
        0,
        8,
        "shop::names",
        ("", "const std::vector<std::string> &"),
    );
    check(
        &built,
        "_ZZ4lazyvE4made",
        0,
        4,
        "lazy::made",
        (".field", "int"),
    );
    let prices = built.symbol("_ZN4shop6pricesE");
    let prices = debug(&built).variable_at(prices).unwrap();
    let end = prices.part(8, 8);
    assert_eq!(end.path, "._M_impl._M_finish");
    assert_eq!(end.path_as_written(), "._M_finish");
}

#[test]
fn a_guard_synchronises() {
    for options in [&["-g"][..], &[]] {
        let built = build("variables.cc", options);
        let guard = built.symbol("_ZGVZ4lazyvE4made");
        let guard = debug(&built).variable_at(guard).unwrap();
        assert_eq!(
            guard.part(0, 1).synchronising,
            Some(How::Guard),
            "{}",
            guard.name
        );
    }
}

#[test]
fn rust_variables_have_their_paths() {
    let built = build("variables.rs", &["-g", "--crate-name=fix", "-Cstrip=none"]);
    let pair = |offset| {
        let at = built.symbol("fix::PAIR").offset(offset);
        debug(&built).variable_at(at).unwrap().part(offset, 1).path
    };
    // rustc orders fields as it likes: look where each one is.
    let paths: Vec<String> = (0..8).map(pair).collect();
    for path in [".left", ".right.0", ".right.1"] {
        assert!(paths.iter().any(|p| p == path), "{path} in {paths:?}");
    }
    check(&built, "fix::TABLE", 12, 2, "fix::TABLE", ("[1][2]", "u16"));
    let hits = check(
        &built,
        "fix::HITS",
        0,
        4,
        "fix::HITS",
        ("", "core::sync::atomic::AtomicU32"),
    );
    assert_eq!(hits.synchronising, Some(How::Atomic));
    check(&built, "inner::DEEP", 0, 8, "fix::inner::DEEP", ("", "i64"));
    check(
        &built,
        "fix::touch::LOCAL",
        0,
        4,
        "fix::touch::LOCAL",
        ("", "u32"),
    );
    check(&built, "fix::SHAPE", 0, 8, "fix::SHAPE", ("", "fix::Shape"));
    let length = check(
        &built,
        "fix::SHAPE",
        8,
        8,
        "fix::SHAPE",
        (".Line.length", "u64"),
    );
    assert!(!length.in_union, "no other variant has anything there");
}

#[test]
fn without_debug_information_the_symbol_is_told() {
    let built = build("variables.c", &[]);
    let list = built.symbol("list");
    let found = debug(&built).variable_at(list.offset(8)).unwrap();
    assert_eq!(
        (found.name.as_str(), found.svma, found.is_typed()),
        ("list", list, false)
    );
    assert_eq!(found.part(8, 8).path, "+8");
    assert!(debug(&built).variable_at(Svma(1)).is_none());
}
