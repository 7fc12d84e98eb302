//! Small races with a known answer. Each harmless one has a harmful twin.

use crate::assemble::{DATA, Race};
use redhanded_replay::{
    Call, Difference, End, Failure, Fault, Followed, Judgement, Limits, Mode, Order, Part, Side,
    Trap,
};

fn judge(a: &str, b: &str, data: &[u64]) -> Judgement {
    Race::new(a, b, data).judge()
}

#[track_caller]
fn no_change(a: &str, b: &str, data: &[u64]) {
    let judgement = judge(a, b, data);
    assert_eq!(
        judgement.call,
        Call::NoStateChange,
        "{:#?}",
        judgement.outcomes
    );
}

#[track_caller]
fn change(a: &str, b: &str, data: &[u64]) -> (Order, Vec<Difference>) {
    match judge(a, b, data) {
        Judgement {
            call: Call::StateChange {
                that, differences, ..
            },
            ..
        } => (that, differences.into_iter().map(bare).collect()),
        other => panic!("{other:#?}"),
    }
}

#[track_caller]
fn faults(a: &str, b: &str, data: &[u64]) -> Vec<Order> {
    match judge(a, b, data) {
        Judgement {
            call: Call::Fault { orders },
            ..
        } => orders,
        other => panic!("{other:#?}"),
    }
}

fn memory(at: u64, this: &[u8], that: &[u8]) -> Difference {
    Difference::Memory {
        address: at,
        this: this.to_vec(),
        that: that.to_vec(),
        words: [0; 2],
    }
}

/// Without the bytes around what differs.
fn bare(difference: Difference) -> Difference {
    match difference {
        Difference::Memory {
            address,
            this,
            that,
            ..
        } => memory(address, &this, &that),
        other => other,
    }
}

#[test]
fn the_bytes_around_what_differs_are_told() {
    let judgement = judge(
        "mov eax, [data + 4]; mov [data + 12], eax; mfence; ret",
        "add dword ptr [data + 4], 1; mfence; ret",
        &[5 << 32 | 3, 7],
    );
    let Call::StateChange { differences, .. } = &judgement.call else {
        panic!("{:?}", judgement.call);
    };
    let words = differences.iter().find_map(|difference| match difference {
        Difference::Memory { words, .. } => Some(*words),
        _ => None,
    });
    assert_eq!(words, Some([5 << 32 | 7, 6 << 32 | 7]));
}

/// Thread A keeps the number that it reads, and looks whether it is still there.
fn looks_twice(if_not: &str) -> Judgement {
    let reader = format!(
        "mov eax, [data]; mov [data + 16], eax; cmp eax, [data]; jne 1f; mfence; mov eax, 1; ret
        1: {if_not}"
    );
    judge(&reader, "add dword ptr [data], 1; mfence; ret", &[5])
}

#[test]
fn what_only_an_interrupted_thread_shows_is_told() {
    let judgement = looks_twice("mov dword ptr [data + 24], 9; mfence; mov eax, 1; ret");
    let side = Side::A;
    let Call::StateChange {
        that,
        differences,
        further,
        untold: None,
        ..
    } = judgement.call
    else {
        panic!("{judgement:#?}")
    };
    // Either thread first: the copy alone.
    assert_eq!(that, Order::First(Side::B));
    let differences: Vec<_> = differences.into_iter().map(bare).collect();
    assert_eq!(differences, [memory(DATA + 16, &[5], &[6])]);
    let further = further.into_iter().map(|(order, it)| (order, bare(it)));
    let split = Order::Split { side, after: 1 };
    let expected = [
        (split, Difference::Path { side }),
        (split, memory(DATA + 24, &[0], &[9])),
    ];
    assert_eq!(further.collect::<Vec<_>>(), expected);
}

/// Both count two numbers. To interrupt a thread within the second update shows the race on that.
#[test]
fn what_another_race_of_the_regions_shows_is_not_told_of_this_one() {
    let counts = "add dword ptr [data], 1; add dword ptr [data + 16], 1; mfence; mov eax, 1; ret";
    let Call::StateChange {
        differences,
        further,
        ..
    } = judge(counts, counts, &[5, 0, 9]).call
    else {
        panic!("a difference")
    };
    let differences: Vec<_> = differences.into_iter().map(bare).collect();
    assert_eq!(differences, [memory(DATA, &[7], &[6])]);
    assert_eq!(further, []);
}

