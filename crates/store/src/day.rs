//! Days of the calendar, which decisions and suppressions hold until.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Day(i64);

impl Day {
    /// The day so many days after 1970-01-01.
    #[must_use]
    pub const fn from_days(days: i64) -> Self {
        Self(days)
    }

    /// The moment at which it begins, in UTC.
    #[must_use]
    pub const fn start(self) -> crate::Moment {
        crate::Moment(self.0 * 86_400_000)
    }

    /// The day so many days later.
    #[must_use]
    pub const fn plus(self, days: i64) -> Self {
        Self(self.0 + days)
    }

    /// Year, month and day of the month. Years begin in March here, so that the day that some
    /// have more is their last one.
    const fn civil(self) -> (i64, i64, i64) {
        let days = self.0 + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + (month <= 2) as i64;
        (year, month, day)
    }

    const fn from_civil(year: i64, month: i64, day: i64) -> Self {
        let year = if month <= 2 { year - 1 } else { year };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        Self(era * 146_097 + days - 719_468)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no day: a date like 2026-12-31 is expected");
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts.as_slice() else {
            return Err(wrong());
        };
        if (year.len(), month.len(), day.len()) != (4, 2, 2) {
            return Err(wrong());
        }
        let number = |part: &str| part.parse::<u16>().map(i64::from).map_err(|_| wrong());
        let found = Self::from_civil(number(year)?, number(month)?, number(day)?);
        // The 31st of a month of 30 days is another day.
        if found.to_string() == text {
            Ok(found)
        } else {
            Err(wrong())
        }
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (20_773, "2026-11-16"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(Day(days).to_string(), text);
            assert_eq!(text.parse(), Ok(Day(days)));
        }
        for days in -200_000..200_000 {
            let day = Day(days);
            assert_eq!(day.to_string().parse(), Ok(day));
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for wrong in [
            "",
            "2026-11-31",
            "2026-13-01",
            "2026-1-1",
            "tomorrow",
            "2025-02-29",
        ] {
            assert!(wrong.parse::<Day>().is_err(), "{wrong}");
        }
    }
}
