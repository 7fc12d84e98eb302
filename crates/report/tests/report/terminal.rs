use crate::fixtures;
use redhanded_model::{
    AccessKind, Class, Fact, Hunted, Loss, Losses, Race, Region, Report, Rule, Run, SiteCounts,
    Spot, Standstill, Typed, Values,
};
use redhanded_report::{Style, Terminal};
use std::time::Duration;

fn short(race: &Race) -> String {
    let mut text = Vec::new();
    Terminal::new(Style::default())
        .race(&mut text, race, Duration::from_millis(12_345))
        .unwrap();
    String::from_utf8(text).unwrap()
}

/// The races of a report, and its summary.
fn parts(style: Style, report: &Report, verbose: bool) -> (String, String) {
    let terminal = Terminal::new(style)
        .verbose(verbose)
        .with_source(fixtures::source());
    let text = fixtures::written(&terminal, report);
    let last = if verbose {
        "fingerprint "
    } else {
        "stack of the "
    };
    let end = text.rfind(last).map_or(0, |last| {
        last + text[last..].find("\n\n").expect("a summary follows") + 2
    });
    let (races, summary) = text.split_at(end);
    (races.to_owned(), summary.to_owned())
}

fn full_as(style: Style, race: &Race) -> String {
    let mut report = fixtures::run();
    report.run.windows = 1204;
    report.races = vec![race.clone()];
    parts(style, &report, true).0
}

/// The form that is shown unless more is asked for.
pub fn compact(race: &Race) -> String {
    let mut report = fixtures::run();
    report.races = vec![race.clone()];
    parts(Style::default(), &report, false).0
}

pub fn full(race: &Race) -> String {
    full_as(Style::default(), race)
}

fn summary(report: &Report) -> String {
    parts(Style::default(), report, false).1
}

#[test]
fn a_race_as_it_comes() {
    insta::assert_snapshot!(short(&fixtures::bit_fields()), @r#"
    [12.3s] RACE  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]
        update in set_busy demo.c:42 against update in request_callback demo.c:71
    "#);
}

