//! The conversation with a scripted stub: questions, answers, stops.

use super::script::{PATIENCE, SHORT, met, registers, stopped};
use redhanded_guest::gdb::{Answer, GdbError, Point, PointKind, Request, StopReply};
use redhanded_model::Register;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_batch_is_written_before_its_first_answer() {
    let watch = Point {
        kind: PointKind::Access,
        address: 0xffff_8000_0000_0010,
        len: 8,
    };
    let requests = [
        Request::Remove(Point {
            kind: PointKind::Software,
            address: 0x10,
            len: 1,
        }),
        Request::Insert(watch),
        Request::Read {
            address: 0x20,
            len: 4,
        },
        Request::Read {
            address: 0x30,
            len: 2,
        },
        Request::Registers(2),
        Request::Registers(3),
        Request::Select(1),
    ];
    let (answers, standing) = met(
        |stub| {
            // All of it is heard before anything is said.
            for packet in [
                "z0,10,1",
                "Z4,ffff800000000010,8",
                "m20,4",
                "m30,2",
                "Hg2",
                "g",
                "Hg3",
                "g",
                "Hg1",
            ] {
                stub.expect(packet);
            }
            for answer in ["E22", "OK", "0a0b0cff", "E14", "OK"] {
                stub.say(answer);
            }
            stub.say(&registers(0x1122_3344_5566_7788, 0xffff_ffff_8100_0000));
            stub.say("E22");
            stub.say(&registers(1, 2));
            stub.say("OK");
            stub.answer("z4,ffff800000000010,8", "OK");
            stub.part();
        },
        |mut gdb| {
            assert_eq!(gdb.vcpus(), [1, 2]);
            let answers = gdb.ask(&requests).unwrap();
            let standing = gdb.inserted().to_vec();
            gdb.detach().unwrap();
            (answers, standing)
        },
    );
    assert_eq!(standing, [watch], "what was refused does not stand");
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap();
    assert!(!next().done());
    assert!(next().done());
    assert_eq!(next().memory(), Some(vec![0x0a, 0x0b, 0x0c, 0xff]));
    assert_eq!(next().memory(), None);
    let told = next().registers().unwrap().general;
    assert_eq!(told.get(Register::Rax), 0x1122_3344_5566_7788);
    assert_eq!((told.rip, told.rflags), (0xffff_ffff_8100_0000, 2));
    let of_nobody = next().registers();
    assert_eq!(of_nobody, None, "what came then was another vCPU's");
    assert!(next().done());
}

#[test]
fn much_memory_comes_in_bounded_batches() {
    const LEN: usize = 300_000;
    let memory = met(
        |stub| {
            let mut offset = 0;
            while offset < LEN {
                let packet = stub.hear().unwrap();
                let (address, len) = packet.strip_prefix('m').unwrap().split_once(',').unwrap();
                let address = usize::from_str_radix(address, 16).unwrap();
                let len = usize::from_str_radix(len, 16).unwrap();
                assert_eq!(address, 0x1000 + offset, "in order, without gaps");
                assert!(2 * len + 4 <= 0x1000, "fits into the stub's packets");
                let bytes: String = (0..len)
                    .map(|i| format!("{:02x}", (offset + i) % 251))
                    .collect();
                stub.say(&bytes);
                offset += len;
            }
            stub.part();
        },
        |mut gdb| {
            let mut memory = vec![0; LEN];
            assert!(gdb.read(0x1000, &mut memory).unwrap());
            memory
        },
    );
    assert!(
        memory
            .iter()
            .enumerate()
            .all(|(at, byte)| usize::from(*byte) == at % 251)
    );
}

#[test]
fn stops_from_before_are_dropped() {
    met(
        |stub| {
            // Unsolicited, as QEMU 7.2 does; then in the middle of answers.
            stub.say("T02thread:01;");
            stub.expect("m10,1");
            stub.say("T05thread:02;");
            stub.say("2a");
            // And one that crosses the resumption: it is on its way before the stub
            // has acknowledged that.
            stub.acknowledges = false;
            stub.expect("vCont;c:2");
            stub.say("T02thread:01;");
            thread::sleep(Duration::from_millis(50));
            stub.raw(b"+");
            thread::sleep(Duration::from_millis(50));
            stub.say("T05thread:02;watch:1234;");
            stub.acknowledges = true;
            stub.part();
        },
        |mut gdb| {
            let mut byte = [0];
            assert!(gdb.read(0x10, &mut byte).unwrap());
            assert_eq!(byte, [0x2a]);
            gdb.resume(Some(&[2])).unwrap();
            assert!(gdb.is_running());
            let stop = gdb.wait(PATIENCE).unwrap();
            let hit = StopReply::Stopped {
                vcpu: Some(2),
                signal: StopReply::TRAP,
                watch: Some((PointKind::Write, 0x1234)),
            };
            assert_eq!(stop, Some(hit));
            assert!(!gdb.is_running());
            assert_eq!(gdb.stray_stops(), 3);
            assert_eq!(gdb.wait(Duration::ZERO).unwrap(), None, "it stands");
            gdb.detach().unwrap();
        },
    );
}

