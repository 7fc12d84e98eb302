//! `redhanded replay`: a race that already happened, in any order, as often as wanted.

mod gdb;
mod recorded;
mod theatre;
mod view;

use crate::arguments;
use crate::exit::Failure;
use crate::replayer::start_worker;
use crate::screen;
use redhanded_replay::{Call, Order, Scenario, Side};
use redhanded_sys::{limit_memory, open_regular};
use std::io::{Read, Seek};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use theatre::Theatre;

/// What the command may use, whoever wrote the scenario.
const MOST_MEMORY: u64 = 1 << 30;

/// As much of a file says what it is.
const FIRST: u64 = 64;

/// Shows the scenario, or serves it to a debugger.
pub fn replay(arguments: &arguments::Replay) -> Result<ExitCode, Failure> {
    let path = &arguments.file;
    // What a file of a few kilobytes unpacks to can take gigabytes.
    let _ = limit_memory(MOST_MEMORY);
    let refused = |why: String| Failure::Usage(format!("cannot replay {}: {why}", path.display()));
    let unreadable = |error: std::io::Error| refused(error.to_string());
    let mut file = open_regular(path).map_err(unreadable)?;
    let mut start = Vec::new();
    let first = (&mut file).take(FIRST).read_to_end(&mut start);
    first.map_err(unreadable)?;
    if redhanded_recording::is_recording(&start) {
        if arguments.order.is_some() || arguments.gdb.is_some() || arguments.weak_memory {
            let why = "only a scenario has --order, --weak-memory and --gdb";
            return Err(refused(why.to_owned()));
        }
        return recorded::replay(arguments);
    }
    if arguments.thread.is_some() {
        return Err(refused("only a recording has --thread".to_owned()));
    }
    file.rewind().map_err(unreadable)?;
    let scenario = Scenario::read(file).map_err(|error| refused(error.to_string()))?;
    play(arguments, scenario, start_worker()?).map_err(refused)?;
    Ok(ExitCode::SUCCESS)
}

fn play(
    arguments: &arguments::Replay,
    mut scenario: Scenario,
    stream: UnixStream,
) -> Result<(), String> {
    if arguments.weak_memory {
        scenario.limits = scenario.limits.with_weak_memory();
    }
    let mut theatre = Theatre::new(scenario, stream)?;
    let order = match arguments.order {
        Some(order) => order,
        None => theatre.telling_order()?,
    };
    if let Some(socket) = &arguments.gdb {
        return gdb::serve(theatre, order, socket);
    }
    let text = view::view(&mut theatre, order, arguments.all)?;
    screen::print(text.as_bytes()).map_err(|error| error.to_string())
}

/// An order as the command line has it: `a`, `b`, `a:N` or `b:N`, `a~N` or `b~N`.
pub fn parse_order(text: &str) -> Result<Order, String> {
    let (side, number) = match text.split_once([':', '~']) {
        Some((side, number)) => (side, Some(number)),
        None => (text, None),
    };
    let side = match side {
        "a" | "A" => Side::A,
        "b" | "B" => Side::B,
        _ => return Err("expected a, b, a:N, b:N, a~N or b~N".to_owned()),
    };
    match number.map(str::parse) {
        None => Ok(Order::First(side)),
        Some(Ok(store)) if store > 0 && text.contains('~') => Ok(Order::Delayed { side, store }),
        Some(Ok(after)) if after > 0 => Ok(Order::Split { side, after }),
        Some(_) if text.contains('~') => {
            Err("N is which store to shared bytes arrives last".to_owned())
        }
        Some(_) => Err("N is how many accesses to shared bytes come first".to_owned()),
    }
}

/// How an order is written on the command line.
fn order_text(order: Order) -> String {
    let letter = |side| match side {
        Side::A => "a",
        Side::B => "b",
    };
    match order {
        Order::First(side) => letter(side).to_owned(),
        Order::Split { side, after } => format!("{}:{after}", letter(side)),
        Order::Delayed { side, store } => format!("{}~{store}", letter(side)),
    }
}

/// The order that shows the most: one that fails, or else one that differs.
fn telling(call: &Call) -> Order {
    let orders = call.telling();
    orders.first().copied().unwrap_or(Order::First(Side::A))
}
