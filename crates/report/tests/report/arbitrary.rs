//! Whatever a target and its files claim, a report comes out, and it is only
//! text.

use crate::fixtures;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use redhanded_model::{
    AccessKind, AccessReport, AccessValue, Analysed, Analysis, BitField, Block, Class, Context,
    ContextKind, Crash, CrashWindow, Creation, Differing, Ending, Fingerprint, Frame, Hunted,
    Leaning, Leans, Line, Loss, Losses, Pointee, PointeeSource, Quote, Race, RaceStanding, Region,
    ReplayTally, Report, Rule, Run, SeenBy, SiteCounts, Spot, Standstill, Suspect, Svma,
    ThreadName, Typed, Unseen, Usage, Values, Verdict, What, combine,
};
use redhanded_report::json::{self, Json};
use redhanded_report::{Format, Style, Terminal, Writer};
use std::sync::Arc;
use std::time::Duration;

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
    use ContextKind::{Hardirq, Nmi, Softirq, Task};
    let kind = select(vec![Hardirq, Nmi, Softirq, Task]);
    let context = (any::<u32>(), kind, any::<bool>(), any::<bool>()).prop_map(
        |(cpu, kind, interrupts_off, preemption_off)| Context {
            cpu,
            kind,
            interrupts_off,
            preemption_off,
        },
    );
    (any::<u32>(), name(), option::of(context)).prop_map(|(tid, name, context)| ThreadName {
        tid,
        name,
        context,
    })
}

/// Times as a run measures them.
fn measured() -> impl Strategy<Value = f64> + Clone {
    (0..1_000_000_000_000_000u64).prop_map(|microseconds| microseconds as f64 / 1e6)
}

fn suspect() -> impl Strategy<Value = Suspect> {
    prop_oneof![
        (thread(), name()).prop_map(|(thread, call)| Suspect::SystemCall { thread, call }),
        (any::<u32>(), name()).prop_map(|(pid, name)| Suspect::Process { pid, name }),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        any::<i32>().prop_map(|status| Ending::Exited { status }),
        (any::<i32>(), any::<bool>()).prop_map(|(signal, core)| Ending::Killed { signal, core }),
        Just(Ending::EndedByUs),
        Just(Ending::LeftRunning),
        Just(Ending::LeftStopped),
    ]
}

fn crash(seconds: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Crash> {
    let window = (
        seconds.clone(),
        any::<u32>(),
        frame(),
        seconds,
        any::<bool>(),
    )
        .prop_map(|(ago_s, tid, at, held_s, caught)| CrashWindow {
            ago_s,
            tid,
            at,
            held_s,
            caught,
        });
    (
        any::<i32>(),
        thread(),
        vec(frame(), 0..4),
        vec(window, 0..3),
    )
        .prop_map(|(signal, thread, stack, windows)| Crash {
            signal,
            thread,
            stack,
            windows,
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
                    freed_by: system_call.clone(),
                    pointee: system_call.clone().map(|name| pointee(name, atomic)),
                    value: line.map(|line| AccessValue {
                        bytes: line.to_le_bytes().to_vec(),
                        typed: system_call.clone(),
                    }),
                    created: system_call.clone().map(|name| Creation {
                        thread: ThreadName {
                            name,
                            ..ThreadName::default()
                        },
                        stack: stack.clone(),
                    }),
                    system_call,
                    stack,
                }
            },
        )
}

fn pointee(name: String, doubtful: bool) -> Pointee {
    Pointee {
        expression: doubtful.then(|| name.clone()),
        type_name: name.clone(),
        path: format!(".{name}"),
        member: None,
        part_type: name,
        from: PointeeSource::Followed,
        doubtful,
        outside: doubtful,
    }
}