#[test]
fn a_stop_that_crosses_an_interrupt_is_told_once() {
    met(
        |stub| {
            stub.expect("vCont;c");
            stub.expect("interrupt");
            // It had stopped before it heard that, and answers the interrupt later,
            // which QEMU does not do.
            stub.say("T05thread:02;");
            stub.acknowledges = false;
            stub.expect("vCont;c");
            stub.say("T02thread:01;");
            stub.raw(b"+");
            stub.say("T05thread:01;");
            stub.acknowledges = true;
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.interrupt(PATIENCE).unwrap(),
                stopped(2, StopReply::TRAP)
            );
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(1, StopReply::TRAP))
            );
            assert_eq!(gdb.stray_stops(), 1);
        },
    );
}

#[test]
fn a_stop_that_has_come_already_needs_no_interrupt() {
    let (tell, told) = mpsc::channel();
    met(
        move |stub| {
            stub.expect("vCont;c");
            stub.say("T05thread:02;");
            tell.send(()).unwrap();
            stub.answer("Hg1", "OK");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            // Nothing is read meanwhile.
            told.recv().unwrap();
            assert_eq!(
                gdb.interrupt(PATIENCE).unwrap(),
                stopped(2, StopReply::TRAP)
            );
            assert!(gdb.ask(&[Request::Select(1)]).unwrap()[0].done());
        },
    );
}

#[test]
fn a_machine_that_stands_in_silence_is_asked_why() {
    met(
        |stub| {
            stub.expect("vCont;c");
            // Somebody else stopped it, and it said nothing. The first question is
            // lost with its first byte, as when it ran after all.
            stub.expect("interrupt");
            stub.acknowledges = false;
            stub.expect("?");
            stub.acknowledges = true;
            stub.answer("?", "T05thread:01;");
            stub.answer("Hg1", "OK");
            // An acknowledgement is missing; a stop counts nevertheless.
            stub.answer("vCont;c", "T05thread:02;");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert_eq!(gdb.interrupt(SHORT).unwrap(), stopped(1, StopReply::TRAP));
            gdb.resume(None).unwrap();
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(2, StopReply::TRAP))
            );
        },
    );
}

#[test]
fn questions_go_with_a_resumption_and_with_an_interrupt() {
    met(
        |stub| {
            // An old stop comes before the answers, a new one right after them.
            for packet in ["m10,1", "m20,1", "vCont;c:2"] {
                stub.expect(packet);
            }
            stub.say("T02thread:01;");
            stub.say("2a");
            stub.say("E14");
            stub.say("T05thread:02;");
            stub.expect("vCont;c");
            for packet in ["interrupt", "m30,1", "z0,10,1"] {
                stub.expect(packet);
            }
            // The stop crossed the interrupt.
            stub.say("T05thread:01;");
            stub.say("2b");
            stub.say("OK");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.expect("m30,1");
            // The machine stood, and says nothing of it.
            stub.say("2c");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.say("T02thread:01;");
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.expect("m30,1");
            stub.say("W00");
        },
        |mut gdb| {
            let read = |address| Request::Read { address, len: 1 };
            let breakpoint = Point {
                kind: PointKind::Software,
                address: 0x10,
                len: 1,
            };
            let answers = gdb.ask_then_resume(&[read(0x10), read(0x20)], Some(&[2]));
            let expected = [Answer::Memory(Some(vec![0x2a])), Answer::Memory(None)];
            assert_eq!(answers.unwrap(), expected);
            assert!(gdb.is_running());
            assert_eq!(gdb.stray_stops(), 1);
            assert_eq!(
                gdb.wait(PATIENCE).unwrap(),
                Some(stopped(2, StopReply::TRAP))
            );
            gdb.resume(None).unwrap();
            let asked =
                gdb.interrupt_then_ask(&[read(0x30), Request::Remove(breakpoint)], PATIENCE);
            let expected = vec![Answer::Memory(Some(vec![0x2b])), Answer::Done(true)];
            assert_eq!(asked.unwrap(), (stopped(1, StopReply::TRAP), expected));
            gdb.resume(None).unwrap();
            let (stop, answers) = gdb.interrupt_then_ask(&[read(0x30)], PATIENCE).unwrap();
            assert!(
                matches!(stop, StopReply::Stopped { vcpu: None, .. }),
                "{stop:?}"
            );
            assert_eq!(answers, [Answer::Memory(Some(vec![0x2c]))]);
            gdb.resume(None).unwrap();
            let (stop, _) = gdb.interrupt_then_ask(&[], PATIENCE).unwrap();
            assert_eq!(stop, stopped(1, StopReply::INTERRUPT));
            gdb.resume(None).unwrap();
            let (stop, _) = gdb.interrupt_then_ask(&[read(0x30)], PATIENCE).unwrap();
            assert_eq!(stop, StopReply::Exited(0));
        },
    );
}

