//! The rules, one in each file, and their list.

mod annotated;
mod check_then_act;
mod counter_branch;
mod different_objects;
mod double_check;
mod freed;
mod gauge;
mod link;
mod lost_update;
mod marked;
mod one_sided;
mod pointer;
mod redundant_write;
mod reference_count;
mod safe_flag;
mod several_members;
mod special;
mod statistics_counter;
mod steering;
mod torn;
mod waiting;

use crate::subject::Subject;
use redhanded_model::{Leaning, Leans};

/// A rule of the list.
pub struct RuleEntry {
    /// Its name in documents.
    pub name: &'static str,
    /// Which way it leans.
    pub leans: Leans,
    /// The rule itself.
    pub(crate) rule: fn(&Subject<'_>) -> Option<Leaning>,
}

macro_rules! rules {
    ($($leans:ident $module:ident;)*) => {
        [$(RuleEntry {
            name: $module::NAME,
            leans: Leans::$leans,
            rule: $module::rule,
        }),*]
    };
}

/// Every rule, those that lean to harm first.
pub const RULES: [RuleEntry; 21] = rules! {
    Harmful freed;
    Harmful reference_count;
    Harmful lost_update;
    Harmful pointer;
    Harmful link;
    Harmful torn;
    Harmful steering;
    Harmful check_then_act;
    Harmful several_members;
    Harmful one_sided;
    Harmful different_objects;
    Harmful counter_branch;
    Benign annotated;
    Benign special;
    Benign statistics_counter;
    Benign gauge;
    Benign safe_flag;
    Benign double_check;
    Benign waiting;
    Benign marked;
    Benign redundant_write;
};

/// A leaning to harm.
fn harmful(name: &str, facts: Vec<String>) -> Option<Leaning> {
    Some(Leaning::new(name, Leans::Harmful, facts))
}

/// A leaning to no harm.
fn benign(name: &str, facts: Vec<String>) -> Option<Leaning> {
    Some(Leaning::new(name, Leans::Benign, facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::TELLS;

    #[test]
    fn whatever_tells_is_a_rule_that_leans_to_no_harm() {
        for name in TELLS {
            let rule = RULES.iter().find(|rule| rule.name == name);
            assert!(rule.is_some_and(|it| it.leans == Leans::Benign), "{name}");
        }
    }
}