#[test]
fn an_order_that_cannot_be_compared_is_told_beside_those_that_differ() {
    let judgement = looks_twice("int3");
    let (side, end) = (Side::A, End::Trap(Trap::Breakpoint));
    let Call::StateChange {
        further, untold, ..
    } = judgement.call
    else {
        panic!("{judgement:#?}")
    };
    assert_eq!(further, []);
    assert_eq!(untold, Some(Failure::Incomparable { side, end }));
}

#[test]
fn a_list_of_differences_that_is_cut_short_says_so() {
    let copies = |count: u32| {
        let code = format!(
            "mov eax, [data]; lea rdi, [data + 16]; mov ecx, {count}
            1: mov [rdi], eax; add rdi, 8; dec ecx; jnz 1b; mfence; mov eax, 1; ret"
        );
        judge(&code, "mov dword ptr [data], 6; mfence; ret", &[5]).call
    };
    for (count, listed, expected) in [
        (32, 32, None),
        (33, 32, Some(Failure::ManyDifferences)),
        (300, 32, Some(Failure::ManyDifferences)),
    ] {
        let call = copies(count);
        let Call::StateChange {
            differences,
            untold,
            ..
        } = &call
        else {
            panic!("{call:#?}")
        };
        assert_eq!((differences.len(), untold), (listed, &expected), "{count}");
    }
}

#[test]
fn an_update_by_one_instruction_is_lost_between_its_read_and_its_write() {
    let add = "add dword ptr [data], 1; mfence; xor eax, eax";
    let (order, differences) = change(add, add, &[0]);
    let side = Side::A;
    assert_eq!(order, Order::Split { side, after: 1 });
    assert_eq!(differences, [memory(DATA, &[2], &[1])]);
}

#[test]
fn an_update_by_several_instructions_is_lost_too() {
    let add = "mov eax, [data]; inc eax; mov [data], eax; mfence; mov eax, 0; ret";
    let (order, differences) = change(add, add, &[40]);
    assert!(matches!(order, Order::Split { after: 1, .. }), "{order:?}");
    assert_eq!(differences, [memory(DATA, &[42], &[41])]);
}

#[test]
fn a_locked_update_is_not_split() {
    let add = "lock add dword ptr [data], 1; mfence; xor eax, eax";
    no_change(add, add, &[0]);
}

#[test]
fn writing_the_same_changes_nothing() {
    let write = "mov dword ptr [data], 5; mfence; ret";
    no_change(write, write, &[5]);
    let other = "mov dword ptr [data], 6; mfence; ret";
    let (order, differences) = change(write, other, &[5]);
    assert_eq!(order, Order::First(Side::B));
    assert_eq!(differences, [memory(DATA, &[6], &[5])]);
}

/// Both threads clear one bit and set another, as in Figure 4 of the DataCollider paper. Where
/// the bits are so already, every order leaves the same.
#[test]
fn writing_back_what_was_read_is_not_called_harmless_by_chance() {
    let by_one = "and dword ptr [data], -5; or dword ptr [data], 8; mfence; ret";
    let by_three = "mov eax, [data]; and eax, -5; mov [data], eax; xor eax, eax; mfence; ret";
    let stores = "mov dword ptr [data], 8; mfence; ret";
    for (a, b) in [(by_one, by_one), (by_three, by_three), (stores, by_three)] {
        let call = judge(a, b, &[8]).call;
        assert!(
            matches!(call, Call::ReplayFailure(Failure::WritesBack { .. })),
            "{call:?}"
        );
    }
    // Twin: only one of them writes.
    no_change(
        "cmp dword ptr [data], 3; mfence; xor eax, eax; ret",
        by_three,
        &[8],
    );
}

#[test]
fn a_reader_of_one_bit_does_not_see_a_writer_of_another() {
    let reader = "test byte ptr [data], 2; setne al; mfence; movzx eax, al; ret";
    no_change(reader, "or byte ptr [data], 1; mfence; ret", &[0]);
    // Twin: it writes the bit that is read.
    let (_, differences) = change(reader, "or byte ptr [data], 2; mfence; ret", &[0]);
    assert!(
        matches!(&differences[..], [Difference::Register { side: Side::A, name, .. }] if name == "rax"),
        "{differences:?}"
    );
    // Twin: two writers of different bits lose one.
    let (order, _) = change(
        "or byte ptr [data], 1; mfence; ret",
        "or byte ptr [data], 2; mfence; ret",
        &[0],
    );
    assert!(matches!(order, Order::Split { .. }));
}

