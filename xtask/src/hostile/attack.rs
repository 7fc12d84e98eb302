//! An attack: a shell script in `hostile/`, and what its directives say.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Who runs the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    /// As directives and results name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }
}

/// One attack.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The file's name without `.sh`.
    pub name: String,
    /// Who tries it.
    pub users: Vec<User>,
    /// How long it may take on a busy machine.
    pub within: Duration,
    /// Why it is not tried yet.
    pub pending: Option<String>,
}

/// Unless the attack says otherwise. Only what hangs takes so long: several run at a time.
const WITHIN: Duration = Duration::from_secs(180);

/// The script that all attacks share.
pub const VOCABULARY: &str = "vocabulary.sh";

/// Reads all attacks of a folder, in the order of their names.
pub fn read_all(folder: &Path) -> Result<Vec<Attack>> {
    let mut attacks = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let is_script = path.extension().is_some_and(|extension| extension == "sh");
        if is_script && !path.ends_with(VOCABULARY) {
            let text = fs::read_to_string(&path)?;
            let attack = parse(&path, &text);
            attacks.push(attack.with_context(|| format!("in {}", path.display()))?);
        }
    }
    attacks.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!attacks.is_empty(), "no attacks in {}", folder.display());
    Ok(attacks)
}

fn parse(path: &Path, text: &str) -> Result<Attack> {
    let stem = path.file_stem().unwrap_or_default();
    let mut attack = Attack {
        name: stem.to_string_lossy().into_owned(),
        users: vec![User::Root, User::Ordinary],
        within: WITHIN,
        pending: None,
    };
    ensure!(
        text.starts_with("# "),
        "the first line must say what is attacked and what must happen"
    );
    for line in text.lines() {
        let Some(directive) = line.strip_prefix("#@ ") else {
            continue;
        };
        match directive.split_once(": ") {
            Some(("as", "root")) => attack.users = vec![User::Root],
            Some(("as", "ordinary")) => attack.users = vec![User::Ordinary],
            Some(("within", time)) => {
                let seconds = time.strip_suffix('s').unwrap_or(time).parse();
                attack.within = Duration::from_secs(seconds.context("'within' needs seconds")?);
            }
            Some(("pending", why)) => attack.pending = Some(why.to_owned()),
            _ => bail!("unknown directive: {line}"),
        }
    }
    Ok(attack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Attack> {
        parse(Path::new("hostile/bomb.sh"), text)
    }

    #[test]
    fn an_attack_is_tried_by_both_users_unless_it_says_otherwise() {
        let attack = read("# A bomb.\nredhanded run -- ./bomb\n").unwrap();
        assert_eq!(attack.name, "bomb");
        assert_eq!(attack.users, [User::Root, User::Ordinary]);
        assert_eq!((attack.within, attack.pending), (WITHIN, None));
        let attack = read("# A bomb.\n#@ as: root\n#@ within: 9s\n#@ pending: no fuse\n").unwrap();
        assert_eq!(attack.users, [User::Root]);
        assert_eq!(attack.within, Duration::from_secs(9));
        assert_eq!(attack.pending.as_deref(), Some("no fuse"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        assert!(read("redhanded run -- ./bomb\n").is_err());
        assert!(read("# A bomb.\n#@ as: everybody\n").is_err());
        assert!(read("# A bomb.\n#@ within: soon\n").is_err());
    }
}
