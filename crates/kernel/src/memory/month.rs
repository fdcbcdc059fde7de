//! Months of the calendar, for budgets.

use anabranch_units::Time;
use serde::{Deserialize, Serialize};

/// A calendar month in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Month {
    year: u32,
    month: u32,
}

impl Month {
    /// Returns the month of a time since 1970.
    pub fn of(time: Time) -> Month {
        // Years that begin in March, in eras of 400 years.
        let days = time.0 / 86_400_000_000_000 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let month = (5 * (day - (365 * year + year / 4 - year / 100)) + 2) / 153;
        let (year, month) =
            if month < 10 { (400 * era + year, month + 3) } else { (400 * era + year + 1, month - 9) };
        Month { year: year as u32, month: month as u32 }
    }
}

impl From<Month> for String {
    fn from(month: Month) -> String {
        format!("{:04}-{:02}", month.year, month.month)
    }
}

impl TryFrom<String> for Month {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Month, &'static str> {
        let parts =
            text.split_once('-').and_then(|(year, month)| Some((year.parse().ok()?, month.parse().ok()?)));
        match parts {
            Some((year, month @ 1..=12)) => Ok(Month { year, month }),
            _ => Err("a month is for example 2026-11"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_and_ends_as_in_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01"),
            (951_782_399, "2000-02"),
            (951_868_799, "2000-02"),
            (951_868_800, "2000-03"),
            (1_735_689_599, "2024-12"),
            (1_735_689_600, "2025-01"),
            (4_107_542_399, "2100-02"),
            (4_107_542_400, "2100-03"),
        ] {
            let month = Month::of(Time::from_secs(seconds));
            assert_eq!(String::from(month), text);
            assert_eq!(Month::try_from(text.to_owned()), Ok(month));
        }
        assert!(Month::try_from("2026-13".to_owned()).is_err() && Month::try_from(String::new()).is_err());
    }
}