#[test]
fn waiting_for_a_flag_is_no_endless_loop() {
    let waits = "1: pause; cmp dword ptr [data], 0; je 1b; mov rbx, [data + 8]; mfence; ret";
    no_change(
        waits,
        "mov qword ptr [data + 8], 7; mov dword ptr [data], 1; mfence; ret",
        &[0, 7],
    );
    // Twin: the flag is cleared, and whoever comes later waits until somebody else sets it.
    let (_, differences) = change(waits, "mov dword ptr [data], 0; mfence; ret", &[1, 7]);
    assert!(differences.contains(&Difference::Path { side: Side::A }));
}

#[test]
fn a_loop_that_nobody_can_end_counts_as_a_fault() {
    let hangs = "cmp dword ptr [data], 0; jne 1f; 2: jmp 2b; 1: mfence; ret";
    let orders = faults(hangs, "mov dword ptr [data], 0; mfence; ret", &[1]);
    let side = Side::B;
    assert_eq!(
        orders,
        [Order::First(side), Order::Split { side, after: 1 }]
    );
}

#[test]
fn a_fault_that_the_program_handles_is_another_way_only() {
    let uses = "mov rax, [data]; mov eax, [rax]; mfence; xor eax, eax; ret";
    let clears = "mov qword ptr [data], 0; mfence; ret";
    faults(uses, clears, &[DATA]);
    let mut race = Race::new(uses, clears, &[DATA]);
    race.scene.handled = 1 << (11 - 1);
    let call = race.judge().call;
    let Call::StateChange { differences, .. } = call else {
        panic!("{call:?}")
    };
    assert!(differences.contains(&Difference::Path { side: Side::A }));
}

#[test]
fn functions_that_were_called_and_not_left_are_told() {
    let calls = "mov eax, [data]; call 1f; call 2f; mfence; 1: ret; 2: call 3f; 3: mfence";
    let judgement = judge(calls, "mov ebx, [data]; mfence", &[0]);
    let ended = &judgement.outcomes[0].ended[0];
    assert_eq!(ended.end, End::Fence);
    assert_eq!(ended.calls.len(), 2, "{ended:x?}");
    assert_eq!(ended.calls[1], ended.ip);
}

#[test]
fn an_order_is_followed_step_by_step() {
    let add = "add dword ptr [data], 1; mfence; ret";
    let mut race = Race::new(add, add, &[5]);
    let mut follow = |order, steps, listed| {
        let limits = Limits::default();
        let worker = &mut crate::worker();
        let followed = worker.follow(&race.scene, &mut race.memory, order, limits, steps, listed);
        followed.expect("worker answers").expect("can be replayed")
    };
    let data = |followed: &Followed| {
        let page = followed.pages.iter().find(|(page, _)| *page == DATA);
        page.expect("page").1.0[0]
    };
    let side = Side::A;
    let lost = Order::Split { side, after: 1 };
    let all = follow(lost, u64::MAX, true);
    let told: Vec<_> = all
        .steps
        .iter()
        .map(|s| (s.side, s.part, s.writes.first().map(|(_, bytes)| bytes[0])))
        .collect();
    assert_eq!(
        told,
        [
            (Side::A, Part::Read, None),
            (Side::B, Part::Whole, Some(6)),
            (Side::A, Part::Write, Some(6)),
        ]
    );
    assert_eq!((all.at, data(&all)), (3, 6));
    for (at, value) in (0..).zip([5, 5, 6, 6]) {
        let then = follow(lost, at, false);
        assert_eq!((then.at, data(&then)), (at, value));
    }
    assert_eq!(data(&follow(Order::First(side), u64::MAX, false)), 7);
}