fn region() -> impl Strategy<Value = Region> {
    prop_oneof![
        name().prop_map(|module| Region::Global { module }),
        Just(Region::Heap),
        thread().prop_map(|thread| Region::Stack { thread }),
        (name(), any::<u32>(), any::<u64>()).prop_map(|(module, cpu, svma)| Region::PerCpu {
            module,
            cpu,
            svma: Svma(svma),
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
                type_name,
                field_in_full: field.clone().filter(|_| size.is_multiple_of(5)),
                field,
                bit_fields,
                address,
                size,
                region,
                pointee: name
                    .clone()
                    .map(|name| pointee(name, size.is_multiple_of(2))),
                sides_differ: size.is_multiple_of(3),
                frame: size.is_multiple_of(5).then(|| "serve".to_owned()),
                block: name.as_ref().map(|_| Block { address, size }),
                allocated: size.is_multiple_of(7).then(Creation::default),
                name,
            },
        )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let leans = select(vec![Leans::Harmful, Leans::Benign]);
    let rule =
        (name(), leans, vec(name(), 0..3), any::<bool>()).prop_map(|(rule, leans, facts, hint)| {
            Leaning {
                rule,
                leans,
                facts,
                hint,
            }
        });
    let differing = (name(), any::<[bool; 2]>(), name(), name()).prop_map(
        |(what, [raced, copy], this, that)| Differing {
            what,
            raced,
            copy,
            in_use: raced.then(|| String::from(&this)),
            this,
            that,
        },
    );
    let tally = (any::<[u64; 5]>(), vec(differing, 0..3)).prop_map(|(numbers, difference)| {
        let [
            no_state_change,
            state_change,
            replay_failure,
            faults,
            orders,
        ] = numbers;
        ReplayTally {
            no_state_change,
            state_change,
            replay_failure,
            faults,
            orders,
            difference,
        }
    });
    (vec(rule, 0..4), option::of(tally), any::<u64>())
        .prop_map(|(rules, tally, instances)| combine(rules, tally, instances))
}

fn race() -> impl Strategy<Value = Race> {
    let class = select(vec![Class::Race, Class::PossiblyAtomic, Class::Special]);
    (
        (name(), class, any::<u64>()),
        (
            option::of(select(Rule::ALL.to_vec())),
            option::of(name()),
            option::of(verdict()),
        ),
        what(),
        select(vec![SeenBy::Watch, SeenBy::Value, SeenBy::Analysis]),
        (vec(any::<u8>(), 0..70), vec(any::<u8>(), 0..70)),
        vec(suspect(), 0..3),
        option::of(name()),
        vec(access(), 0..4),
    )
        .prop_map(
            |(
                (fingerprint, class, instances),
                (rule, words, verdict),
                what,
                seen_by,
                (before, after),
                suspects,
                special,
                accesses,
            )| Race {
                fingerprint: Fingerprint(fingerprint),
                class,
                rule,
                evidence: words.map(|words| fixtures::evidence(&words)),
                what,
                analysed: matches!(seen_by, SeenBy::Analysis).then(|| Analysed {
                    standing: RaceStanding::Suspect,
                    by: vec![Analysis::HappensBefore, Analysis::Lockset],
                }),
                seen_by,
                values: Values {
                    before,
                    after,
                    typed: special.clone().map(|before| Typed {
                        after: before.clone(),
                        before,
                    }),
                },
                instances,
                lines: vec![accesses.iter().map(Line::from).collect()],
                suspects,
                special,
                usage: vec![Usage::default()],
                history: None,
                pairs: Vec::new(),
                verdict,
                triage: None,
                accesses,
            },
        )
}

/// A report of a run whose times are `seconds`.
fn report(seconds: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Report> {
    let standstill = (seconds.clone(), option::of(seconds.clone()))
        .prop_map(|(total_s, window_s)| Standstill { total_s, window_s });
    let unseen = (name(), name()).prop_map(|(what, why)| Unseen { what, why });
    (
        (
            vec(name(), 0..3),
            option::of(ending()),
            vec(unseen, 0..3),
            any::<bool>(),
        ),
        (seconds.clone(), seconds.clone(), seconds.clone()),
        option::of(standstill),
        any::<[u64; 8]>(),
        option::of(crash(seconds)),
        vec(race(), 0..3),
    )
        .prop_map(
            |((program, ending, unseen, cut_short), times, standstill, numbers, crash, races)| {
                let (wall_s, held_s, thread_s) = times;
                let [runs, samples, windows, total, armed, sampled, alone, stale] = numbers;
                let run = Run {
                    recorded: None,
                    program,
                    runs,
                    cut_off: runs / 2,
                    ending,
                    wall_s,
                    thread_s,
                    standstill,
                    samples,
                    windows,
                    held_s,
                    sites: SiteCounts {
                        total,
                        armed,
                        sampled,
                    },
                    losses: Losses([(Loss::Alone, alone), (Loss::StaleTrap, stale)].into()),
                    unseen,
                    cut_short,
                    crash,
                    candidates: races.iter().map(hunted).collect(),
                };
                let quote = |(line, race): (u32, &Race)| Quote {
                    file: race.id(),
                    line,
                    text: race.fingerprint.0.clone(),
                };
                Report {
                    run,
                    set_aside: races.clone(),
                    quotes: (1..).zip(&races).map(quote).collect(),
                    races,
                }
            },
        )
}

/// A race as something that was hunted.
fn hunted(race: &Race) -> Hunted {
    let side = |at: usize| {
        race.accesses
            .get(at)
            .map_or_else(Spot::default, |access| Spot {
                function: access.function.clone(),
                file: access.file.clone(),
                line: access.line,
            })
    };
    let instances = race.instances;
    Hunted {
        sides: [side(0), side(1)],
        race: instances.is_multiple_of(2).then(|| race.id()),
        sites: [instances % 3, 1],
        reached: instances % 5,
        holds: [instances % 7, 0],
        held_s: 0.25,
    }
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
    fn any_report_renders_as_text_alone(
        report in report(any::<f64>()), style in style(), line in name()
    ) {
        let terminal = Terminal::new(style)
            .explaining(true)
            .with_source(Arc::new(move |_, _| Some(line.clone())));
        let mut text = Vec::new();
        for race in &report.races {
            terminal.race(&mut text, race, Duration::from_secs(report.run.windows)).unwrap();
        }
        terminal.write(&report, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let plain = if style.color { without_colours(&text) } else { text };
        let raw = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        prop_assert!(!plain.contains(raw), "{plain:?}");
        prop_assert!(style.unicode || plain.is_ascii(), "{plain:?}");
    }

    #[test]
    fn any_report_can_be_shown_in_every_format(report in report(any::<f64>())) {
        for format in Format::ALL {
            let mut text = Vec::new();
            format.writer("/src".as_ref(), &fixtures::no_source(), None).write(&report, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let raw = |c: char| c.is_control() && c != '\n';
            prop_assert!(!text.contains(raw), "{format:?}: {text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back(report in report(measured())) {
        let mut text = Vec::new();
        Json.write(&report, &mut text).unwrap();
        prop_assert_eq!(json::read(&text).unwrap(), report);
    }

    #[test]
    fn numbers_that_are_none_can_be_read(report in report(any::<f64>())) {
        let mut text = Vec::new();
        Json.write(&report, &mut text).unwrap();
        prop_assert_eq!(json::read(&text).unwrap().races, report.races);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), cut in 0usize..23_000) {
        let _ = json::read(text.as_bytes());
        let first = include_bytes!("version-1.json");
        prop_assert!(json::read(&first[..cut]).is_err());
    }
}
