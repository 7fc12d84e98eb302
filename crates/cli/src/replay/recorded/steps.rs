//! The steps of one stretch, instruction by instruction.

use redhanded_image::Instruction;
use redhanded_recording::{Process, Stretch, Thread};
use redhanded_replay::{AloneStep, Stretched, number};
use std::fmt::Write;

/// Steps that are shown at each end, unless all are.
const SHOWN: usize = 24;
/// Bytes of one access that are shown.
const MOST_BYTES: usize = 16;

/// The steps as text.
pub fn list(
    process: &Process,
    thread: &Thread,
    stretch: &Stretch,
    ran: &Stretched,
    all: bool,
) -> String {
    let number = stretch.number.unwrap_or_default();
    let mut text = format!(
        "Thread {} after sequencer {number}: instructions {} to {}\n",
        thread.id(),
        stretch.count,
        ran.count
    );
    let middle = ran.steps.len().saturating_sub(2 * SHOWN);
    let mut left = middle;
    for (index, step) in ran.steps.iter().enumerate() {
        if !all && middle > 0 && (SHOWN..SHOWN + middle).contains(&index) {
            left -= 1;
            if left == 0 {
                let _ = writeln!(
                    text,
                    "({middle} instructions are left out; --all shows them)"
                );
            }
            continue;
        }
        let _ = writeln!(text, "{}", line(process, step));
    }
    text
}

fn line(process: &Process, step: &AloneStep) -> String {
    let code = process.code().at(step.ip);
    let decoded = code.and_then(|code| Instruction::decode(code.bytes(), step.ip));
    let mut line = format!(
        "{:>12}  {:<28} {}",
        step.count,
        place(process, step.ip),
        decoded.map_or_else(|| "?".to_owned(), |instruction| instruction.text())
    );
    for (address, is_write, bytes) in &step.accesses {
        let arrow = if *is_write { "<-" } else { "=" };
        let shown = &bytes[..bytes.len().min(MOST_BYTES)];
        let _ = write!(line, "  [{address:#x}] {arrow} {}", number(shown));
    }
    line
}

/// Where an instruction is: the file and the address in it.
fn place(process: &Process, ip: u64) -> String {
    let Some(mapped) = process.module_at(ip) else {
        return format!("{ip:#x}");
    };
    let path = &mapped.module.path;
    let name = path.rsplit('/').next().unwrap_or(path);
    let name: String = redhanded_report::clean(name, true)
        .chars()
        .take(20)
        .collect();
    format!("{name}+{:#x}", ip - mapped.module.start)
}
