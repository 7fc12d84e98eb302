//! Debug information from a server, which is in the test itself.

use crate::place::{Outcome, Place};
use object::Object;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that has the debug information of one program.
struct Server {
    url: String,
    /// The paths that were asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(id: String, debug: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&asked);
        // Ends with the tests.
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &id, &debug, &told);
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, id: &str, debug: &[u8], asked: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, body) = if path == format!("/buildid/{id}/debuginfo") {
        ("200 OK", debug)
    } else {
        ("404 Not Found", &b"no"[..])
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // Before the answer, after which the tool may end and be asked about.
    asked.lock().unwrap().push(path);
    // Whoever hears that there is nothing may leave before the end.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// The ledger without debug information; its build id, and what it lacks.
fn stripped(place: &Place) -> (String, Vec<u8>) {
    let program = place.build("ledger", "ledger", &["-Wl,--build-id"]);
    let bytes = fs::read(&program).unwrap();
    let id = object::File::parse(&*bytes).unwrap().build_id().unwrap();
    let id = id.unwrap().iter().map(|byte| format!("{byte:02x}"));
    let id: String = id.collect();
    let strip = |flag: &str, to: &str| {
        let mut strip = Command::new("objcopy");
        let (from, to) = (place.path("ledger"), place.path(to));
        assert!(
            strip
                .arg(flag)
                .arg(from)
                .arg(to)
                .status()
                .unwrap()
                .success()
        );
    };
    strip("--only-keep-debug", "ledger.debug");
    strip("--strip-debug", "bare");
    // Where nobody looks for it.
    let debug = fs::read(place.path("ledger.debug")).unwrap();
    fs::remove_file(place.path("ledger.debug")).unwrap();
    (id, debug)
}

/// Catches the race with these servers; the report, and what came of it.
fn observe(place: &Place, urls: &str) -> (Value, Outcome) {
    let line = "run --max-races 1 --for 2m --overhead 50% --kill --json report.json -- ./bare";
    let mut command = place.redhanded(line.split(' '));
    command.env("DEBUGINFOD_URLS", urls);
    command.env("XDG_CACHE_HOME", place.path("cache"));
    let outcome = place.finish(command);
    assert_eq!(outcome.status, 66, "{outcome:#?}");
    let report = fs::read(place.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    (report["races"][0].clone(), outcome)
}

#[test]
fn a_server_has_what_is_not_installed() {
    let place = Place::new();
    let (id, debug) = stripped(&place);
    let server = Server::start(id.clone(), debug);

    let (race, outcome) = observe(&place, "");
    assert_eq!(race["accesses"][0]["line"], Value::Null, "{outcome:#?}");
    assert!(!place.path("cache/redhanded/debuginfod").exists());

    // A server that is not there is told of once, and the next is asked.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (race, outcome) = observe(&place, &format!("{nobody} {}/", server.url));
    assert_eq!(race["what"]["name"], "counter", "{outcome:#?}");
    assert!(race["accesses"][0]["line"].is_u64(), "{race:#}");
    assert_eq!(
        outcome.stderr.matches("cannot fetch").count(),
        1,
        "{outcome:#?}"
    );
    assert!(
        outcome.says("asking for the debug information of bare"),
        "{outcome:#?}"
    );
    assert!(server.asked().contains(&format!("/buildid/{id}/debuginfo")));

    // What is there is not fetched again, and what was nowhere is not asked for at once.
    let (race, outcome) = observe(&place, &server.url);
    assert!(race["accesses"][0]["line"].is_u64(), "{race:#}");
    let again = server.asked();
    assert!(
        !again.iter().any(|path| path.contains(&id)),
        "{again:?} {outcome:#?}"
    );
    let (_, outcome) = observe(&place, &server.url);
    assert!(server.asked().is_empty(), "{outcome:#?}");
    assert!(!outcome.stderr.contains("asking for"), "{outcome:#?}");
}

#[test]
fn what_a_server_sends_is_used_only_if_it_belongs_to_the_program() {
    let place = Place::new();
    let (id, _) = stripped(&place);
    let server = Server::start(id, b"<html>welcome</html>".to_vec());
    let (race, outcome) = observe(&place, &server.url);
    assert_eq!(race["accesses"][0]["line"], Value::Null, "{outcome:#?}");
}
