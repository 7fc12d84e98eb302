//! Whatever a target and its files claim, a report comes out, and it is only
//! text.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use redhanded_model::{
    AccessKind, AccessReport, BitField, Class, Fingerprint, Frame, Loss, Losses, Race, Region,
    RunReport, SeenBy, SiteCounts, Svma, ThreadName, Unseen, Values, What,
};
use redhanded_report::{Style, Terminal, json};

/// Names with what names may hold and what they must not.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{0,12}",
        "(a::)?[a-z]{1,9}<[a-z, <>]{0,20}>\\([a-z ]{0,9}\\)",
        any::<String>(),
        "(\x1b|\u{9b}|\u{202e}|\n|\r|\t|[a-zé漢]){0,12}",
        "[a-z:]{100,200}",
    ]
}

fn thread() -> impl Strategy<Value = ThreadName> {
    (any::<u32>(), name()).prop_map(|(tid, name)| ThreadName {
        tid,
        name,
        context: None,
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        option::of(name()),
        option::of(name()),
        option::of(any::<u32>()),
        option::of(name()),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(function, file, line, module, address, inlined)| Frame {
            function,
            file,
            line,
            module,
            address,
            inlined,
        })
}

fn kind() -> impl Strategy<Value = AccessKind> {
    prop_oneof![
        Just(AccessKind::Read),
        Just(AccessKind::Write),
        Just(AccessKind::Update)
    ]
}

fn access() -> impl Strategy<Value = AccessReport> {
    (
        (thread(), kind(), any::<u64>(), any::<u64>(), any::<bool>()),
        option::of(name()),
        option::of(name()),
        option::of(any::<u32>()),
        option::of(name()),
        vec(frame(), 0..5),
    )
        .prop_map(
            |((thread, kind, size, pc, atomic), function, file, line, system_call, stack)| {
                AccessReport {
                    thread,
                    kind,
                    size,
                    pc,
                    instruction: system_call.clone(),
                    atomic,
                    function,
                    file,
                    line,
                    system_call,
                    stack,
                }
            },
        )
}

fn region() -> impl Strategy<Value = Region> {
    prop_oneof![
        name().prop_map(|module| Region::Global { module }),
        Just(Region::Heap),
        thread().prop_map(|thread| Region::Stack { thread }),
        (name(), 0..8u32).prop_map(|(module, cpu)| Region::PerCpu {
            module,
            cpu,
            svma: Svma(0x1f00),
        }),
        (name(), any::<bool>()).prop_map(|(name, shared)| Region::Mapping { name, shared }),
        Just(Region::Unknown),
    ]
}

fn bit() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..80, any::<u32>()]
}

fn what() -> impl Strategy<Value = What> {
    let type_name = prop_oneof![Just("double".to_owned()), Just("int".to_owned()), name()];
    let bit_field = (name(), bit(), bit()).prop_map(|(name, first_bit, bits)| BitField {
        name,
        first_bit,
        bits,
    });
    (
        option::of(name()),
        option::of(type_name),
        option::of(name()),
        vec(bit_field, 0..4),
        any::<u64>(),
        any::<u64>(),
        region(),
    )
        .prop_map(
            |(name, type_name, field, bit_fields, address, size, region)| What {
                name,
                type_name,
                field,
                bit_fields,
                address,
                size,
                region,
            },
        )
}

fn race() -> impl Strategy<Value = Race> {
    (
        name(),
        name(),
        any::<bool>(),
        what(),
        any::<bool>(),
        (vec(any::<u8>(), 0..70), vec(any::<u8>(), 0..70)),
        any::<u64>(),
        vec(access(), 0..4),
    )
        .prop_map(
            |(id, fingerprint, certain, what, watched, (before, after), instances, accesses)| {
                Race {
                    id,
                    fingerprint: Fingerprint(fingerprint),
                    class: if certain {
                        Class::Race
                    } else {
                        Class::PossiblyAtomic
                    },
                    what,
                    seen_by: if watched {
                        SeenBy::Watch
                    } else {
                        SeenBy::Value
                    },
                    values: Values { before, after },
                    instances,
                    accesses,
                    suspects: Vec::new(),
                    special: None,
                    lines: Vec::new(),
                }
            },
        )
}

fn run() -> impl Strategy<Value = RunReport> {
    (
        (
            vec(name(), 0..3),
            option::of(name()),
            vec((name(), name()), 0..3),
        ),
        (any::<f64>(), any::<f64>(), any::<f64>()),
        (
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
        ),
        (any::<u64>(), any::<u64>()),
        vec(race(), 0..3),
    )
        .prop_map(
            |((program, ending, unseen), (wall_s, held_s, thread_s), numbers, lost, races)| {
                let (samples, windows, total, armed, sampled) = numbers;
                RunReport {
                    program,
                    runs: windows,
                    cut_off: windows / 2,
                    wall_s,
                    samples,
                    windows,
                    held_s,
                    thread_s,
                    standstill: None,
                    sites: SiteCounts {
                        total,
                        armed,
                        sampled,
                    },
                    losses: Losses([(Loss::Alone, lost.0), (Loss::StaleTrap, lost.1)].into()),
                    unseen: unseen
                        .into_iter()
                        .map(|(what, why)| Unseen { what, why })
                        .collect(),
                    crash: None,
                    cut_short: false,
                    ending,
                    races,
                }
            },
        )
}

fn style() -> impl Strategy<Value = Style> {
    (any::<bool>(), 0usize..200, any::<bool>()).prop_map(|(color, width, unicode)| Style {
        color,
        width,
        unicode,
    })
}

/// `text` without the colour sequences a report itself uses: an escape, a
/// bracket, digits and semicolons, an `m`.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let parameters = sequence[2..]
            .find(|c: char| !c.is_ascii_digit() && c != ';')
            .map_or(sequence.len(), |end| end + 2);
        rest = match sequence[parameters..].strip_prefix('m') {
            Some(rest) => rest,
            None => {
                plain.push('\x1b');
                &sequence[1..]
            }
        };
    }
    plain + rest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_run_renders_as_text_alone(report in run(), style in style(), line in name()) {
        let terminal = Terminal::new(style).with_source(move |_, _| Some(line.clone()));
        let mut text = Vec::new();
        for race in &report.races {
            terminal.race(&mut text, race, report.windows).unwrap();
        }
        terminal.full(&mut text, &report).unwrap();
        let text = String::from_utf8(text).unwrap();
        let plain = if style.color { without_colours(&text) } else { text };
        let raw = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        prop_assert!(!plain.contains(raw), "{plain:?}");
        prop_assert!(style.unicode || plain.is_ascii(), "{plain:?}");
    }

    #[test]
    fn any_run_is_a_document(report in run()) {
        let mut text = Vec::new();
        json::write(&report, &mut text).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let races = document["races"].as_array().unwrap();
        prop_assert_eq!(races.len(), report.races.len());
        for (document, race) in races.iter().zip(&report.races) {
            prop_assert_eq!(document["id"].as_str().unwrap(), &race.id);
            prop_assert_eq!(document["what"]["name"].as_str(), race.what.name.as_deref());
        }
    }
}