#[test]
fn publishing_before_writing_faults_in_between() {
    // data: the published pointer; data + 16: the object, whose first word is a pointer.
    let reader = "mov rax, [data]; test rax, rax; je 1f; mov rax, [rax]; mov rax, [rax]
        1: mfence; xor eax, eax; ret";
    let wrong = "lea rcx, [data + 16]; mov [data], rcx; mov [rcx], rcx; mfence; ret";
    let orders = faults(reader, wrong, &[0]);
    assert_eq!(orders.len(), 1, "only between the two stores: {orders:?}");
    assert!(matches!(orders[0], Order::Split { side: Side::B, .. }));
    // Twin: the object is written first.
    no_change(
        reader,
        "lea rcx, [data + 16]; mov [rcx], rcx; mov [data], rcx; mfence; ret",
        &[0],
    );
}

/// Published after it was written, as the source says. On a processor that delays stores, the
/// reader follows the pointer too early; on this one it cannot.
#[test]
fn a_late_store_shows_what_a_weaker_memory_model_does() {
    let reader = "mov rax, [data]; test rax, rax; je 1f; mov rax, [rax]; mov rax, [rax]
        1: mfence; xor eax, eax; ret";
    let writer = "lea rcx, [data + 16]; mov [rcx], rcx; mov [data], rcx; mfence; ret";
    no_change(reader, writer, &[0]);
    let mut race = Race::new(reader, writer, &[0]);
    let limits = Limits::default().with_weak_memory();
    let judgement = race.judge_within(limits);
    let Call::StateChange {
        that, differences, ..
    } = &judgement.call
    else {
        panic!("no proof, but a difference: {judgement:#?}")
    };
    let side = Side::B;
    assert_eq!(*that, Order::Delayed { side, store: 1 });
    assert!(differences.contains(&Difference::Path { side: Side::A }));
    // Twin: a fence between the two stores ends the region, and nothing is late.
    let fenced = "lea rcx, [data + 16]; mov [rcx], rcx; mfence; mov [data], rcx; mfence; ret";
    let call = Race::new(reader, fenced, &[0]).judge_within(limits).call;
    assert_eq!(call, Call::NoStateChange);
}

/// A thread sees its own stores at once, and a later store to the same bytes comes later.
#[test]
fn a_late_store_is_not_overtaken_by_its_own_thread() {
    let twice = "mov dword ptr [data], 1; mov dword ptr [data], 2; mov eax, [data]
        mov [data + 8], eax; xor eax, eax; mfence; ret";
    let reads = "mov ebx, [data + 16]; mfence; ret";
    let limits = Limits::default().with_weak_memory();
    let mut race = Race::new(twice, reads, &[0]);
    assert_eq!(race.judge_within(limits).call, Call::NoStateChange);
}

#[test]
fn a_reference_count_that_loses_an_update_frees_nothing() {
    let drop = "sub dword ptr [data], 1; jne 1f; add dword ptr [data + 8], 1
        1: mfence; ret";
    let (order, differences) = change(drop, drop, &[2, 0]);
    assert!(matches!(order, Order::Split { .. }));
    assert_eq!(
        differences,
        [memory(DATA, &[0], &[1]), memory(DATA + 8, &[1], &[0])]
    );
}

#[test]
fn using_after_a_check_faults_when_it_is_cleared_in_between() {
    let uses = "cmp qword ptr [data], 0; je 1f; mov rax, [data]; mov eax, [rax]
        1: mfence; xor eax, eax; ret";
    let orders = faults(uses, "mov qword ptr [data], 0; mfence; ret", &[DATA]);
    let side = Side::A;
    assert_eq!(orders, [Order::Split { side, after: 1 }]);
}

#[test]
fn dead_registers_and_dead_stack_do_not_count() {
    let reads = "mov rax, [data]; push rax; push rax; pop rax; pop rcx; sub rsp, 256; add rsp, 256
        test rax, rax; mfence; mov eax, 1; mov ecx, 2; ret";
    // What it pushed is within the 128 bytes that a program may use, so it makes room first.
    let deep = "sub rsp, 512; mov rax, [data]; mov [rsp], rax; add rsp, 512
        mfence; mov eax, 1; ret";
    let writes = "mov qword ptr [data], 9; mfence; ret";
    no_change(deep, writes, &[9]);
    let judgement = judge(deep, writes, &[1]);
    assert_eq!(judgement.call, Call::NoStateChange, "{judgement:#?}");
    // Twin: the pushed value is still in reach.
    let (_, differences) = change(reads, writes, &[1]);
    assert!(
        differences
            .iter()
            .all(|d| matches!(d, Difference::Memory { .. })),
        "{differences:?}"
    );
    // Twin: the register is read later.
    let (_, differences) = change("mov rax, [data]; mfence; mov rcx, rax; ret", writes, &[1]);
    assert_eq!(
        differences,
        [Difference::Register {
            side: Side::A,
            name: "rax".into(),
            this: 1,
            that: 9
        }]
    );
}

