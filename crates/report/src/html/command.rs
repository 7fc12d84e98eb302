//! Command lines to copy from a report. A word that a terminal would act on when it is
//! pasted is not offered at all: escaped, it would be another word.

use crate::escape::acts;
use crate::names::literal;
use redhanded_model::{Race, Report};
use std::collections::BTreeSet;
use std::path::Path;

/// A command and what it does.
pub(super) struct Offer {
    pub(super) does: &'static str,
    pub(super) command: String,
}

/// What can be done next about a race.
pub(super) fn offers(report: &Report, race: &Race, store: Option<&Path>) -> Vec<Offer> {
    let mut offers = catch_again(report, race);
    // Only a store remembers what is decided.
    if let (Some(_), Some(store)) = (&race.triage, store)
        && let Some(store) = store.to_str().and_then(quoted)
    {
        offers.push(Offer {
            does: "Decide about it (or: confirmed, fixed, deferred)",
            command: format!(
                "redhanded triage {} --store {store} --state not-a-problem --because 'WHY'",
                race.id()
            ),
        });
    }
    offers
}

fn catch_again(report: &Report, race: &Race) -> Vec<Offer> {
    let run = &report.run;
    // A kernel is observed in a machine whose options a report does not have.
    if run.program.is_empty() || run.standstill.is_some() {
        return Vec::new();
    }
    let Some(functions) = functions(race) else {
        return Vec::new();
    };
    let Some(program) = line(&run.program) else {
        return Vec::new();
    };
    let offer = |does, options: &str| Offer {
        does,
        command: format!("redhanded run{options}{functions} -- {program}"),
    };
    vec![
        offer("Catch it again, sampling these functions only", " --for 1m"),
        offer("Stop at it, for a debugger", " --stop-on-race"),
    ]
}

/// The options that select the functions of both sides, as far as these can be sampled: code
/// is sampled by the function that it was inlined into.
fn functions(race: &Race) -> Option<String> {
    let names: BTreeSet<&str> = race
        .accesses
        .iter()
        .filter(|side| side.system_call.is_none() && side.freed_by.is_none())
        .filter_map(|side| side.stack.iter().find(|frame| !frame.inlined))
        .filter(|frame| !frame.is_library())
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    let options = names.into_iter().map(|name| {
        let glob = quoted(&literal(name))?;
        Some(format!(" --function {glob}"))
    });
    options.collect()
}

/// Words as one command line.
fn line(words: &[String]) -> Option<String> {
    let words: Option<Vec<String>> = words.iter().map(|word| quoted(word)).collect();
    Some(words?.join(" "))
}

/// A word for a shell.
fn quoted(word: &str) -> Option<String> {
    if word.contains(acts) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Some(word.to_owned());
    }
    Some(format!("'{}'", word.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_as_it_was() {
        let words = ["./a", "", "it's", "$(x) `y`", "a;b|c&d", "é"].map(str::to_owned);
        let line = line(&words).unwrap();
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {line}")])
            .output()
            .unwrap();
        let told = String::from_utf8(shell.stdout).unwrap();
        assert_eq!(told.lines().collect::<Vec<_>>(), words);
    }

    #[test]
    fn what_a_terminal_acts_on_is_not_offered() {
        for word in ["a\nrm -r x", "\x1b[2J", "a\u{202e}b", "a\rb"] {
            assert_eq!(quoted(word), None, "{word:?}");
        }
    }

    #[test]
    fn a_function_is_no_pattern() {
        assert_eq!(literal("operator[]"), "operator[[][]]");
        assert_eq!(literal("a::{closure}"), "a::[{]closure[}]");
    }
}
