//! The page for a browser, as text. `browser.rs` opens it.

use crate::fixtures::{self, written};
use redhanded_model::{
    Call, Class, Crash, CrashWindow, Differing, Fingerprint, Frame, Leaning, Leans, Race,
    ReplayTally, Report, Rule, State, Triage, Verdict,
};
use redhanded_report::Format;
use std::path::Path;

pub fn page(report: &Report) -> String {
    let store = Path::new("my races.db");
    let writer = Format::Html.writer("/src/my app".as_ref(), &fixtures::source(), Some(store));
    written(&*writer, report)
}

pub fn verdict() -> Verdict {
    let facts = vec!["two writers of <different> bits".to_owned()];
    Verdict {
        call: Call::LikelyHarmful,
        confidence: 0.83,
        rules: vec![
            Leaning::new("lost-bits", Leans::Harmful, facts),
            Leaning::hint("redundant-write", Leans::Benign, Vec::new()),
        ],
        replay: Some(ReplayTally {
            state_change: 2,
            orders: 6,
            difference: vec![Differing {
                what: "device.flags".to_owned(),
                raced: true,
                copy: false,
                in_use: None,
                this: "0x31".to_owned(),
                that: "0x11".to_owned(),
            }],
            ..ReplayTally::default()
        }),
    }
}

/// A race of each kind, one of them judged.
pub fn every_kind() -> Report {
    let mut report = fixtures::run();
    let mut judged = fixtures::bit_fields();
    judged.verdict = Some(verdict());
    judged.rule = Some(Rule::LostUpdate);
    let mut evidence = fixtures::evidence("table");
    evidence.sides.truncate(2);
    judged.evidence = Some(evidence);
    let mut freed = fixtures::freed();
    freed.fingerprint = Fingerprint("ready read | drop_table write @ heap".to_owned());
    freed.triage = Some(Triage {
        state: State::Deferred,
        new: false,
        because: Some("after the <release>".to_owned()),
        owner: Some("net".to_owned()),
        until: Some("2027-03-31".to_owned()),
        suppressed: None,
    });
    report.races = vec![
        judged,
        freed,
        fixtures::system_call(),
        fixtures::long_names(),
        fixtures::unknown_origin(),
        fixtures::possibly_atomic(),
    ];
    let mut wide = fixtures::possibly_atomic();
    wide.class = Class::WiderThanSource;
    wide.rule = Some(Rule::WiderThanSource);
    report.set_aside = vec![wide];
    report.run.crash = Some(Crash {
        signal: 11,
        thread: fixtures::thread(4711, "worker"),
        stack: report.races[0].accesses[1].stack.clone(),
        windows: vec![CrashWindow {
            ago_s: 0.002,
            tid: 4710,
            at: fixtures::frame("poll_loop", "demo.c", 90, 0x1204),
            held_s: 0.001,
            caught: false,
        }],
    });
    report
}

/// Every name, text and argument is one that would leave its place in a page.
pub fn hostile() -> Report {
    const MARKUP: &str = "</title></style></script><img src=x onerror=alert(1)>\"'><b id=escaped>";
    let bad = || MARKUP.to_owned();
    let mut report = every_kind();
    report.run.program = vec![bad(), "it's; rm -r ~".to_owned()];
    for unseen in &mut report.run.unseen {
        (unseen.what, unseen.why) = (bad(), bad());
    }
    let spoil = |race: &mut Race| {
        race.what.name = Some(bad());
        race.what.type_name = Some(bad());
        race.special = Some(bad());
        race.fingerprint.0 += MARKUP;
        for field in &mut race.what.bit_fields {
            field.name = bad();
        }
        if race.evidence.is_some() {
            race.evidence = Some(fixtures::evidence(MARKUP));
        }
        for access in &mut race.accesses {
            access.thread.name = bad();
            access.function = Some(bad());
            access.file = Some(bad());
            access.instruction = Some(bad());
            access.system_call = Some(bad());
            for frame in &mut access.stack {
                frame.function = Some(bad());
                frame.file = Some(bad());
                frame.module = Some(bad());
            }
        }
        if let Some(verdict) = &mut race.verdict {
            verdict.rules[0].rule = bad();
            verdict.rules[0].facts = vec![bad()];
            let tally = verdict.replay.as_mut().unwrap();
            tally.difference[0].what = bad();
            tally.difference[0].this = bad();
        }
    };
    report.races.iter_mut().for_each(spoil);
    report.set_aside.iter_mut().for_each(spoil);
    report
}

