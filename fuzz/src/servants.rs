//! What the confined processes answer, either of which may have been taken over: the namer and
//! the replayer.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use redhanded_detect::{Folded, Folder};
use redhanded_model::Report;
use redhanded_replay::{Limits, Mode, Order, Scene, Side, Snapshot, Start, State, Worker};
use redhanded_session::{Answer, Asker, Question};

use crate::targets::show;

/// All has been said before anything is asked.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks somebody who has said `said` and says no more, whatever is asked.
fn ask(said: Vec<u8>, questions: impl FnOnce(UnixStream)) {
    let Ok((ours, mut theirs)) = UnixStream::pair() else {
        panic!("no sockets");
    };
    let Ok(mut hears) = theirs.try_clone() else {
        panic!("no descriptors");
    };
    let speaker = thread::spawn(move || {
        let _ = theirs.write_all(&said);
        let _ = theirs.shutdown(std::net::Shutdown::Write);
    });
    let listener = thread::spawn(move || io::copy(&mut hears, &mut io::sink()));
    questions(ours);
    let _ = (speaker.join(), listener.join());
}

/// Takes the input for the answers of the namer, and makes of them what the front does.
pub fn names(bytes: &[u8]) {
    ask(bytes.to_vec(), |stream| {
        let Ok(mut asker) = Asker::new(stream, PATIENCE, PATIENCE) else {
            return;
        };
        let mut folder = Folder::new();
        while let Some(answer) = asker.ask(&Question::Started, || {}) {
            match answer {
                Answer::Finding {
                    finding, replay, ..
                } => {
                    let folded = folder.fold(finding);
                    if let (Some(tally), Folded::New(_) | Folded::Again(_)) = (replay, folded) {
                        folder.replayed(folded, tally);
                    }
                }
                Answer::Log(Ok(logged)) => show(&logged.report),
                _ => {}
            }
        }
        let (races, set_aside) = folder.into_races();
        show(&Report {
            races,
            set_aside,
            ..Report::default()
        });
    });
}

/// Takes the input for the answers of a replayer that is ready. The first byte of each is how
/// long it is, in units that let an answer have whole pages.
pub fn judgements(bytes: &[u8]) {
    const UNIT: usize = 32;
    let mut said = vec![1, 0, 0, 0, 0];
    let mut left = bytes;
    while let Some((length, rest)) = left.split_first() {
        let (answer, rest) = rest.split_at((usize::from(*length) * UNIT).min(rest.len()));
        said.extend((answer.len() as u32).to_le_bytes());
        said.extend(answer);
        left = rest;
    }
    ask(said, |stream| {
        let Ok(mut worker) = Worker::over(stream, PATIENCE) else {
            return;
        };
        let scene = Scene {
            mode: Mode::User,
            threads: [0x1000, 0x2000].map(|ip| {
                Start::Before(State {
                    ip,
                    ..State::default()
                })
            }),
            race: vec![(0x3000, 0x3004)],
            handled: 0,
        };
        let mut memory = Snapshot::new(true);
        if let Ok(judged) = worker.judge(&scene, &mut memory, Limits::default()) {
            let _ = (judged.call.telling(), serde_json::to_vec(&judged));
        }
        let order = Order::First(Side::A);
        if let Ok(Ok(followed)) =
            worker.follow(&scene, &mut memory, order, Limits::default(), 9, true)
        {
            let _ = serde_json::to_vec(&followed);
        }
        let _ = worker.run(Mode::User, &State::default(), &mut memory, 9, true);
    });
}
