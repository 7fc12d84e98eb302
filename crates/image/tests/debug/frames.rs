use super::compile::{Built, build};
use redhanded_image::{DebugInfo, DebugSearch, SourceFrame};

fn debug(built: &Built) -> DebugInfo {
    DebugInfo::new(&built.image(), DebugSearch::nowhere())
}

/// The frames of the first address of a function at which `wanted` holds.
fn find(built: &Built, symbol: &str, wanted: impl Fn(&[SourceFrame]) -> bool) -> Vec<SourceFrame> {
    let debug = debug(built);
    let start = built.symbol(symbol);
    (0..200)
        .map(|offset| debug.frames(start.offset(offset)))
        .find(|frames| wanted(frames))
        .unwrap_or_else(|| panic!("no such place in {symbol}"))
}

#[test]
fn inlined_frames_are_told_innermost_first() {
    for options in [&["-g", "-O1"][..], &["-g", "-O2", "-gdwarf-4"]] {
        let built = build("frames.cc", options);
        let frames = find(&built, "_ZN4deep4workERNS_7CounterEi", |frames| {
            frames.len() == 3
        });
        let names: Vec<_> = frames
            .iter()
            .map(|f| f.function.as_deref().unwrap())
            .collect();
        assert_eq!(
            names,
            ["deep::Counter::add", "deep::twice<int>", "deep::work"]
        );
        assert_eq!(frames[0].line, Some(5));
        assert!(matches!(frames[1].line, Some(10 | 11)));
        assert_eq!(frames[2].line, Some(14));
        let inlined: Vec<_> = frames.iter().map(|f| f.inlined).collect();
        assert_eq!(inlined, [true, true, false]);
        assert!(frames[0].file.as_deref().unwrap().ends_with("frames.cc"));
        assert_eq!(
            frames[2].linkage_name.as_deref(),
            Some("_ZN4deep4workERNS_7CounterEi")
        );
        assert!(debug(&built).covers(built.symbol("main")));
    }
}

#[test]
fn rust_names_lose_their_hash() {
    for mangling in [&[][..], &["-Csymbol-mangling-version=v0"]] {
        let options = [&["-g", "--crate-name=fix", "-Cstrip=none"], mangling].concat();
        let built = build("variables.rs", &options);
        let frames = debug(&built).frames(built.symbol("fix::touch"));
        assert_eq!(
            frames.last().unwrap().function.as_deref(),
            Some("fix::touch")
        );
        assert!(frames.last().unwrap().line.is_some());
    }
}

#[test]
fn without_debug_information_the_symbol_is_told() {
    let built = build("frames.cc", &["-O1"]);
    let debug = debug(&built);
    assert!(!debug.available());
    let frames = debug.frames(built.symbol("_ZN4deep4workERNS_7CounterEi").offset(2));
    let [frame] = frames.as_slice() else {
        panic!("{frames:?}")
    };
    assert_eq!(frame.function.as_deref(), Some("deep::work"));
    assert_eq!((frame.line, &frame.file), (None, &None));
    assert!(!debug.covers(built.symbol("main")));
}
