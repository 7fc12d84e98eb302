//! Symbols from tables made here, in every layout.

use super::bare_elf::{DATA, TEXT, TEXT_SIZE, kernel};
use super::kallsyms_encoder::{Addresses, Order, encode};
use proptest::prelude::*;
use redhanded_image::Image;
use redhanded_image::kernel_file::{KernelFileError, KernelSymbol, symbols, with_symbols};

fn symbol(address: u64, kind: char, name: &str) -> KernelSymbol {
    KernelSymbol {
        address,
        kind,
        name: name.to_owned(),
    }
}

fn layouts() -> impl Iterator<Item = (Order, Addresses, bool)> {
    use Addresses::{FromHere, PerCpu, Relative, Whole};
    let orders = [Order::Until6_3, Order::Of6_2, Order::Since6_4];
    let each = move |order| {
        let last = order == Order::Since6_4;
        [
            (Whole, true),
            (Whole, false),
            (Relative, false),
            (PerCpu, false),
        ]
        .into_iter()
        .chain(last.then_some((FromHere, false)))
        .map(move |(addresses, wide)| (order, addresses, wide))
    };
    orders.into_iter().flat_map(each)
}

/// Sorted symbols: functions in the code, variables behind it.
fn any_symbols() -> impl Strategy<Value = Vec<KernelSymbol>> {
    let name = prop_oneof![
        8 => "[_a-z][_a-z0-9.]{0,30}",
        2 => "__x64_sys_[a-z]{1,8}_lock",
        1 => "_R[A-Za-z0-9_]{150,400}",
    ];
    let one = (0..TEXT_SIZE * 2, any::<bool>(), name);
    prop::collection::vec(one, 1..700).prop_map(|all| {
        let mut all: Vec<KernelSymbol> = all
            .into_iter()
            .map(|(offset, global, name)| {
                let kind = if offset < TEXT_SIZE { 't' } else { 'd' };
                let kind = if global {
                    kind.to_ascii_uppercase()
                } else {
                    kind
                };
                symbol(TEXT + offset, kind, &name)
            })
            .collect();
        all.push(symbol(TEXT, 'T', "_text"));
        all.sort_by_key(|symbol| symbol.address);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_list_comes_back(list in any_symbols()) {
        for (order, addresses, wide) in layouts() {
            let image = encode(&list, order, addresses, wide);
            let found = symbols(&image);
            prop_assert!(found.is_ok(), "{order:?} {addresses:?}: {found:?}");
            prop_assert_eq!(found.unwrap(), list.clone(), "{:?} {:?}", order, addresses);
        }
    }

    #[test]
    fn damage_never_panics(
        list in any_symbols(),
        layout in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let layouts: Vec<_> = layouts().collect();
        let (order, addresses, wide) = layouts[layout.index(layouts.len())];
        let mut image = encode(&list, order, addresses, wide);
        for (at, byte) in damage {
            let at = at.index(image.len());
            image[at] = byte;
        }
        if let Ok(found) = symbols(&image) {
            let _ = with_symbols(&image, &found);
        }
    }
}

#[test]
fn per_cpu_variables_keep_their_offsets() {
    let list = [
        symbol(0, 'A', "__per_cpu_start"),
        symbol(0x1f40, 'A', "runqueues"),
        symbol(TEXT, 'T', "_text"),
        symbol(TEXT + 0x10, 't', "do_nothing"),
        symbol(DATA, 'D', "jiffies"),
    ];
    for order in [Order::Until6_3, Order::Of6_2, Order::Since6_4] {
        let image = encode(&list, order, Addresses::PerCpu, false);
        assert_eq!(symbols(&image).unwrap(), list, "{order:?}");
    }
}

#[test]
fn what_looks_like_more_names_does_not_win() {
    let list = [
        symbol(TEXT, 'T', "_text"),
        symbol(TEXT + 0x10, 't', "do_nothing"),
    ];
    // A number, that many names, a marker; but token 1 is empty, and so are
    // these names. Those of token `t` are names with a kind, but no addresses
    // go with them.
    for token in [1, b't'] {
        let mut decoy = 100u64.to_le_bytes().to_vec();
        decoy.extend([1, token].repeat(100));
        decoy.extend([0; 8]);
        for (order, addresses, wide) in layouts() {
            let mut image = encode(&list, order, addresses, wide);
            let filler = [99u32; 3].map(u32::to_le_bytes).concat();
            let at = image.windows(12).position(|bytes| bytes == filler);
            let at = at.unwrap().next_multiple_of(8);
            image[at..at + decoy.len()].copy_from_slice(&decoy);
            assert_eq!(symbols(&image).unwrap(), list, "{order:?} {addresses:?}");
        }
    }
}

#[test]
fn a_kernel_without_tables_is_told() {
    let data: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    for data in [&data[..], &[0; 4096], &[]] {
        let error = symbols(&kernel(&[0xc3], data)).unwrap_err();
        assert!(
            matches!(error, KernelFileError::NoSymbols { .. }),
            "{error}"
        );
    }
    assert!(symbols(b"\x7fELF").is_err());
}

#[test]
fn addresses_that_are_not_code_are_refused() {
    // All functions outside of the code: the names alone prove nothing.
    let list = [
        symbol(DATA + 0x100, 'T', "here"),
        symbol(DATA + 0x200, 'T', "there"),
    ];
    let image = encode(&list, Order::Since6_4, Addresses::Relative, false);
    assert!(symbols(&image).is_err());
}

#[test]
fn the_image_has_the_functions() {
    let list = [
        symbol(TEXT, 'T', "_stext"),
        symbol(TEXT, 'T', "first"),
        symbol(TEXT + 3, 't', "second"),
        symbol(TEXT + 0x10, 'T', "__sched_text_start"),
        symbol(TEXT + 0x10, 'W', "third"),
        symbol(DATA + 8, 'D', "counter"),
    ];
    // first: mov eax, [rdi]; ret. second: mov [rsi], eax; ret
    let code = [0x8b, 0x07, 0xc3, 0x89, 0x06, 0xc3];
    let bare = kernel(&code, &[0; 64]);
    let named = with_symbols(&bare, &list).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmlinux");
    std::fs::write(&path, &named).unwrap();
    let image = Image::open(&path).unwrap();
    let functions: Vec<(u64, u64, &str)> = image
        .functions()
        .as_slice()
        .iter()
        .map(|f| (f.start.0, f.end.0, f.name.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        functions,
        [
            (TEXT, TEXT + 3, "first"),
            (TEXT + 3, TEXT + 0x10, "second"),
            (TEXT + 0x10, TEXT + TEXT_SIZE, "third"),
        ]
    );
    let sites: Vec<u64> = image.sites().sites.iter().map(|s| s.svma.0).collect();
    assert_eq!(sites, [TEXT, TEXT + 3]);
    let variable = image.debug().variable_at(redhanded_model::Svma(DATA + 12));
    assert_eq!(variable.map(|v| v.name), Some("counter".to_owned()));
    // What has symbols already keeps them.
    assert_eq!(with_symbols(&named, &[]).unwrap(), named);
    assert!(
        image
            .section(".rodata")
            .is_some_and(|data| data.len() == 64)
    );
}
