use super::*;
use crate::{Covered, Extent, SourceEvidence};
use AccessKind::{Read, Update, Write};
use Class::{PossiblyAtomic, Race, Synchronised};

/// An aligned access of four bytes by a plain move, and its facts.
fn side(kind: AccessKind, facts: Vec<Fact>) -> SideEvidence {
    let form = match kind {
        Update => Form::Operation,
        Read | Write => Form::Move,
    };
    let known = [Fact::Form { form }, Fact::Natural { natural: true }];
    SideEvidence {
        kind,
        extent: Extent {
            address: 0x1000,
            size: 4,
        },
        facts: known.into_iter().chain(facts).map(Known::from).collect(),
    }
}

fn source(marking: Marking) -> Fact {
    Fact::Source {
        source: SourceEvidence {
            marking,
            expression: None,
            declared: None,
            covers: None,
        },
    }
}

fn plain(kind: AccessKind) -> SideEvidence {
    side(kind, vec![source(Marking::Plain)])
}

fn atomic(kind: AccessKind) -> SideEvidence {
    let word = "__atomic_load_n".to_owned();
    side(kind, vec![source(Marking::Atomic { word })])
}

fn volatile(kind: AccessKind) -> SideEvidence {
    let word = "volatile".to_owned();
    side(kind, vec![source(Marking::Volatile { word })])
}

fn unknown(kind: AccessKind) -> SideEvidence {
    let why = Doubt::NoDebugInformation;
    side(kind, vec![source(Marking::Unknown { why })])
}

fn locked() -> SideEvidence {
    side(Update, vec![Fact::Locked])
}

fn guarded(kind: AccessKind) -> SideEvidence {
    with(plain(kind), Fact::SequenceSection)
}

/// The same access with one more fact.
fn with(mut side: SideEvidence, fact: Fact) -> SideEvidence {
    side.facts
        .retain(|known| std::mem::discriminant(&known.fact) != std::mem::discriminant(&fact));
    side.facts.push(fact.into());
    side
}

fn half(side: SideEvidence) -> SideEvidence {
    with(side, Fact::HalfOfUpdate)
}

fn form(side: SideEvidence, form: Form) -> SideEvidence {
    with(side, Fact::Form { form })
}

fn collision(a: &SideEvidence, b: &SideEvidence, bytes: Vec<Fact>) -> Evidence {
    Evidence {
        sides: vec![a.clone(), b.clone()],
        conflict: Some(a.extent),
        bytes: bytes.into_iter().map(Known::from).collect(),
    }
}

/// Judges the pair, whichever side was sampled.
#[track_caller]
fn check(a: &SideEvidence, b: &SideEvidence, class: Class, rule: Rule) {
    check_on(Vec::new(), a, b, class, rule);
}

#[track_caller]
fn check_on(bytes: Vec<Fact>, a: &SideEvidence, b: &SideEvidence, class: Class, rule: Rule) {
    for (a, b) in [(a, b), (b, a)] {
        let evidence = collision(a, b, bytes.clone());
        assert_eq!(classify(&evidence), (class, rule), "{evidence:#?}");
    }
}

