//! Numbers as people read them.

/// `12345` as `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + 6);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun in the right number.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A share of `whole`, as a percentage.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    percent(part as f64 / whole as f64)
}

/// A ratio as a percentage: one decimal below ten, never a rounded-away 0 or
/// 100.
pub(crate) fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if !value.is_finite() || value <= 0.0 {
        "0 %".to_owned()
    } else if value < 0.1 {
        "<0.1 %".to_owned()
    } else if value < 9.95 {
        format!("{value:.1} %")
    } else if value < 100.0 {
        format!("{:.0} %", value.round().min(99.0))
    } else {
        format!("{value:.0} %")
    }
}

/// A time span in the unit that fits it.
pub(crate) fn seconds(span: f64) -> String {
    if !span.is_finite() || span <= 0.0 {
        "0 s".to_owned()
    } else if span < 0.001 {
        format!("{:.2} ms", (span * 1e3).max(0.01))
    } else if span < 1.0 {
        format!("{:.0} ms", span * 1e3)
    } else if span < 100.0 {
        format!("{span:.1} s")
    } else if span < 3600.0 {
        format!(
            "{:.0} min {:02.0} s",
            (span / 60.0).floor(),
            (span % 60.0).floor()
        )
    } else {
        format!(
            "{:.0} h {:02.0} min",
            (span / 3600.0).floor(),
            (span % 3600.0 / 60.0).floor()
        )
    }
}

/// How many times something happened.
#[must_use]
pub fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn a_share_is_never_rounded_to_none_or_all() {
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(999_999, 1_000_000), "99 %");
        assert_eq!(share(5, 5), "100 %");
        assert_eq!(share(1, 0), "0 %");
        assert_eq!(percent(f64::NAN), "0 %");
    }

    #[test]
    fn spans_pick_their_unit() {
        assert_eq!(seconds(0.000_05), "0.05 ms");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(125.0), "2 min 05 s");
        assert_eq!(seconds(7260.0), "2 h 01 min");
    }
}