#[test]
fn another_way_is_a_difference() {
    let branches = "cmp dword ptr [data], 0; je 1f; mfence; ret; 1: lfence; mfence; ret";
    let (_, differences) = change(branches, "mov dword ptr [data], 1; mfence; ret", &[0]);
    assert_eq!(differences, [Difference::Path { side: Side::A }]);
}

/// Nothing ends these regions, and one way round the loop is longer than the other. Compared
/// after as many instructions, the thread would be found in another turn.
#[test]
fn a_loop_is_compared_after_as_many_turns() {
    let writes = "mov dword ptr [data], 6; mfence; ret";
    no_change(
        "1: cmp dword ptr [data], 5; jb 2f; nop; 2: inc rcx; jmp 1b",
        writes,
        &[4],
    );
    // Twin: the way is counted.
    let (_, differences) = change(
        "1: cmp dword ptr [data], 5; jb 2f; inc rdx; 2: inc rcx; jmp 1b",
        writes,
        &[4],
    );
    assert!(
        matches!(&differences[..], [Difference::Register { name, .. }] if name == "rdx"),
        "{differences:?}"
    );
}

#[test]
fn what_a_function_left_below_its_callers_stack_is_dead() {
    let writes = "mov dword ptr [data], 6; mfence; ret";
    no_change(
        "call 2f; 1: inc rcx; call 2f; jmp 1b
        2: mov eax, [data]; mov [rsp - 16], eax; xor eax, eax; ret",
        writes,
        &[4],
    );
    // Twin: a function that calls no other may still use it.
    let (_, differences) = change(
        "1: mov eax, [data]; mov [rsp - 16], eax; xor eax, eax; inc rcx; jmp 1b",
        writes,
        &[4],
    );
    assert!(
        matches!(&differences[..], [Difference::Memory { .. }]),
        "{differences:?}"
    );
}

#[test]
fn a_failed_assertion_counts_as_a_fault() {
    let asserts = "cmp dword ptr [data], 0; je 1f; ud2; 1: mfence; ret";
    let judgement = judge(asserts, "mov dword ptr [data], 1; mfence; ret", &[0]);
    assert!(matches!(judgement.call, Call::Fault { .. }));
    assert_eq!(judgement.outcomes[1].ended[0].end, End::Trap(Trap::Ud2));
}

#[test]
fn what_faults_always_says_nothing_of_the_race() {
    let dies = "mov eax, [data]; mov eax, [0]; mfence; ret";
    let judgement = judge(dies, "mov dword ptr [data], 1; mfence; ret", &[0]);
    let failure = Call::ReplayFailure(Failure::FaultsInEveryOrder);
    assert_eq!(judgement.call, failure);
    assert_eq!(
        judgement.outcomes[0].ended[0].end,
        End::Fault(Fault::Unmapped { address: 0 })
    );
}

/// A probe of the kernel, a debugger's breakpoint, or an instruction that is too new.
#[test]
fn what_may_be_somebody_elses_proves_nothing() {
    for foreign in ["int3", ".byte 0x0f, 0xff, 0xff", ".byte 0x06", "iretq"] {
        let branches = format!("cmp dword ptr [data], 0; je 1f; {foreign}; 1: mfence; ret");
        let judgement = judge(&branches, "mov dword ptr [data], 1; mfence; ret", &[0]);
        if foreign.ends_with("0xff") {
            // `ud0` was made to be refused.
            assert!(matches!(judgement.call, Call::Fault { .. }), "{foreign}");
            continue;
        }
        assert!(
            matches!(
                judgement.call,
                Call::ReplayFailure(Failure::Incomparable { side: Side::A, .. })
            ),
            "{foreign}: {judgement:#?}"
        );
    }
}