#[test]
fn both_atomic() {
    check(&locked(), &locked(), Synchronised, Rule::BothAtomic);
    check(
        &atomic(Read),
        &atomic(Write),
        Synchronised,
        Rule::BothAtomic,
    );
    check(&atomic(Read), &locked(), Synchronised, Rule::BothAtomic);
    // One is not enough.
    check(&atomic(Read), &plain(Write), Race, Rule::PlainInSource);
    check(
        &atomic(Read),
        &unknown(Write),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
}

#[test]
fn plain_in_source() {
    check(&plain(Read), &plain(Write), Race, Rule::PlainInSource);
    check(&plain(Read), &unknown(Write), Race, Rule::PlainInSource);
    check(&plain(Read), &volatile(Write), Race, Rule::PlainInSource);
    // A hand-made lock is released by a store that C11 wants to be atomic.
    check(&plain(Write), &locked(), Race, Rule::PlainInSource);
    check(
        &unknown(Write),
        &locked(),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
}

#[test]
fn not_shown_plain() {
    check(
        &unknown(Read),
        &unknown(Write),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    check(
        &unknown(Read),
        &volatile(Write),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    // A relaxed load, an addition and a relaxed store can be one instruction.
    check(
        &unknown(Update),
        &unknown(Read),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    check(
        &unknown(Update),
        &unknown(Write),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    check(
        &half(unknown(Read)),
        &unknown(Write),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    check(&plain(Update), &unknown(Write), Race, Rule::PlainInSource);
}

#[test]
fn lost_update() {
    check(&unknown(Update), &unknown(Update), Race, Rule::LostUpdate);
    check(&unknown(Update), &locked(), Race, Rule::LostUpdate);
    check(
        &half(unknown(Read)),
        &half(unknown(Write)),
        Race,
        Rule::LostUpdate,
    );
    check(
        &half(volatile(Read)),
        &half(volatile(Write)),
        Race,
        Rule::LostUpdate,
    );
    check(&half(volatile(Read)), &locked(), Race, Rule::LostUpdate);
    // Whoever writes atomics by load and store means it.
    check(
        &half(atomic(Read)),
        &half(atomic(Write)),
        Synchronised,
        Rule::BothAtomic,
    );
    check(
        &half(atomic(Read)),
        &unknown(Update),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    // A single writer's counter and its reader: nothing is lost.
    check(
        &half(volatile(Write)),
        &volatile(Read),
        Synchronised,
        Rule::BothVolatile,
    );
    check(
        &half(unknown(Write)),
        &unknown(Read),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
}

/// Every doubt but that there is no debug information at all.
fn doubts() -> Vec<Doubt> {
    vec![
        Doubt::NoLine,
        Doubt::NoSource,
        Doubt::SourceChanged,
        Doubt::UnknownName("ADD".to_owned()),
        Doubt::Split,
        Doubt::InlineAssembly,
        Doubt::Ambiguous,
        Doubt::NoExpression,
        Doubt::UnknownType,
        Doubt::Folded,
        Doubt::Language,
    ]
}

/// What the source does not tell may be an atomic load and an atomic store, whatever the reason.
#[test]
fn an_update_of_doubtful_source_shows_no_lost_update() {
    let of = |kind, why| side(kind, vec![source(Marking::Unknown { why })]);
    for why in doubts() {
        let (load, store) = (half(of(Read, why.clone())), half(of(Write, why.clone())));
        let adds = of(Update, why);
        for one in [&load, &adds] {
            for other in [&store, &adds, &locked(), &half(unknown(Write))] {
                check(one, other, PossiblyAtomic, Rule::NotShownPlain);
            }
            check(one, &half(plain(Write)), Race, Rule::PlainInSource);
        }
    }
    // An atomic store of Go's is locked, and what seems to be elsewhere is mostly not understood.
    for why in [Doubt::Go, Doubt::Displaced] {
        let (load, store) = (half(of(Read, why.clone())), half(of(Write, why.clone())));
        check(&load, &store, Race, Rule::LostUpdate);
        check(&of(Read, why), &store, PossiblyAtomic, Rule::NotShownPlain);
    }
}

/// A lock's owner hands it on by a load and a store, while others try to take it.
#[test]
fn a_locked_update_that_changes_nothing_loses_nothing() {
    for known in [true, false] {
        let failed = with(locked(), Fact::ChangesNothing { known });
        for owner in [half(unknown(Read)), half(unknown(Write)), unknown(Update)] {
            check(&failed, &owner, PossiblyAtomic, Rule::NotShownPlain);
            check(&locked(), &owner, Race, Rule::LostUpdate);
        }
        check(&failed, &half(plain(Write)), Race, Rule::PlainInSource);
        check(&failed, &locked(), Synchronised, Rule::BothAtomic);
    }
}

#[test]
fn both_volatile() {
    check(
        &volatile(Read),
        &volatile(Write),
        Synchronised,
        Rule::BothVolatile,
    );
    check(&volatile(Read), &locked(), Synchronised, Rule::BothVolatile);
    check(&volatile(Read), &plain(Write), Race, Rule::PlainInSource);
}

#[test]
fn never_atomic() {
    let odd = with(unknown(Write), Fact::Natural { natural: false });
    check(&odd, &unknown(Read), Race, Rule::NeverAtomic);
    for never in [Form::Repeated, Form::Wide, Form::Vector] {
        check(
            &form(unknown(Write), never),
            &atomic(Read),
            Race,
            Rule::NeverAtomic,
        );
    }
    let call = Fact::SystemCall {
        name: "read".to_owned(),
    };
    check(
        &with(unknown(Write), call),
        &atomic(Read),
        Race,
        Rule::NeverAtomic,
    );
    // The kernel accesses the words of locks atomically.
    let futex = Fact::SystemCall {
        name: "futex".to_owned(),
    };
    let by_futex = with(unknown(Update), futex);
    check(&by_futex, &atomic(Read), Synchronised, Rule::BothAtomic);
    check(&by_futex, &plain(Read), Race, Rule::PlainInSource);
    let name = "memset".to_owned();
    let fill = with(unknown(Write), Fact::MemoryFunction { name });
    check(&fill, &atomic(Read), Race, Rule::NeverAtomic);
    check(&fill, &locked(), Race, Rule::NeverAtomic);
    // Unaligned, and yet the source calls it atomic.
    let marked = with(atomic(Write), Fact::Natural { natural: false });
    check(&marked, &atomic(Read), Synchronised, Rule::BothAtomic);
}

#[test]
fn an_aligned_vector_can_be_atomic() {
    let vector = |mut side: SideEvidence| {
        side.extent.size = 16;
        let side = with(form(side, Form::Vector), Fact::AtomicVector);
        with(side, Fact::Natural { natural: false })
    };
    let (load, store) = (vector(unknown(Read)), vector(unknown(Write)));
    check(&load, &store, PossiblyAtomic, Rule::NotShownPlain);
    check(&store, &vector(plain(Read)), Race, Rule::PlainInSource);
    // A loop may read more than the source.
    check(
        &load,
        &vector(plain(Write)),
        PossiblyAtomic,
        Rule::PerhapsNotInSource,
    );
}

#[test]
fn sequence_sections() {
    let (read, update) = (guarded(Read), guarded(Update));
    check(&read, &update, Synchronised, Rule::SequenceSections);
    check(&read, &atomic(Write), Synchronised, Rule::SequenceSections);
    check(&update, &plain(Read), Race, Rule::PlainInSource);
    check(&update, &unknown(Read), PossiblyAtomic, Rule::NotShownPlain);
    assert!(!read.is_atomic(&[]), "it is not told as an atomic access");
}

#[test]
fn perhaps_guarded() {
    let cut = with(plain(Read), Fact::CallersUnknown);
    check(&guarded(Update), &cut, PossiblyAtomic, Rule::PerhapsGuarded);
    check(&plain(Update), &cut, Race, Rule::PlainInSource);
    let hidden = |side| with(side, Fact::KernelWithoutDebugInformation);
    let odd = |side| hidden(with(side, Fact::Natural { natural: false }));
    check(
        &odd(unknown(Read)),
        &odd(unknown(Write)),
        PossiblyAtomic,
        Rule::PerhapsGuarded,
    );
    check(
        &odd(unknown(Write)),
        &odd(unknown(Write)),
        Race,
        Rule::NeverAtomic,
    );
}

#[test]
fn a_declaration_speaks_for_accesses_of_unknown_source() {
    let declared = |as_what| {
        let part = "state.flag".to_owned();
        vec![Fact::Declared { part, as_what }]
    };
    let (load, store) = (unknown(Read), unknown(Write));
    let atomics = declared(Declared::Atomic);
    check_on(
        atomics.clone(),
        &load,
        &store,
        Synchronised,
        Rule::BothAtomic,
    );
    let volatiles = declared(Declared::Volatile);
    check_on(volatiles, &load, &store, Synchronised, Rule::BothVolatile);
    // It does not make an atomic access of a memset.
    let filled = form(store.clone(), Form::Repeated);
    check_on(atomics.clone(), &filled, &load, Race, Rule::NeverAtomic);
    // The source knows another type.
    let mut cast = plain(Write);
    cast.facts
        .retain(|known| !matches!(known.fact, Fact::Source { .. }));
    let shown = SourceEvidence {
        marking: Marking::Plain,
        expression: None,
        declared: Some("int".to_owned()),
        covers: None,
    };
    let cast = with(cast, Fact::Source { source: shown });
    check_on(atomics.clone(), &cast, &load, Race, Rule::PlainInSource);
    // It knows none, and contradicts the declaration.
    check_on(
        atomics,
        &plain(Write),
        &load,
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
    let guard = declared(Declared::Guard);
    check_on(guard, &plain(Write), &load, Synchronised, Rule::BothAtomic);
}

#[test]
fn perhaps_not_in_source() {
    for why in [Doubt::Speculative, Doubt::Wider, Doubt::Conditional] {
        let read = with(
            form(plain(Read), Form::Wide),
            source(Marking::Unknown { why }),
        );
        let rule = Rule::PerhapsNotInSource;
        check(&read, &plain(Write), PossiblyAtomic, rule);
        let reached = with(read.clone(), Fact::InSource { reached: true });
        check(&reached, &plain(Write), Race, Rule::PlainInSource);
        let passed = with(read, Fact::InSource { reached: false });
        let rule = Rule::WiderThanSource;
        check(&passed, &plain(Write), Class::WiderThanSource, rule);
    }
}

/// Without names a loop over the program's data looks like a string function that reads past its
/// string.
#[test]
fn what_may_be_a_search_is_no_race_and_not_lost() {
    let search = with(unknown(Read), Fact::MaySearch);
    let rule = Rule::PerhapsNotInSource;
    check(&search, &plain(Write), PossiblyAtomic, rule);
    check(&unknown(Read), &plain(Write), Race, Rule::PlainInSource);
    let described = with(plain(Read), Fact::MaySearch);
    check(&described, &unknown(Write), Race, Rule::PlainInSource);
}

#[test]
fn wider_than_source() {
    let covering = |side: SideEvidence, start, len| {
        let source = SourceEvidence {
            marking: Marking::Plain,
            expression: None,
            declared: None,
            covers: Some(Covered { start, len }),
        };
        with(side, Fact::Source { source })
    };
    let first = covering(plain(Read), 0, 1);
    let (last, whole) = (covering(plain(Write), 3, 1), covering(plain(Write), 0, 4));
    check(&first, &last, Class::WiderThanSource, Rule::WiderThanSource);
    check(&first, &whole, Race, Rule::PlainInSource);
    let mut evidence = collision(&first, &plain(Write), Vec::new());
    evidence.conflict = Some(Extent {
        address: 0x1002,
        size: 2,
    });
    assert_eq!(classify(&evidence).0, Class::WiderThanSource);
    evidence.sides.truncate(1);
    assert_eq!(
        classify(&evidence).0,
        Class::WiderThanSource,
        "changed there"
    );
}

#[test]
fn freed_while_it_stood() {
    let made_by = |side: SideEvidence, frees, hands_out| {
        let fact = Fact::Allocator {
            name: "free".to_owned(),
            frees,
            hands_out,
        };
        with(side, fact)
    };
    let allocator = |side, frees| made_by(side, frees, false);
    let frees = allocator(unknown(Write), true);
    let rule = Rule::FreedWhileItStood;
    check(&frees, &unknown(Read), Race, rule);
    check(&frees, &atomic(Read), Race, rule);
    let reuses = made_by(unknown(Write), false, true);
    check(&reuses, &atomic(Read), Race, rule);
    check(&reuses, &frees, PossiblyAtomic, Rule::NotShownPlain);
    // An allocator's own lists are its own business.
    let allocates = allocator(unknown(Read), false);
    check(&frees, &allocates, PossiblyAtomic, Rule::NotShownPlain);
    let name = "strlen".to_owned();
    let strays = with(unknown(Read), Fact::MemoryFunction { name });
    check(&frees, &strays, Race, Rule::NeverAtomic);
    // Nor does a nameless function that looks like one show anything, scalar or not.
    let search = with(unknown(Read), Fact::MaySearch);
    let rule = Rule::PerhapsNotInSource;
    for takes in [&frees, &reuses] {
        let vector = form(search.clone(), Form::Vector);
        check(takes, &vector, PossiblyAtomic, rule);
        check(takes, &search, PossiblyAtomic, Rule::NotShownPlain);
        let takes = form(takes.clone(), Form::Repeated);
        check(&takes, &search, PossiblyAtomic, rule);
    }
    check(
        &allocator(unknown(Write), false),
        &unknown(Read),
        PossiblyAtomic,
        Rule::NotShownPlain,
    );
}

#[test]
fn unmapped_while_it_stood() {
    let stood = |side: SideEvidence| {
        let (class, rule) = classify(&Evidence {
            sides: vec![side],
            conflict: None,
            bytes: vec![Fact::Unmapped.into()],
        });
        (class, rule)
    };
    let freed = (Race, Rule::FreedWhileItStood);
    assert_eq!(stood(unknown(Read)), freed);
    assert_eq!(stood(atomic(Write)), freed);
    let within = with(unknown(Read), Fact::RestartableSequence);
    assert_ne!(stood(within).0, Race, "it starts anew");
}

#[test]
fn special() {
    let reason = "a hint".to_owned();
    let on_purpose = vec![Fact::Special { reason }];
    let (load, store) = (plain(Read), plain(Write));
    check_on(
        on_purpose.clone(),
        &load,
        &store,
        Class::Special,
        Rule::Special,
    );
    let (load, store) = (atomic(Read), atomic(Write));
    check_on(on_purpose, &load, &store, Synchronised, Rule::BothAtomic);
}

#[test]
fn a_side_alone_decides_if_nobody_was_caught() {
    let alone = |side: SideEvidence| {
        classify(&Evidence {
            sides: vec![side],
            ..Evidence::default()
        })
    };
    assert_eq!(alone(plain(Read)), (Race, Rule::PlainInSource));
    assert_eq!(
        alone(unknown(Update)),
        (PossiblyAtomic, Rule::NotShownPlain)
    );
    let synchronises = (Synchronised, Rule::KnownSideSynchronises);
    assert_eq!(alone(atomic(Read)), synchronises);
    assert_eq!(alone(volatile(Read)), synchronises);
    assert_eq!(
        classify(&Evidence::default()).0,
        PossiblyAtomic,
        "nothing is known"
    );
}

#[test]
fn a_volatile_update_is_sampled() {
    let about = |side: SideEvidence| side.source().unwrap().clone();
    let why = |side, is_update| excluded(&about(side).marking, is_update, false);
    assert_eq!(why(volatile(Read), false), Some(Excluded::Volatile));
    assert_eq!(why(volatile(Read), true), None);
    assert_eq!(why(atomic(Read), true), Some(Excluded::Atomic));
    assert_eq!(why(plain(Read), false), None);
    assert_eq!(why(unknown(Read), false), None);
}

#[test]
fn an_atomic_access_is_sampled_where_a_copy_may_meet_it() {
    let about = |side: SideEvidence| side.source().unwrap().clone();
    let why = |side, may_be_copied| excluded(&about(side).marking, false, may_be_copied);
    assert_eq!(why(atomic(Read), true), None);
    assert_eq!(why(atomic(Write), true), None);
    assert_eq!(why(atomic(Write), false), Some(Excluded::Atomic));
    assert_eq!(why(volatile(Read), true), Some(Excluded::Volatile));
}

#[test]
fn rules_have_the_names_that_documents_write() {
    for rule in Rule::ALL {
        let written = serde_json::to_value(rule).unwrap();
        assert_eq!(written, rule.name());
        assert!(rule.reason().len() > 10);
    }
}

/// Stores and reports of earlier versions have facts and rules that are no more.
#[test]
fn what_earlier_versions_knew_is_read() {
    let fact = r#"{"fact":"combined","compiler":"GCC 12","from":"compiler","certainty":"likely"}"#;
    let known: Known = serde_json::from_str(fact).unwrap();
    assert_eq!(known.fact, Fact::Other);
    let rule: Rule = serde_json::from_str("\"plain-by-compiler\"").unwrap();
    assert_eq!(rule, Rule::NotShownPlain);
}

#[test]
fn restartable_sequences() {
    let within = |side: SideEvidence| with(side, Fact::RestartableSequence);
    check(
        &half(within(unknown(Read))),
        &half(within(unknown(Write))),
        Synchronised,
        Rule::SequenceSections,
    );
    // Who adds the counters up reads them atomically.
    check(
        &within(unknown(Write)),
        &atomic(Read),
        Synchronised,
        Rule::SequenceSections,
    );
    check(
        &half(within(unknown(Write))),
        &plain(Update),
        Race,
        Rule::PlainInSource,
    );
}

#[test]
fn a_load_ahead_of_its_condition_is_no_race() {
    let why = Doubt::Speculative;
    let ahead = side(Read, vec![source(Marking::Unknown { why })]);
    check(
        &ahead,
        &plain(Write),
        PossiblyAtomic,
        Rule::PerhapsNotInSource,
    );
    let vector = form(ahead, Form::Vector);
    // Without debug information, too: a mask may drop what was read.
    let mut wide = form(unknown(Read), Form::Wide);
    wide.extent.size = 32;
    check(
        &wide,
        &plain(Write),
        PossiblyAtomic,
        Rule::PerhapsNotInSource,
    );
    // An element of a gather.
    wide.extent.size = 4;
    check(&wide, &unknown(Write), Race, Rule::NeverAtomic);
    check(
        &form(plain(Read), Form::Wide),
        &unknown(Write),
        Race,
        Rule::NeverAtomic,
    );
    check(
        &vector,
        &plain(Write),
        PossiblyAtomic,
        Rule::PerhapsNotInSource,
    );
}

#[test]
fn a_load_without_a_line_may_have_been_moved_ahead() {
    let lineless = |kind| {
        let why = Doubt::NoLine;
        side(kind, vec![source(Marking::Unknown { why })])
    };
    let rule = Rule::PerhapsNotInSource;
    check(&plain(Write), &lineless(Read), PossiblyAtomic, rule);
    // Stores are not moved ahead.
    check(&plain(Read), &lineless(Write), Race, Rule::PlainInSource);
}