#[test]
fn who_is_selected_is_not_selected_again() {
    met(
        |stub| {
            stub.answer("vCont;c", "T05thread:02;");
            // It is about the one that stopped.
            stub.answer("m10,1", "0a");
            stub.answer("Hg1", "OK");
            stub.answer("m20,1", "0b");
            stub.answer("m30,1", "0c");
            // What is said of one that is not there is another one's.
            stub.answer("Hg9", "E22");
            stub.answer("m40,1", "0d");
            stub.answer("Hg1", "OK");
            stub.answer("m50,1", "0e");
            stub.answer("Hg9", "E22");
            stub.answer("Hg9", "E22");
            stub.answer("Hg9", "E22");
            // Who stops it while it is interrupted is the one it is about.
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.say("T02thread:01;");
            stub.answer("Hg1", "OK");
            stub.answer("m60,1", "0f");
            stub.part();
        },
        |mut gdb| {
            let read = |address| Request::Read { address, len: 1 };
            let byte = |byte| Answer::Memory(Some(vec![byte]));
            let (done, refused) = (Answer::Done(true), Answer::Done(false));
            gdb.resume(None).unwrap();
            gdb.wait(PATIENCE).unwrap();
            let select = Request::Select;
            let asked = gdb.ask(&[select(2), read(0x10), select(1), read(0x20)]);
            let expected = [done.clone(), byte(10), done.clone(), byte(11)];
            assert_eq!(asked.unwrap(), expected);
            let asked = gdb.ask(&[select(1), read(0x30), select(9), read(0x40)]);
            let expected = [
                done.clone(),
                byte(12),
                refused.clone(),
                Answer::Memory(None),
            ];
            assert_eq!(asked.unwrap(), expected);
            let asked = gdb.ask(&[select(1), read(0x50), select(9)]);
            assert_eq!(asked.unwrap(), [done.clone(), byte(14), refused.clone()]);
            let asked = gdb.ask(&[select(9)]).unwrap().pop();
            assert_eq!(asked, Some(refused.clone()));
            let asked = gdb.ask(&[select(9), select(9)]);
            assert_eq!(asked.unwrap(), [refused.clone(), refused]);
            gdb.resume(None).unwrap();
            let asked = gdb.interrupt_then_ask(&[select(1), read(0x60)], PATIENCE);
            assert_eq!(asked.unwrap().1, [done, byte(15)]);
        },
    );
}

#[test]
fn nothing_is_written_while_the_machine_runs() {
    met(
        |stub| {
            stub.expect("vCont;c");
            stub.expect("interrupt");
            stub.say("T02thread:01;");
            stub.part();
        },
        |mut gdb| {
            gdb.resume(None).unwrap();
            assert!(matches!(gdb.read(0, &mut [0]), Err(GdbError::Running)));
            assert!(matches!(gdb.resume(None), Err(GdbError::Running)));
            let before = Instant::now();
            assert_eq!(gdb.wait(Duration::from_micros(50)).unwrap(), None);
            assert!(before.elapsed() >= Duration::from_micros(50));
            assert!(gdb.is_running(), "still");
            gdb.detach().unwrap();
        },
    );
}
