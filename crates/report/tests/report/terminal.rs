use crate::fixtures;
use redhanded_model::{Loss, Losses, Race, Report, Run, SiteCounts, Standstill, Values};
use redhanded_report::{Style, Terminal};

fn short(race: &Race) -> String {
    let mut text = Vec::new();
    Terminal::new(Style::default())
        .race(&mut text, race, 120)
        .unwrap();
    String::from_utf8(text).unwrap()
}

/// The races of a report, and its summary.
fn parts(style: Style, report: &Report) -> (String, String) {
    let terminal = Terminal::new(style).with_source(|file, line| {
        (file == "demo.c").then(|| match line {
            42 => "\t\tdev->busy = 1;".to_owned(),
            _ => "\tdev->need_callback = 1;".to_owned(),
        })
    });
    let text = fixtures::written(&terminal, report);
    let end = text.rfind("fingerprint ").map_or(0, |last| {
        last + text[last..].find("\n\n").expect("a summary follows") + 2
    });
    let (races, summary) = text.split_at(end);
    (races.to_owned(), summary.to_owned())
}

fn full_as(style: Style, race: &Race) -> String {
    let mut report = fixtures::run();
    report.run.windows = 1204;
    report.races = vec![race.clone()];
    parts(style, &report).0
}

fn full(race: &Race) -> String {
    full_as(Style::default(), race)
}

fn summary(report: &Report) -> String {
    parts(Style::default(), report).1
}

#[test]
fn a_race_as_it_comes() {
    insta::assert_snapshot!(short(&fixtures::bit_fields()), @r#"
    RACE  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]
      held    update 4 bytes  set_busy          demo.c:42  thread 4711 (worker)
      caught  update 4 bytes  request_callback  demo.c:71  thread 4710 (poll)
      value   0x00000011 → 0x00000031, bit 5 changed: need_callback 0 → 1
      seen    by a debug register, 3 times in 120 windows
    "#);
}

#[test]
fn changed_bits_have_the_names_of_their_fields() {
    insta::assert_snapshot!(full(&fixtures::bit_fields()), @r#"
    RACE 1 of 1  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]

      held    update 4 bytes  set_busy          demo.c:42  thread 4711 (worker)
              42 │ dev->busy = 1;
              or dword ptr [rdi+8],1
      caught  update 4 bytes  request_callback  demo.c:71  thread 4710 (poll)
              71 │ dev->need_callback = 1;
              or dword ptr [rbx+8],20h
              inlined into poll_loop

      value   0x00000011 → 0x00000031, bit 5 changed: need_callback 0 → 1
      fields  busy 1, state 0, level 1, need_callback 0 → 1
      at      0x555555558040
      seen    by a debug register, 3 times in 1,204 windows
      note    Both sides write, and bit-fields that share bytes are written back
              together: changing one can undo a change of another.

      stack of the held thread 4711 (worker)
        #0 set_busy      demo.c:42
        #1 start_thread  libc.so.6+0x89134

      stack of the caught thread 4710 (poll)
        #0 request_callback  demo.c:71  (inlined)
        #1 poll_loop         demo.c:90
        #2 start_thread      libc.so.6+0x89134

      fingerprint d3ee6081 request_callback update | set_busy update @ device.flags
    "#);
}

