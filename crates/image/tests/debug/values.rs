//! What the bytes of variables mean in their types.

use super::compile::{Built, build};
use redhanded_image::{DebugInfo, DebugSearch, Shown};

/// What `bytes` at `offset` of a symbol are.
fn shown(built: &Built, symbol: &str, offset: u64, bytes: &[u8]) -> Option<Shown> {
    let debug = DebugInfo::new(&built.image(), DebugSearch::nowhere());
    let variable = debug.variable_at(built.symbol(symbol).offset(offset))?;
    let part = variable.part(offset, bytes.len() as u64);
    part.reading?.show(bytes)
}

#[track_caller]
fn check(built: &Built, symbol: &str, offset: u64, bytes: &[u8], expect: Option<&str>) {
    let expect = expect.map(|text| Shown::Text(text.to_owned()));
    let found = shown(built, symbol, offset, bytes);
    assert_eq!(found, expect, "{symbol}+{offset}: {bytes:x?}");
}

#[test]
fn c_values_are_read_in_their_types() {
    for options in [&["-g"][..], &["-g", "-gdwarf-4", "-fshort-enums"]] {
        let built = build("values.c", options);
        // Short enumerations move the members behind them.
        let short = options.len() > 1;
        if short {
            check(&built, "job", 0, &[0xff], Some("DEAD"));
            check(&built, "job", 1, &[0x81], Some("READ | EXCLUSIVE"));
            continue;
        }
        let job = |offset, bytes: &[u8], expect| check(&built, "job", offset, bytes, expect);
        job(0, &[1, 0, 0, 0], Some("BUSY"));
        job(0, &[0xff; 4], Some("DEAD"));
        job(0, &[3, 0, 0, 0], Some("3"));
        job(0, &[1], None); // a part of it
        job(0, &[1, 0, 0, 0, 1, 0, 0, 0], None); // two members
        job(4, &[3, 0, 0, 0], Some("READ | WRITE"));
        job(8, &[1], Some("true"));
        job(9, b"q", Some("'q'"));
        job(10, b"q", Some("113"));
        job(11, &[0xff], Some("-1"));
        job(12, &0.25f32.to_le_bytes(), Some("0.25"));
        job(16, &(-3.5f64).to_le_bytes(), Some("-3.5"));
        job(40, &(-9i64).to_le_bytes(), Some("-9"));
        for pointer in [24, 32] {
            let address = shown(&built, "job", pointer, &[0; 8]);
            assert_eq!(address, Some(Shown::Address(0)));
        }
    }
}

#[test]
fn rust_values_are_read_in_their_types() {
    let options = ["-g", "--crate-name=fix", "-Cstrip=none"];
    let built = build("values.rs", &options);
    check(&built, "fix::MODE", 0, &[200], Some("Mode::Fast"));
    check(&built, "fix::MODE", 0, &[3], Some("Mode::Slow"));
    check(&built, "fix::MARK", 0, &[0xe4, 0, 0, 0], Some("'ä'"));
    check(&built, "fix::BALANCE", 0, &[0xfe, 0xff], Some("-2"));
    check(&built, "fix::OWNER", 0, &[0; 8], Some("None"));
    check(&built, "fix::OWNER", 0, &[1; 8], Some("Some"));
    check(&built, "fix::OUTCOME", 0, &[1], Some("Err"));
    check(&built, "fix::SHAPE", 0, &[0, 0, 0, 0], Some("Shape::Dot"));
    check(&built, "fix::SHAPE", 0, &[2, 0, 0, 0], Some("Shape::Ring"));
    check(&built, "fix::SHAPE", 0, &[9, 0, 0, 0], None);
}
