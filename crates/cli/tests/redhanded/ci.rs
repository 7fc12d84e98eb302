//! The jobs in `examples/ci`, as far as they can be run without their servers.

use crate::place::{Outcome, Place};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/ci")
        .join(name)
}

/// What both jobs do, until `races` are caught, with both sides of each. Changed bytes alone would
/// now and then be told as another race, of unknown origin, and count as one.
fn job(place: &Place, races: u32) -> Outcome {
    let mut command = place.command("sh");
    command
        .arg(example("redhanded.sh"))
        .env("REDHANDED", env!("CARGO_BIN_EXE_redhanded"))
        .env("PROGRAM", "./ledger")
        .env("FOR", "2m")
        .env("MIN_SAMPLES", "1")
        .env("SUPPRESSIONS", "races.toml")
        .env(
            "OPTIONS",
            format!("--max-races {races} --overhead 50% --detect watch"),
        );
    place.finish(command)
}

/// As a runner checks it out for a container: everybody may write to it.
fn checkout() -> Place {
    let place = Place::new();
    place.build("ledger", "ledger", &[]);
    place.file("races.toml", b"", 0o666);
    fs::create_dir(place.path(".git")).unwrap();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o777)).unwrap();
    place
}

#[test]
fn a_job_records_at_first_and_then_fails_for_what_is_new() {
    let place = checkout();
    let first = job(&place, 1);
    assert_eq!(first.status, 0, "{first:#?}");
    assert!(first.says("known from now on"), "{first:#?}");
    assert!(place.path(".redhanded/races.db").is_file());
    assert!(place.path("redhanded-report.sarif").is_file());
    let second = job(&place, 1);
    assert_eq!(second.status, 0, "{second:#?}");
    assert!(!second.says("known from now on"), "{second:#?}");

    // Somebody adds a race. It stays new until something is decided.
    place.build("ledger", "ledger", &["-DMORE"]);
    for _ in 0..2 {
        let red = job(&place, 2);
        assert_eq!(red.status, 66, "{red:#?}");
    }
    let suppressed = |until: &str| {
        let entry = format!(
            "[[suppress]]\nfield = \"total\"\nbecause = \"shown only\"\nuntil = \"{until}\"\n"
        );
        place.file("races.toml", entry.as_bytes(), 0o666);
        job(&place, 2)
    };
    let green = suppressed("2999-12-31");
    assert_eq!(green.status, 0, "{green:#?}");
    let red = suppressed("2026-01-31");
    assert_eq!(red.status, 66, "{red:#?}");
    assert!(red.says("expired on 2026-01-31"), "{red:#?}");
}

#[test]
fn a_job_that_cannot_run_keeps_the_store_and_leaves_no_old_report() {
    let place = checkout();
    assert_eq!(job(&place, 1).status, 0);
    let store = fs::read(place.path(".redhanded/races.db")).unwrap();
    fs::remove_file(place.path("ledger")).unwrap();
    let failed = job(&place, 1);
    assert_eq!(failed.status, 127, "{failed:#?}");
    assert_eq!(
        fs::read(place.path(".redhanded/races.db")).unwrap(),
        store,
        "the store was changed"
    );
    assert!(!place.path("redhanded-report.sarif").exists());
}

/// Both run the script that is tested above, and keep what it keeps.
#[test]
fn both_jobs_run_the_script() {
    for (name, words) in [
        (
            "action.yml",
            [
                "$GITHUB_ACTION_PATH/redhanded.sh",
                "path: .redhanded\n",
                "redhanded-report.sarif",
            ],
        ),
        (
            "gitlab-ci.yml",
            [
                "sh ci/redhanded.sh",
                ".redhanded/",
                "redhanded-report.sarif",
            ],
        ),
    ] {
        let text = fs::read_to_string(example(name)).unwrap();
        for word in words {
            assert!(text.contains(word), "{name}: {word}");
        }
    }
}