#[test]
fn a_narrow_terminal_with_colours_and_without_unicode() {
    let style = Style {
        color: true,
        width: 60,
        unicode: false,
    };
    let text = full_as(style, &fixtures::bit_fields());
    assert!(text.replace('\x1b', "").is_ascii());
    insta::assert_snapshot!(text.replace('\x1b', "^"), @r#"
    ^[1;31mRACE 1 of 1^[0m  ^[1mdevice.flags^[0m (unsigned int, 4 bytes),
        global of demo  ^[2m[d3ee6081]^[0m

      ^[1;36mheld^[0m    ^[1mset_busy^[0m  ^[36mdemo.c:42^[0m
              update 4 bytes  thread 4711 (worker)
              ^[2m42^[0m ^[2m|^[0m dev->busy = 1;
              ^[2mor dword ptr [rdi+8],1^[0m
      ^[1;35mcaught^[0m  ^[1mrequest_callback^[0m  ^[36mdemo.c:71^[0m
              update 4 bytes  thread 4710 (poll)
              ^[2m71^[0m ^[2m|^[0m dev->need_callback = 1;
              ^[2mor dword ptr [rbx+8],20h^[0m
              ^[2minlined^[0m ^[2minto^[0m ^[2mpoll_loop^[0m

      ^[1mvalue^[0m   0x00000011 -> 0x00000031, ^[1;33mbit 5^[0m changed:
              ^[1;33mneed_callback 0 -> 1^[0m
      ^[1mfields^[0m  busy 1, state 0, level 1, ^[1;33mneed_callback 0 -> 1^[0m
      ^[1mat^[0m      0x555555558040
      ^[1mseen^[0m    by a debug register, 3 times in 1,204 windows
      ^[1mnote^[0m    Both sides write, and bit-fields that share bytes
              are written back together: changing one can undo a
              change of another.

      ^[1mstack of the held thread 4711 (worker)^[0m
        #0 set_busy      ^[36mdemo.c:42^[0m
        #1 start_thread  ^[2mlibc.so.6+0x89134^[0m

      ^[1mstack of the caught thread 4710 (poll)^[0m
        #0 request_callback  ^[36mdemo.c:71^[0m  ^[2m(inlined)^[0m
        #1 poll_loop         ^[36mdemo.c:90^[0m
        #2 start_thread      ^[2mlibc.so.6+0x89134^[0m

      ^[2mfingerprint d3ee6081^[0m ^[2mrequest_callback update |^[0m
        ^[2mset_busy update @^[0m ^[2mdevice.flags^[0m
    "#);
}

#[test]
fn nobody_was_seen_to_change_the_bytes() {
    insta::assert_snapshot!(full(&fixtures::unknown_origin()), @r#"
    RACE, UNKNOWN ORIGIN 1 of 1  8 bytes at 0x7ffff7fba000,
        mapping /dev/zero (deleted), shared  [d674ddbe]

      held    read 8 bytes  wait_for_peer  shm.c:17  thread 4711 (worker)
              mov rax,[rdi]
      caught  nobody: the bytes changed while the thread was held

      value   0x0000000000000000 → 0x80000000000155ff, 14 bits changed
      seen    by re-reading the bytes, once in 1,204 windows
      note    Unknown origin: no watched thread was seen to make the change. It can
              come from another process through shared memory, from a second mapping
              of the same page, from the kernel filling a buffer, or from a thread
              that could not be watched.

      stack of the held thread 4711 (worker)
        #0 wait_for_peer  shm.c:17
        #1 start_thread   libc.so.6+0x89134

      fingerprint d674ddbe wait_for_peer read @ mapping
    "#);
}

#[test]
fn what_may_be_atomic_says_what_that_means() {
    insta::assert_snapshot!(full(&fixtures::possibly_atomic()), @r#"
    POSSIBLY ATOMIC 1 of 1  flag (int, 4 bytes), global of demo  [f5a9d527]

      held    read 4 bytes   ready        thread 4711 (worker)
      caught  write 4 bytes  demo+0x1300  thread 4712

      value   0x00000001 (1), unchanged: the caught access wrote the same value
      at      0x555555558040
      seen    by a debug register, twice in 1,204 windows
      note    Possibly atomic: an atomic load or store in the source can compile to
              a plain move like this one, and the binary does not show which it is.
              Look at the source lines. This does not fail the run.

      stack of the held thread 4711 (worker)
        #0 ready         demo+0x11a6
        #1 start_thread  libc.so.6+0x89134

      stack of the caught thread 4712
        #0 demo+0x1300
        #1 start_thread  libc.so.6+0x89134

      fingerprint f5a9d527 ? write | ready read @ flag
    "#);
}

#[test]
fn a_system_call_is_named_and_a_wide_value_shows_its_changed_words() {
    insta::assert_snapshot!(full(&fixtures::system_call()), @r#"
    RACE 1 of 1  buffer (char [64], 32 bytes), heap  [b22920d8]

      held    parse  io.c:30
              read 32 bytes   thread 4711 (worker)
              vmovdqu ymm0,[rsi]
      caught  __read (system call read)  from io.c:12
              write 64 bytes  thread 4712 (reader)
              made by the kernel on behalf of this thread

      value   bytes 8–16 changed
              +8   0x0000000000000000 → 0x5448202f20544547
              +16  0x0000000000000000 → 0x0000000000000050
      at      0x555555558040
      seen    by a debug register, 3 times in 1,204 windows

      stack of the held thread 4711 (worker)
        #0 parse         io.c:30
        #1 start_thread  libc.so.6+0x89134

      stack of the caught thread 4712 (reader)
        #0 __read  libc.so.6+0xf81a0
        #1 fill    io.c:12  demo

      fingerprint b22920d8 __read write | parse read @ buffer
    "#);
}

#[test]
fn long_names_are_short_above_and_whole_in_stacks() {
    let text = full(&fixtures::long_names());
    for line in [
        format!("    #0 {}", fixtures::CPP),
        format!("    #0 {}", fixtures::RUST),
    ] {
        assert!(text.lines().any(|text| text == line), "{text}");
    }
    insta::assert_snapshot!(short(&fixtures::long_names()), @r#"
    RACE  hits (i64, 8 bytes), global of demo  [a7962c33]
      held    cache::Table<…>::insert(…)
              …/cache-2.1/src/include/cache/table.hpp:210
              write 4 bytes  thread 4711 (worker)
      caught  <Shared<…> as Record<…>>::record  src/stats.rs:8
              read 4 bytes   thread 4710 (main)
      value   0x0000000000000029 (41), unchanged: the caught access only reads
      seen    by a debug register, 3 times in 120 windows
    "#);
}

#[test]
fn a_hostile_target_cannot_drive_the_terminal() {
    insta::assert_snapshot!(short(&fixtures::hostile()), @r#"
    POSSIBLY ATOMIC  x\ny (int, 4 bytes), global of demo  [f5a9d527]
      held    ready
              read 4 bytes   thread 4711 (\x1b]0;owned\x07\x1b[2J)
      caught  f\u{202e}(tni)\u{9b}31m\r\n
              write 4 bytes  thread 4712
      value   0x00000001 (1), unchanged: the caught access wrote the same value
      seen    by a debug register, twice in 120 windows
    "#);
}

#[test]
fn a_bit_of_no_field_and_a_field_across_the_end() {
    let mut race = fixtures::bit_fields();
    race.what.bit_fields.truncate(1);
    race.what.bit_fields[0].bits = 40;
    race.values.after = vec![0x31, 0, 0, 0];
    let text = short(&race);
    assert!(text.contains("bit 5 changed: busy\n"), "{text}");
    race.what.bit_fields[0].bits = 1;
    race.values.after = vec![0x30, 0, 0, 0];
    let text = short(&race);
    assert!(
        text.contains("changed: busy 1 → 0,\n          bit 5 in no field\n"),
        "{text}"
    );
}

#[test]
fn numbers_are_shown_in_their_type() {
    let mut race = fixtures::long_names();
    race.values.after = (-7i64).to_le_bytes().to_vec();
    assert!(short(&race).contains("(41 → -7)"), "{}", short(&race));
    race.values = Values::default();
    assert!(!short(&race).contains("value"), "{}", short(&race));
    assert!(full(&race).contains("value   not known"), "{}", full(&race));
}

#[test]
fn the_end_of_a_run_with_races() {
    insta::assert_snapshot!(summary(&fixtures::run()), @r#"
    2 races, 1 possibly atomic (1 of unknown origin)
      1 [d3ee6081] device.flags: update in set_busy / update in request_callback,
         3 times
      2 [f5a9d527] flag: read in ready / write in demo+0x1300, twice,
         possibly atomic
      3 [d674ddbe] mapping /dev/zero (deleted), shared: read in wait_for_peer
         / unknown origin, once

      program   ./demo --threads=4, 12.3 s, exited with status 0
      samples   2,470 (200/s), 1,257 windows
      held      610 ms, 2.5 % of 24.5 s of thread time
      sites     812 in total, 500 armed (62 %), 120 sampled (15 %)
      losses    samples that showed nothing, or less than they could
                1,204 no other thread to collide with (49 % of samples)
                    9 over budget (0.4 % of samples)
      losses    traps dropped because they could not be confirmed
                    2 trap of an earlier window
      not seen  692 of 812 sites were never sampled (85 %)
                libc.so.6: runtime library, not sampled
    "#);
}

#[test]
fn the_full_report_has_every_race_and_then_the_summary() {
    let (races, summary) = parts(Style::default(), &fixtures::run());
    let positions: Vec<usize> = ["RACE 1 of 3", "POSSIBLY ATOMIC 2 of 3", "ORIGIN 3 of 3"]
        .iter()
        .map(|title| races.find(title).unwrap())
        .collect();
    assert!(positions.is_sorted());
    assert!(summary.starts_with("2 races"), "{summary}");
}

#[test]
fn silence_is_explained() {
    let report = Report {
        races: Vec::new(),
        ..fixtures::run()
    };
    insta::assert_snapshot!(summary(&report), @r#"
    No race caught in 1,257 windows.
      program   ./demo --threads=4, 12.3 s, exited with status 0
      samples   2,470 (200/s), 1,257 windows
      held      610 ms, 2.5 % of 24.5 s of thread time
      sites     812 in total, 500 armed (62 %), 120 sampled (15 %)
      losses    samples that showed nothing, or less than they could
                1,204 no other thread to collide with (49 % of samples)
                    9 over budget (0.4 % of samples)
      losses    traps dropped because they could not be confirmed
                    2 trap of an earlier window
      not seen  692 of 812 sites were never sampled (85 %)
                libc.so.6: runtime library, not sampled

      Silence is no proof: a race is caught only if another thread accesses the
      bytes while one is held at its access.
      - 1,204 samples found no other thread: give the program input that keeps
        several threads at work.
      - 120 of 812 sites were sampled: run longer (--for 60s) or more often
        (--repeat 100), with other input, and with a larger share of its time
        (--overhead 20%).
    "#);
}

#[test]
fn advice_follows_from_what_happened() {
    let nothing = summary(&Report::default());
    assert!(nothing.contains("nothing to sample"), "{nothing}");
    let summary = |run: &Run| {
        let races = Vec::new();
        let run = run.clone();
        summary(&Report { run, races })
    };
    let mut run = Run {
        sites: SiteCounts {
            total: 10,
            armed: 10,
            sampled: 0,
        },
        ..Run::default()
    };
    let early = summary(&run);
    assert!(early.contains("--repeat 100"), "{early}");
    run.sites.sampled = 10;
    run.samples = 50;
    run.windows = 20;
    run.losses = Losses([(Loss::OverBudget, 30)].into());
    let starved = summary(&run);
    assert!(starved.contains("--overhead 20%"), "{starved}");
    assert!(!starved.contains("not seen"), "{starved}");
    run.losses = Losses::default();
    run.standstill = Some(Standstill {
        total_s: 0.5,
        window_s: Some(0.0003),
    });
    let kernel = summary(&run);
    assert!(kernel.contains("other workloads"), "{kernel}");
    assert!(kernel.contains("no CPU ran for 500 ms"), "{kernel}");
    assert!(!kernel.contains("--repeat"), "{kernel}");
}
