//! Taking back the access of a thread that stands after it.

use crate::assemble::{CODE, DATA, Race};
use redhanded_replay::{Call, Failure, Judgement, Mode, Order, Side, Start};

/// Thread B is found after the first instruction of its code, run over `data` with these
/// registers. It is judged against a thread that reads.
fn judge_after(b: &str, data: &[u64], registers: &[(usize, u64)], before: usize) -> Judgement {
    let mut race = Race::new("mov eax, [data]; mfence; mov eax, 0; ret", b, data);
    let Start::Before(state) = &mut race.scene.threads[1] else {
        unreachable!()
    };
    for (register, value) in registers {
        state.general[*register] = *value;
    }
    let known: Vec<u8> = data
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .take(before)
        .collect();
    let state = state.clone();
    let ran = crate::worker().run(Mode::User, &state, &mut race.memory, 1, false);
    let ran = ran.expect("worker answers");
    assert_eq!(ran.steps, 1, "{:?}", ran.end);
    for (page, bytes) in ran.written {
        race.memory.write(page, &bytes.0);
    }
    race.scene.threads[1] = Start::After {
        state: ran.state,
        ip: CODE[1],
        address: DATA,
        from: DATA,
        before: known,
    };
    race.judge()
}

#[track_caller]
fn solves(b: &str, data: &[u64], registers: &[(usize, u64)], before: usize) {
    let judgement = judge_after(b, data, registers, before);
    assert!(
        !matches!(judgement.call, Call::ReplayFailure(_)),
        "{:?}",
        judgement.call
    );
    let b_first = &judgement.outcomes[1];
    assert_eq!(b_first.order, Order::First(Side::B));
    assert!(b_first.ended[1].steps >= 1, "it runs its access again");
}

#[track_caller]
fn cannot(b: &str, data: &[u64], registers: &[(usize, u64)], before: usize) {
    let judgement = judge_after(b, data, registers, before);
    assert!(
        matches!(judgement.call, Call::ReplayFailure(Failure::CannotUndo(_))),
        "{:?}",
        judgement.call
    );
}

const RAX: usize = 0;
const RCX: usize = 1;

#[test]
fn stores_need_what_they_overwrote() {
    solves("mov [data], eax; mfence; ret", &[7], &[(RAX, 8)], 8);
    cannot("mov [data], eax; mfence; ret", &[7], &[(RAX, 8)], 0);
    // Nobody reads the other four bytes.
    solves("mov [data], rax; mfence; ret", &[7], &[(RAX, 8)], 4);
}

#[test]
fn loads_need_nothing_or_their_address() {
    solves("mov eax, [data]; mfence; ret", &[7], &[], 0);
    solves("mov rax, [rax]; mfence; ret", &[7], &[(RAX, DATA)], 0);
    solves(
        "mov rax, [rcx + rax*8 + 16]; mfence; ret",
        &[7],
        &[(RAX, 2), (RCX, DATA - 32)],
        0,
    );
    solves("movzx eax, byte ptr [data]; mfence; ret", &[7], &[], 0);
    solves("mov al, [data]; mfence; ret", &[7], &[(RAX, 0x1234)], 0);
    solves("vmovdqu ymm1, [data]; mfence; ret", &[7], &[], 0);
    solves("cmp [data], ecx; mfence; ret", &[7], &[], 0);
    solves("cmove eax, [data]; mfence; ret", &[7], &[(RAX, 3)], 0);
    solves("push qword ptr [data]; mfence; ret", &[7], &[], 0);
}

#[test]
fn updates_are_solved_backwards() {
    solves("add eax, [data]; mfence; ret", &[7], &[(RAX, 3)], 0);
    solves("sub rax, [data]; mfence; ret", &[7], &[(RAX, 3)], 0);
    solves("add dword ptr [data], 5; mfence; ret", &[7], &[], 0);
    solves("dec byte ptr [data]; mfence; ret", &[0], &[], 0);
    solves("lock xadd [data], rax; mfence; ret", &[7], &[(RAX, 3)], 0);
    solves("xchg [data], rax; mfence; ret", &[7], &[(RAX, 3)], 0);
    solves("and dword ptr [data], 5; mfence; ret", &[7], &[], 4);
}

#[test]
fn what_is_lost_is_a_failure() {
    cannot("and dword ptr [data], 5; mfence; ret", &[7], &[], 0);
    cannot("and eax, [data]; mfence; ret", &[7], &[(RAX, 3)], 0);
    cannot("addsd xmm0, [data]; mfence; ret", &[7], &[], 0);
    cannot("adc eax, [data]; mfence; ret", &[7], &[(RAX, 3)], 0);
}

#[test]
fn a_lost_update_is_found_from_behind() {
    let add = "add dword ptr [data], 1; mfence; ret";
    let mut race = Race::new(add, add, &[1]);
    let Start::Before(state) = &race.scene.threads[1] else {
        unreachable!()
    };
    let mut state = state.clone();
    state.ip = CODE[1] + 8;
    state.flags = 0x202;
    race.scene.threads[1] = Start::After {
        state,
        ip: CODE[1],
        address: DATA,
        from: DATA,
        before: vec![0; 4],
    };
    // B's addition is in memory already: 1. Taken back and done in all orders it is lost
    // in some.
    let judgement = race.judge();
    let Call::StateChange { differences, .. } = &judgement.call else {
        panic!("{judgement:#?}");
    };
    assert_eq!(differences.len(), 1);
}

/// The reader looked at one byte of the word, so only that is known. The store overwrites all.
#[test]
fn a_store_of_which_a_part_is_known_is_taken_back() {
    let writes = "mov word ptr [data], 0x201; mfence; ret";
    let partly = |reader: &str| {
        let mut race = Race::new(reader, writes, &[0x201]);
        let Start::Before(state) = &race.scene.threads[1] else {
            unreachable!()
        };
        let mut state = state.clone();
        state.ip = CODE[1] + 10;
        race.scene.threads[1] = Start::After {
            state,
            ip: CODE[1],
            address: DATA,
            from: DATA + 1,
            before: vec![5],
        };
        race.scene.race = vec![(DATA + 1, DATA + 2)];
        race.judge().call
    };
    let call = partly("cmp byte ptr [data + 1], 5; setne al; mov [data + 8], al; mfence; ret");
    assert!(matches!(call, Call::StateChange { .. }), "{call:?}");
    // Twin: somebody reads the byte of which nothing is known.
    let call = partly("mov ax, [data]; mov [data + 8], ax; mfence; ret");
    assert!(
        matches!(call, Call::ReplayFailure(Failure::CannotUndo(_))),
        "{call:?}"
    );
}