/// The part of the page about one race.
fn section(report: &Report, at: usize) -> String {
    let page = page(report);
    let start = format!(" id=\"race-{}\"", report.races[at].fingerprint.hash());
    let section = &page[page.find(&start).expect("a section")..];
    // Not that of a folded part of a stack.
    let end = section.find("</div>\n</details>").unwrap();
    section[..end].to_owned()
}

#[test]
fn a_section_has_both_sides_the_value_the_order_and_the_verdict() {
    let report = every_kind();
    let section = section(&report, 0);
    for part in [
        "Held: thread 4711 (worker)",
        "Caught: thread 4710 (poll)",
        "</span> dev-&gt;busy = 1;</pre>",
        "</span> dev-&gt;need_callback = 1;</pre>",
        "<pre class=\"code\">or dword ptr [rdi+8],1</pre>",
        "<code>poll_loop</code>",
        // Bit 5 of the lowest byte.
        "00<mark>0</mark>10001 ",
        "00<mark>1</mark>10001 ",
        "<td>need_callback</td><td>5</td><td>0</td><td>1</td>",
        "<b>held</b> is about to update 4 bytes</li>",
        "<b>caught</b> updates them, from 0x00000011 to 0x00000031</li>",
        "<code>lost-update</code>: both update the bytes",
        "aligned to its size <small>certain, from the instruction</small>",
        "Verdict: likely harmful",
        "<code>lost-bits</code>: two writers of &lt;different&gt; bits",
        "<small>a hint only</small>",
        "another state 2",
        "<td>device.flags</td><td><code>0x31</code></td><td><code>0x11</code></td>",
        "Usually mended by: one lock for all fields that share these bytes",
        "redhanded run --for 1m --function poll_loop --function set_busy -- ./demo \
         --threads=4",
    ] {
        assert!(section.contains(part), "{part} is not in\n{section}");
    }
}

#[test]
fn frames_of_the_runtime_are_folded_and_keep_their_numbers() {
    let mut report = every_kind();
    let runtime = fixtures::frame("std::thread::start", "/rustc/library/std/thread.rs", 9, 1);
    report.races[0].accesses[1]
        .stack
        .splice(1..1, vec![runtime; 20]);
    let section = section(&report, 0);
    for part in [
        "<details class=\"runtime\"><summary>20 frames of the runtime</summary>\n\
         <ol class=\"stack\" start=\"1\">\n<li class=\"library\"><code>std::thread::start</code>",
        "<ol class=\"stack\" start=\"21\">\n<li><code>poll_loop</code>",
    ] {
        assert!(section.contains(part), "{part} is not in\n{section}");
    }
    assert_eq!(
        section.matches("<code>std::thread::start</code>").count(),
        20
    );
}

#[test]
fn a_decision_is_told_and_another_one_offered() {
    let report = every_kind();
    let decided = section(&report, 1);
    for part in [
        "State: deferred",
        "after the &lt;release&gt;",
        "Owner: net",
        "Until: 2027-03-31",
        &format!(
            "redhanded triage {} --store &#39;my races.db&#39; --state",
            report.races[1].id()
        ),
    ] {
        assert!(decided.contains(part), "{part} is not in\n{decided}");
    }
    // Nothing remembers the other.
    assert!(!section(&report, 0).contains("triage"));
    // Without a store the command would fail.
    let writer = Format::Html.writer("/src".as_ref(), &fixtures::source(), None);
    assert!(!written(&*writer, &report).contains("redhanded triage"));
}