#[test]
fn a_race_takes_few_lines() {
    let mut race = fixtures::bit_fields();
    let mut runtime = fixtures::frame("std::thread::start", "/rustc/library/std/thread.rs", 9, 1);
    runtime.inlined = true;
    let calls = vec![runtime; 20];
    race.accesses[0].stack.splice(1..1, calls);
    insta::assert_snapshot!(compact(&race), @r#"
    RACE 1 of 1  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]
      held    update 4 bytes  set_busy          demo.c:42  thread 4711 (worker)
              42 │ dev->busy = 1;
      caught  update 4 bytes  request_callback  demo.c:71  thread 4710 (poll)
              71 │ dev->need_callback = 1;
      value   0x00000011 → 0x00000031, bit 5 changed: need_callback 0 → 1
      fields  busy 1, state 0, level 1, need_callback 0 → 1
      order   1 held    is about to update 4 bytes
              2 caught  updates them, from 0x00000011 to 0x00000031
              3 held    goes on: its update comes only now
      seen    by a debug register, 3 times in 1,257 windows
      note    Both sides write, and bit-fields that share bytes are written back
              together: changing one can undo a change of another.
      hint    usually: one lock for all fields that share these bytes, or a word of
              its own for each
      stack of the held side        stack of the caught side
         21 frames of the runtime     #1 poll_loop     demo.c:90
                                      #2 start_thread  libc.so.6+0x89134
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
      order   1 held    is about to update 4 bytes
              2 caught  updates them, from 0x00000011 to 0x00000031
              3 held    goes on: its update comes only now
      seen    by a debug register, 3 times in 1,204 windows
      note    Both sides write, and bit-fields that share bytes are written back
              together: changing one can undo a change of another.
      hint    usually: one lock for all fields that share these bytes, or a word of
              its own for each

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
      ^[1morder^[0m   1 ^[1;36mheld^[0m    is about to update 4 bytes
              2 ^[1;35mcaught^[0m  updates them, from 0x00000011 to
                        0x00000031
              3 ^[1;36mheld^[0m    goes on: its update comes only now
      ^[1mseen^[0m    by a debug register, 3 times in 1,204 windows
      ^[1mnote^[0m    Both sides write, and bit-fields that share bytes
              are written back together: changing one can undo a
              change of another.
      ^[1mhint^[0m    usually: one lock for all fields that share these
              bytes, or a word of its own for each

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
      order   1 held    is about to read 8 bytes
              2 other   changes them, from 0x0000000000000000 to 0x80000000000155ff
              3 held    goes on: its read comes only now
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

      value   0x00000001 (1), unchanged: the caught access wrote the same value, or
              wrote before it was first read
      at      0x555555558040
      order   1 held    is about to read 4 bytes
              2 caught  writes them
              3 held    goes on: its read comes only now
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
    RACE 1 of 1  buffer (32 bytes of char [64]), heap  [b22920d8]

      held    parse  io.c:30
              read 32 bytes   thread 4711 (worker)
              vmovdqu ymm0,[rsi]
      caught  fill (in __read, system call read)  io.c:12
              write 64 bytes  thread 4712 (reader)
              made by the kernel on behalf of this thread

      value   bytes 8–16 changed
              +8   0x0000000000000000 → 0x5448202f20544547
              +16  0x0000000000000000 → 0x0000000000000050
      at      0x555555558040
      order   1 held    is about to read 32 bytes
              2 caught  writes them in read(2)
              3 held    goes on: its read comes only now
      seen    by a debug register, 3 times in 1,204 windows
      hint    usually: one lock around both, or a copy for each thread

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
    [12.3s] RACE  hits (i64, 8 bytes), global of demo  [a7962c33]
        write in …::Table<…>::insert(…) against read in …::record
    "#);
}

#[test]
fn a_hostile_target_cannot_drive_the_terminal() {
    insta::assert_snapshot!(short(&fixtures::hostile()), @r#"
    [12.3s] POSSIBLY ATOMIC  x\ny (int, 4 bytes), global of demo  [f5a9d527]
        read in ready against write in f\u{202e}(tni)\u{9b}31m\r\n
    "#);
}

#[test]
fn a_bit_of_no_field_and_a_field_across_the_end() {
    let mut race = fixtures::bit_fields();
    race.what.bit_fields.truncate(1);
    race.what.bit_fields[0].bits = 40;
    race.values.after = vec![0x31, 0, 0, 0];
    let text = compact(&race);
    assert!(text.contains("bit 5 changed: busy\n"), "{text}");
    race.what.bit_fields[0].bits = 1;
    race.values.after = vec![0x30, 0, 0, 0];
    let text = compact(&race);
    assert!(
        text.contains("changed: busy 1 → 0,\n          bit 5 in no field\n"),
        "{text}"
    );
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_behind_a_pointer_has_the_name_of_its_type() {
    let mut race = fixtures::behind_a_pointer();
    let text = words(&full(&race));
    for part in [
        "struct item.it_flags (uint16_t, 2 bytes), heap",
        "as it->it_flags",
        "as search->it_flags",
        "(3 → 11)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    race.what.pointee.as_mut().unwrap().doubtful = true;
    let text = words(&short(&race));
    assert!(text.contains("perhaps struct item.it_flags"), "{text}");
}

#[test]
fn two_sides_that_mean_different_things_are_told_so_first() {
    let mut race = fixtures::behind_a_pointer();
    let caught = race.accesses[1].pointee.as_mut().unwrap();
    caught.type_name = "struct conn".into();
    caught.path = ".state".into();
    race.what.pointee = None;
    race.what.sides_differ = true;
    let text = full(&race);
    let second = words(text.lines().nth(1).unwrap());
    let told = "The held thread takes these bytes for struct item.it_flags, the caught one for \
                struct conn.state";
    assert!(words(&text).contains(told), "{text}");
    assert!(second.starts_with("The held thread takes"), "{text}");
}

#[test]
fn an_index_that_leads_out_of_its_array_is_told_first() {
    let mut race = fixtures::behind_a_pointer();
    race.what.name = Some("limit".into());
    race.what.pointee = None;
    race.what.sides_differ = true;
    let caught = race.accesses[1].pointee.as_mut().unwrap();
    caught.expression = Some("samples[8]".into());
    caught.outside = true;
    let text = full(&race);
    let told = "The caught thread takes these bytes for samples[8], which is outside the array: \
                they are limit.";
    let text = text.split_once('\n').unwrap().1;
    assert!(words(text).starts_with(told), "{text}");
    assert!(text.contains("length of its array"), "{text}");
}

#[test]
fn a_stack_is_told_with_the_function_whose_frame_it_is() {
    let mut race = fixtures::typed();
    let thread = fixtures::thread(4711, "worker");
    race.what.region = Region::Stack { thread };
    race.what.block = None;
    assert!(!words(&full(&race)).contains(" in serve"));
    race.what.frame = Some("serve".into());
    let text = words(&full(&race));
    assert!(
        text.contains("stack of thread 4711 (worker) in serve"),
        "{text}"
    );
}

#[test]
fn a_block_has_a_size_and_a_thread_a_creator() {
    let race = fixtures::typed();
    let text = full(&race);
    let told = words(&text);
    for part in [
        "struct job.state (enum state, 4 bytes), heap block of 40 bytes, 16 into it",
        "(IDLE → BUSY)",
        "is about to write 4 bytes: DONE",
        "writes them, from IDLE to BUSY",
        "which thread 4700 (main) created here",
        "start_workers",
    ] {
        assert!(told.contains(part), "{part}: {text}");
    }
    assert!(!compact(&race).contains("created here"), "only with -v");
}

#[test]
fn a_block_is_told_with_who_allocated_it() {
    let race = fixtures::allocated();
    let brief = "block allocated by thread 4700 (main) in make_job pool.c:12";
    let text = compact(&race);
    assert!(words(&text).contains(brief), "{text}");
    assert!(!text.contains("allocated here"), "only with -v: {text}");
    let text = full(&race);
    let told = words(&text);
    assert!(told.contains(brief), "{text}");
    let stack = "the block, which thread 4700 (main) allocated here #0 malloc";
    assert!(told.contains(stack), "{text}");
    assert!(told.contains("#1 make_job pool.c:12"), "{text}");
    assert!(!compact(&fixtures::typed()).contains("allocated"));
}

#[test]
fn two_addresses_of_the_heap_are_shown_as_numbers() {
    let mut race = fixtures::typed();
    race.values.typed = Some(Typed {
        before: "heap".into(),
        after: "heap".into(),
    });
    let text = full(&race);
    assert!(text.contains("from 0x00000000 to 0x00000001"), "{text}");
    race.values.after = race.values.before.clone();
    let text = full(&race);
    assert!(text.contains("writes them: BUSY"), "{text}");
}

#[test]
fn numbers_are_shown_in_their_type() {
    let mut race = fixtures::long_names();
    race.values.after = (-7i64).to_le_bytes().to_vec();
    assert!(compact(&race).contains("(41 → -7)"), "{}", compact(&race));
    race.values = Values::default();
    assert!(full(&race).contains("value   not known"), "{}", full(&race));
}

#[test]
fn the_end_of_a_run_with_races() {
    insta::assert_snapshot!(summary(&fixtures::run()), @r#"
    2 races, 1 possibly atomic (1 of unknown origin)
      1 [d3ee6081] device.flags, 3 times
      2 [f5a9d527] flag, twice, possibly atomic
      3 [d674ddbe] mapping /dev/zero (deleted), shared, unknown origin, once

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
    let (races, summary) = parts(Style::default(), &fixtures::run(), true);
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
        summary(&Report {
            run,
            races,
            ..Report::default()
        })
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

#[test]
fn what_came_of_each_suspect_is_told() {
    let side = |function: &str| Spot {
        function: Some(function.to_owned()),
        ..Spot::default()
    };
    let hunted = |race: Option<&str>, sites, reached, holds| Hunted {
        sides: [side("put"), side("get")],
        race: race.map(str::to_owned),
        sites,
        reached,
        holds,
        held_s: 4.0,
    };
    let report = Report {
        run: Run {
            candidates: vec![
                hunted(Some("0123abcd"), [1, 1], 1, [1, 0]),
                hunted(None, [1, 1], 5, [2, 1]),
                hunted(None, [1, 1], 1, [0, 0]),
                hunted(None, [0, 1], 0, [0, 0]),
                hunted(None, [0, 0], 0, [0, 0]),
            ],
            ..Run::default()
        },
        ..Report::default()
    };
    let text = fixtures::written(&Terminal::new(Style::default()), &report);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "suspects 1 caught, 1 not caught, 1 never held, 1 never reached, 1 not found",
        "put | get: caught as [0123abcd]",
        "put | get: not caught in 3 holds",
        "put | get: reached 1 time, and nobody could be held there",
        "put | get: never reached",
        "put | get: no code that can be sampled was found there",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn a_freed_block_is_told_with_the_caller_of_free() {
    let mut report = fixtures::run();
    report.races = vec![fixtures::freed()];
    let text = fixtures::written(&Terminal::new(Style::default()), &report);
    assert!(text.contains("RACE, FREED WHILE IT STOOD"), "{text}");
    assert!(text.contains("drop_table (calls free)"), "{text}");
    assert!(
        !text.contains("freed-while-it-stood"),
        "not asked to explain"
    );
}

#[test]
fn an_explanation_gives_the_rule_the_facts_and_what_was_set_aside() {
    let mut report = fixtures::run();
    report.races = vec![fixtures::freed()];
    let mut wide = fixtures::possibly_atomic();
    wide.class = Class::WiderThanSource;
    wide.rule = Some(Rule::WiderThanSource);
    report.set_aside = vec![wide];
    let text = fixtures::written(&Terminal::new(Style::default()).explaining(true), &report);
    for part in [
        "freed-while-it-stood: ",
        "made by table, which gives memory back (likely, from the stack)",
        "aligned to its size (certain, from the instruction)",
        "WIDER THAN THE SOURCE",
        "wider-than-source: ",
        "2 collisions on bytes that only the compiler accesses",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part} is not in\n{text}");
    }
}

/// What is said in a race's line with this label.
fn labelled(text: &str, label: &str) -> Option<String> {
    let start = text.find(&format!("\n  {label:<8}"))? + 11;
    let lines = text[start..].lines();
    let own = lines
        .enumerate()
        .take_while(|(at, line)| *at == 0 || line.starts_with("          "));
    let words: Vec<&str> = own.flat_map(|(_, line)| line.split_whitespace()).collect();
    Some(words.join(" "))
}

#[test]
fn a_hint_follows_from_the_data_and_claims_no_more() {
    let hint = |race: &Race| labelled(&compact(race), "hint");
    let plain = fixtures::long_names();
    assert!(
        hint(&plain)
            .unwrap()
            .contains("or atomic accesses (release and acquire")
    );
    let mut counter = plain.clone();
    counter.rule = Some(Rule::LostUpdate);
    assert!(
        hint(&counter)
            .unwrap()
            .contains("an atomic update on both sides")
    );
    let mut half = plain.clone();
    half.accesses[1].atomic = true;
    assert!(hint(&half).unwrap().contains("one side is atomic already"));
    let mut writes = plain.clone();
    writes.accesses[1].kind = AccessKind::Write;
    assert!(hint(&writes).unwrap().contains("which is last"));
    let mut stack = plain.clone();
    let thread = fixtures::thread(1, "main");
    stack.what.region = Region::Stack { thread };
    assert!(hint(&stack).unwrap().contains("the owner of this stack"));
    assert!(
        hint(&fixtures::freed())
            .unwrap()
            .contains("keep the block alive")
    );
    assert!(
        hint(&fixtures::system_call())
            .unwrap()
            .contains("a copy for each thread")
    );
    // Nobody knows whether there is anything to mend, or what the other side is.
    assert_eq!(hint(&fixtures::possibly_atomic()), None);
    assert_eq!(hint(&fixtures::unknown_origin()), None);
}

#[test]
fn the_order_says_who_came_first_and_no_more() {
    let order = |race: &Race| labelled(&compact(race), "order").unwrap();
    assert_eq!(
        order(&fixtures::freed()),
        "1 held is about to read 4 bytes 2 caught gives the block back with free 3 held goes on: \
         its read comes only now"
    );
    let second = order(&fixtures::unknown_origin());
    assert!(
        second.contains("2 other changes them, from 0x0000000000000000 to"),
        "{second}"
    );
    let mut number = fixtures::long_names();
    number.values.after = 42i64.to_le_bytes().to_vec();
    number.accesses[1].kind = AccessKind::Write;
    assert!(
        order(&number).contains("writes them, from 41 to 42"),
        "{}",
        order(&number)
    );
}

#[test]
fn instructions_are_shown_when_asked_for() {
    let mut report = fixtures::run();
    report.races.truncate(1);
    let text = |asm| {
        let terminal = Terminal::new(Style::default()).with_assembly(asm);
        fixtures::written(&terminal, &report)
    };
    assert!(!text(false).contains("or dword ptr"));
    let shown = text(true);
    assert!(shown.contains("or dword ptr [rdi+8],1") && shown.contains("or dword ptr [rbx+8],20h"));
}

#[test]
fn stacks_stand_beside_each_other_where_they_fit() {
    let mut race = fixtures::bit_fields();
    for access in &mut race.accesses {
        access.stack[1].file = Some("a/folder/with/a/long/name/demo.c".to_owned());
    }
    let mut report = fixtures::run();
    report.races = vec![race];
    let stacks = |width| {
        let style = Style {
            width,
            ..Style::default()
        };
        let text = fixtures::written(&Terminal::new(style), &report);
        assert!(
            text.lines().all(|line| line.chars().count() <= width),
            "{text}"
        );
        let start = text.find("  stack of").unwrap();
        text[start..start + text[start..].find("\n\n").unwrap()].to_owned()
    };
    insta::assert_snapshot!(stacks(105), @r#"
    stack of the held side                               stack of the caught side
      #1 start_thread  …/a/long/name/demo.c  libc.so.6     #1 poll_loop     …/a/long/name/demo.c:90
                                                           #2 start_thread  libc.so.6+0x89134
    "#);
    insta::assert_snapshot!(stacks(130), @r#"
    stack of the held side                                           stack of the caught side
      #1 start_thread  a/folder/with/a/long/name/demo.c  libc.so.6     #1 poll_loop     a/folder/with/a/long/name/demo.c:90
                                                                       #2 start_thread  libc.so.6+0x89134
    "#);
    assert_eq!(stacks(70).matches("stack of the").count(), 2);
    assert!(
        stacks(70).contains("\n  stack of the caught thread"),
        "{}",
        stacks(70)
    );
}

#[test]
fn the_accessed_expression_is_underlined_in_its_line() {
    let mut race = fixtures::bit_fields();
    let mut evidence = fixtures::evidence("dev->busy");
    let expression = evidence.sides[0]
        .facts
        .iter_mut()
        .find_map(|known| match &mut known.fact {
            Fact::Source { source } => source.expression.as_mut(),
            _ => None,
        });
    expression.unwrap().line = 42;
    race.evidence = Some(evidence);
    let style = Style {
        color: true,
        ..Style::default()
    };
    let text = full_as(style, &race);
    assert!(text.contains("\x1b[4mdev->busy\x1b[0m = 1;"), "{text:?}");
    // It is another line's.
    race.accesses[0].line = Some(43);
    assert!(!full_as(style, &race).contains("\x1b[4m"));
}

#[test]
fn how_the_c_library_makes_threads_is_folded() {
    let mut race = fixtures::typed();
    for access in &mut race.accesses {
        let stack = &mut access.created.as_mut().unwrap().stack;
        for name in ["clone3", "__GI___clone_internal"] {
            let mut frame = fixtures::library_frame();
            frame.function = Some(name.to_owned());
            stack.insert(0, frame);
        }
    }
    let text = full(&race);
    let start = text.find("  which thread").unwrap();
    let end = start + text[start..].find("\n\n").unwrap();
    insta::assert_snapshot!(&text[start..end], @r#"
    which thread 4700 (main) created here
         2 frames of the runtime
      #2 start_workers  pool.c:21  demo
    "#);
}

#[test]
fn a_part_of_a_record_is_not_said_to_be_all_of_it() {
    let mut race = fixtures::bit_fields();
    race.what.bit_fields.clear();
    race.what.type_name = Some("struct record".into());
    race.what.size = 16;
    let text = compact(&race);
    let told = "device.flags (16 bytes of struct record), global";
    assert!(text.contains(told), "{text}");
    race.what.type_name = Some("int".into());
    let part_of_an_array = compact(&race);
    assert!(part_of_an_array.contains("(16 bytes of int)"));
    race.what.size = 4;
    assert!(compact(&race).contains("(int, 4 bytes)"));
}