#[test]
fn giving_up_at_different_places_says_nothing() {
    let branches = "cmp dword ptr [data], 0; je 1f; xgetbv; 1: rdfsbase rax; wrfsbase rax; ret";
    let judgement = judge(branches, "mov dword ptr [data], 1; mfence; ret", &[0]);
    assert!(
        matches!(
            judgement.call,
            Call::ReplayFailure(Failure::Incomparable { side: Side::A, .. })
        ),
        "{judgement:#?}"
    );
}

#[test]
fn regions_end_where_they_should() {
    for (code, end) in [
        ("mfence", End::Fence),
        ("sfence", End::Fence),
        ("lock inc dword ptr [data]", End::Locked),
        ("xchg eax, [data]", End::Locked),
        ("syscall", End::SystemCall),
        ("cpuid", End::Cpuid),
        ("rdtsc", End::Clock),
        ("rdrand eax", End::Random),
        ("int3", End::Trap(Trap::Breakpoint)),
        ("hlt", End::Fault(Fault::Protection)),
        ("iretq", End::Unsupported("iretq".into())),
        ("mov ds, eax", End::Unsupported("mov".into())),
        ("lfence; pause; endbr64; prefetcht0 [0]; mfence", End::Fence),
        ("div ecx", End::Fault(Fault::Arithmetic)),
        ("movaps xmm0, [data + 8]", End::Fault(Fault::Protection)),
        (
            "mov [0x400000], eax",
            End::Fault(Fault::ReadOnly { address: 0x40_0000 }),
        ),
    ] {
        let judgement = judge(
            &format!("mov eax, [data]; {code}"),
            "mov ebx, [data]; mfence",
            &[0],
        );
        assert_eq!(judgement.outcomes[0].ended[0].end, end, "{code}");
    }
}

#[test]
fn a_kernel_has_its_own_flags_and_ends() {
    let mut race = Race::new(
        "cli; pushfq; pop rbx; sti; pushfq; pop rcx; stac; clac; mov eax, [data]; wrmsr",
        "mov eax, [data]; cli; hlt",
        &[0],
    );
    race.scene.mode = Mode::Kernel;
    let judgement = race.judge();
    assert_eq!(judgement.call, Call::NoStateChange, "{judgement:#?}");
    let ended = &judgement.outcomes[0].ended;
    assert_eq!(ended[0].end, End::Privileged);
    assert_eq!((ended[0].steps, ended[1].steps), (9, 2));
}

#[test]
fn vectors_run_and_are_compared() {
    let adds = "vbroadcastss ymm1, [data]; vpaddd ymm2, ymm1, ymm1
        vmovdqu [data + 64], ymm2; mfence; vzeroall; ret";
    let (_, differences) = change(adds, "mov dword ptr [data], 4; mfence; ret", &[1]);
    let words = (0..8).map(|n| memory(DATA + 64 + n * 4, &[2], &[8]));
    assert_eq!(differences, words.collect::<Vec<_>>());
}

#[test]
fn masks_run_and_are_compared() {
    if !is_x86_feature_detected!("avx512bw") {
        println!("skipped: this processor has no AVX-512");
        return;
    }
    let adds = "mov eax, 3; kmovw k1, eax; vpbroadcastd zmm1, [data]
        vpaddd zmm2{k1}{z}, zmm1, zmm1; vmovdqu32 [data + 64], zmm2; mfence; vzeroall; ret";
    let (_, differences) = change(adds, "mov dword ptr [data], 4; mfence; ret", &[1]);
    assert_eq!(
        differences,
        [memory(DATA + 64, &[2], &[8]), memory(DATA + 68, &[2], &[8])]
    );
}

#[test]
fn what_never_gets_to_its_access_says_nothing() {
    let ends_before = "xor ecx, ecx; fnstenv [rsp - 64]; mov eax, [data]; mfence; ret";
    let judgement = judge(ends_before, "mov dword ptr [data], 4; mfence; ret", &[1]);
    let failure = Failure::NoStart {
        side: Side::A,
        end: End::Unsupported("fnstenv".to_owned()),
    };
    assert_eq!(judgement.call, Call::ReplayFailure(failure));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let add = "add dword ptr [data], 1; mfence; xor eax, eax";
    let judgement = judge(add, add, &[0]);
    for _ in 0..3 {
        assert_eq!(judge(add, add, &[0]), judgement);
    }
    assert_eq!(judgement.used, [(DATA, DATA + 4)]);
}