#[test]
fn every_race_has_a_row_and_a_section_even_without_a_second_side() {
    let report = every_kind();
    let text = page(&report);
    // Behind it, those of one problem name each other.
    let list = &text[..text.find("</tbody>").unwrap()];
    for race in &report.races {
        let anchor = format!("race-{}", race.fingerprint.hash());
        assert_eq!(list.matches(&format!("href=\"#{anchor}\"")).count(), 1);
        assert_eq!(text.matches(&format!("id=\"{anchor}\"")).count(), 1);
    }
    assert!(section(&report, 4).contains("Caught: nobody"));
    assert!(text.contains("Seen, and no race"), "what was set aside");
    assert!(text.contains("thread 4711 (worker) got signal 11."));
}

#[test]
fn it_loads_nothing_and_runs_only_its_own_script() {
    let text = page(&every_kind());
    let policy = text
        .lines()
        .find(|line| line.contains("Content-Security-Policy"));
    let policy = policy.unwrap();
    assert!(policy.contains("default-src &#39;none&#39;"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(policy.matches("sha256-").count(), 2, "{policy}");
    for outward in [
        "src=", "url(", "@import", "http://", "https://", " style=", "onclick",
    ] {
        assert!(!text.contains(outward), "{outward}");
    }
}

#[test]
fn no_name_leaves_its_place() {
    let text = page(&hostile());
    for markup in ["<img", "</title></style>", "<b id=escaped", "\"'><b"] {
        assert!(!text.contains(markup), "{markup}");
    }
    assert!(text.contains("&lt;b id=escaped&gt;"));
}

#[test]
fn no_race_is_no_proof() {
    let report = Report {
        races: Vec::new(),
        ..fixtures::run()
    };
    let text = page(&report);
    assert!(
        text.contains("<h1>No race caught in 1,257 windows</h1>"),
        "{text}"
    );
    assert!(text.contains("Silence is no proof"));
    assert!(!text.contains("id=\"races\""), "an empty list");
    page(&Report::default());
}

#[test]
fn plots_show_the_counts() {
    let text = page(&fixtures::run());
    // 120 of 812 sites, 0.61 of 24.5 s, and 1,204 of 2,470 samples.
    for part in [
        "aria-label=\"sites in total: 812; armed: 500 (62 %); sampled: 120 (15 %)\"",
        "width=\"59.1\"",
        "held: 610 ms (2.5 %)",
        "width=\"10.0\"",
        "no other thread to collide with: 1,204",
        "width=\"195.0\"",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

/// What a reader of this part of a page sees, a line for each block.
fn seen(markup: &str) -> String {
    let mut text = String::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let end = start + rest[start..].find('>').unwrap();
        let tag = rest[start + 1..end]
            .split_whitespace()
            .next()
            .unwrap_or_default();
        if ["p", "section", "h4", "li", "tr", "pre", "summary", "h3"]
            .contains(&tag.trim_start_matches('/'))
        {
            text.push('\n');
        }
        if ["/td", "/th"].contains(&tag) {
            text.push_str("  ");
        }
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#39;", "'")
        .replace("&quot;", "\"")
        .replace("&amp;", "&");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_section_says_who_allocated_the_block() {
    let report = Report {
        races: vec![fixtures::allocated()],
        ..fixtures::run()
    };
    let section = seen(&section(&report, 0));
    let told = section.find("Allocated by thread 4700 (main)");
    let told = &section[told.expect(&section)..];
    assert!(told.contains("make_job"), "{section}");
}

#[test]
fn a_section_as_it_is_read() {
    let mut race = fixtures::typed();
    let caught = &mut race.accesses[1];
    let mut other = fixtures::behind_a_pointer().accesses[1].pointee.clone();
    other.as_mut().unwrap().type_name = "struct conn".into();
    caught.pointee = other;
    race.accesses[0].pointee = fixtures::behind_a_pointer().accesses[0].pointee.clone();
    race.what.sides_differ = true;
    race.what.pointee = None;
    let clone = Frame {
        function: Some("clone3".to_owned()),
        ..fixtures::library_frame()
    };
    for access in &mut race.accesses {
        let created = access.created.as_mut().unwrap();
        created.stack.splice(0..0, [clone.clone(), clone.clone()]);
        access.file = Some("demo.c".to_owned());
        access.line = Some(42);
    }
    let report = Report {
        races: vec![race],
        ..fixtures::run()
    };
    let section = section(&report, 0);
    insta::assert_snapshot!(seen(&section[section.find('>').unwrap() + 1..]), @r#"
    1 race enum state
    4 bytes, heap block of 40 bytes, 16 into it 59705ee5
    The held thread takes these bytes for struct item.it_flags, the caught one for struct conn.it_flags: one of them may be outside its object, or use memory that has become another's.
    Held: thread 4711 (worker)
    write of 4 bytes in process_get, demo.c:42, as it->it_flags
    42 dev->busy = 1;
    process_get proto.c:589
    start_thread libc.so.6+0x89134
    Created by thread 4700 (main)
    2 frames of the runtime
    clone3 libc.so.6+0x89134
    clone3 libc.so.6+0x89134
    start_workers pool.c:21
    Caught: thread 4713 (lru)
    write of 4 bytes in do_item_update, demo.c:42, as search->it_flags
    42 dev->busy = 1;
    do_item_update items.c:575
    start_thread libc.so.6+0x89134
    Created by thread 4700 (main)
    2 frames of the runtime
    clone3 libc.so.6+0x89134
    clone3 libc.so.6+0x89134
    start_workers pool.c:21
    Value
    bit 0 changed
    before  0x00000000  IDLE
    00000000 00000000 00000000 00000000
    after  0x00000001  BUSY
    00000000 00000000 00000000 00000001
    In this order
    held is about to write 4 bytes: DONE
    caught writes them, from IDLE to BUSY
    held goes on: its write comes only now
    Notes
    Seen by a debug register, 3 times in 1,257 windows.
    Usually mended by: one lock around both, or atomic stores if it does not matter which is last.
    What next
    Catch it again, sampling these functions only
    redhanded run --for 1m --function do_item_update --function process_get -- ./demo --threads=4
    Stop at it, for a debugger
    redhanded run --stop-on-race --function do_item_update --function process_get -- ./demo --threads=4
    Fingerprint
    do_item_update update | process_get read @ mapping
    "#);
}

#[test]
fn the_races_of_one_problem_name_each_other() {
    let mut count = fixtures::bit_fields();
    count.what.field = Some(".count".into());
    count.fingerprint.0 = count.fingerprint.0.replace("flags", "count");
    let report = Report {
        races: vec![fixtures::bit_fields(), fixtures::unknown_origin(), count],
        ..fixtures::run()
    };
    let page = page(&report);
    assert!(page.contains("<h1>3 races in 2 problems</h1>"), "{page}");
    let id = report.races[0].problem().id();
    let row = format!("problem {id}: 2 races on device");
    assert_eq!(page.matches(&row).count(), 2, "{page}");
    for (at, other, name) in [(0, 2, "device.count"), (2, 0, "device.flags")] {
        let anchor = format!("#race-{}", report.races[other].fingerprint.hash());
        let link = format!("1 other race on device: <a href=\"{anchor}\">{name}</a></p>");
        let section = section(&report, at);
        assert!(section.contains(&link), "{section}");
    }
    assert!(!section(&report, 1).contains("One problem"));
}

#[test]
fn a_side_in_a_header_is_shown_where_the_program_is() {
    let mut race = fixtures::bit_fields();
    let header = "/usr/include/c++/12/optional";
    let inlined = fixtures::frame("std::optional::value_or", header, 1012, 0x1204);
    race.accesses[1].function = inlined.function.clone();
    race.accesses[1].file = inlined.file.clone();
    race.accesses[1].line = inlined.line;
    race.accesses[1].stack.insert(0, inlined);
    let report = Report {
        races: vec![race],
        ..fixtures::run()
    };
    let section = section(&report, 0);
    for part in [
        "<code>request_callback</code> (in <code>std::optional::value_or</code>), <span \
         class=\"place\">demo.c:71</span>",
        "<span class=\"line\">71</span> dev-&gt;need_callback = 1;</pre>",
    ] {
        assert!(section.contains(part), "{part} is not in\n{section}");
    }
}
