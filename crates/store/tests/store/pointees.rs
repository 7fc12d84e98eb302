//! Races on what has no name but the one that pointers lead to.

use redhanded_model::{Fingerprint, Pointee, PointeeSource, Race, What};

/// The same race on memory that has no name of its own.
pub fn nameless(race: Race) -> Race {
    Race {
        fingerprint: race.fingerprint.on("heap"),
        what: What {
            name: None,
            field: None,
            ..race.what
        },
        ..race
    }
}

/// What is behind a pointer: `.member`, or `.inner.member`, of a `struct item`.
pub fn pointee(path: &str) -> Pointee {
    Pointee {
        expression: Some(format!("it->{}", &path[1..])),
        type_name: "struct item".to_owned(),
        path: path.to_owned(),
        member: None,
        part_type: "int".to_owned(),
        from: PointeeSource::Followed,
        doubtful: false,
        outside: false,
    }
}

/// The same race as it was told before fingerprints had members.
pub fn told(race: Race, path: &str) -> Race {
    let mut race = nameless(race);
    race.what.pointee = Some(pointee(path));
    race
}

/// The same race on a member behind a pointer.
pub fn behind(race: Race, member: &str) -> Race {
    let mut race = told(race, &format!(".{member}"));
    let member = format!("struct item.{member}");
    let what = Fingerprint::behind_a_pointer(&member);
    race.fingerprint = race.fingerprint.on(&what);
    race.what.pointee.as_mut().unwrap().member = Some(member);
    race
}
