// SPDX-License-Identifier: Apache-2.0
//! `datetime.now().strftime(format)` in the C locale, from a count of seconds: no clock is read here.
//! Source: Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.

use std::fmt::Write;

/// Local time.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalTime {
    /// Since 1970-01-01 00:00 UTC.
    pub unix_seconds: i64,
    /// Local time minus UTC.
    pub utc_offset_seconds: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct Fields {
    year: i64,
    month: i64, // 1..
    day: i64,   // 1..
    hour: i64,
    minute: i64,
    second: i64,
    weekday: i64,  // 0: Sunday
    year_day: i64, // 1..
}

pub(super) fn format(format: &str, now: LocalTime) -> String {
    let fields = Fields::of(now);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let rest = chars.as_str();
        let unpadded = rest.starts_with('-');
        let Some(directive) = rest.chars().nth(usize::from(unpadded)) else {
            out.push('%');
            continue;
        };
        chars = rest[usize::from(unpadded)..].chars();
        chars.next();
        fields.write(directive, unpadded, &mut out);
    }
    out
}

impl Fields {
    fn of(now: LocalTime) -> Self {
        let seconds = now.unix_seconds.saturating_add(now.utc_offset_seconds);
        let (days, in_day) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][(month - 1) as usize];
        Self {
            year,
            month,
            day,
            hour: in_day / 3600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            weekday: (days + 4).rem_euclid(7),
            year_day: before + day + i64::from(is_leap && month > 2),
        }
    }

    fn write(&self, directive: char, unpadded: bool, out: &mut String) {
        let mut number = |value: i64, width: usize| {
            let width = if unpadded { 0 } else { width };
            let _ = write!(out, "{value:0width$}");
        };
        let hour12 = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
        match directive {
            'Y' => number(self.year, 1),
            'y' => number(self.year.rem_euclid(100), 2),
            'm' => number(self.month, 2),
            'd' => number(self.day, 2),
            'H' => number(self.hour, 2),
            'I' => number(hour12, 2),
            'M' => number(self.minute, 2),
            'S' => number(self.second, 2),
            'j' => number(self.year_day, 3),
            'w' => number(self.weekday, 1),
            'u' => number(if self.weekday == 0 { 7 } else { self.weekday }, 1),
            'e' if unpadded => number(self.day, 0),
            _ => self.write_text(directive, out),
        }
    }

    fn write_text(&self, directive: char, out: &mut String) {
        let month = MONTHS[(self.month - 1) as usize];
        let weekday = DAYS[self.weekday as usize];
        let Self { year, month: m, day, hour, minute, second, .. } = self;
        let _ = match directive {
            'B' => write!(out, "{month}"),
            'b' | 'h' => write!(out, "{}", &month[..3]),
            'A' => write!(out, "{weekday}"),
            'a' => write!(out, "{}", &weekday[..3]),
            'p' => write!(out, "{}", if *hour < 12 { "AM" } else { "PM" }),
            'e' => write!(out, "{day:2}"),
            'F' => write!(out, "{year}-{m:02}-{day:02}"),
            'T' | 'X' => write!(out, "{hour:02}:{minute:02}:{second:02}"),
            'R' => write!(out, "{hour:02}:{minute:02}"),
            'D' | 'x' => write!(out, "{m:02}/{day:02}/{:02}", year.rem_euclid(100)),
            'c' => write!(out, "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", &weekday[..3], &month[..3]),
            'n' => write!(out, "\n"),
            't' => write!(out, "\t"),
            // datetime.now() has no zone: Python writes nothing.
            'z' | 'Z' => Ok(()),
            '%' => write!(out, "%"),
            other => write!(out, "%{other}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{format, LocalTime};

    #[test]
    fn as_python() {
        // Expected: Python's datetime(...).strftime.
        let format_of = "%d %b %Y|%B %-d, %y|%A %a %j %w|%H:%M:%S|%I %p|%F %T|%e|%c|%x|%q|%%|%Z";
        let cases = [
            (
                0,
                "01 Jan 1970|January 1, 70|Thursday Thu 001 4|00:00:00|12 AM|\
                1970-01-01 00:00:00| 1|Thu Jan  1 00:00:00 1970|01/01/70|%q|%|",
            ),
            (
                1_709_210_096,
                "29 Feb 2024|February 29, 24|Thursday Thu 060 4|12:34:56|12 PM|\
                2024-02-29 12:34:56|29|Thu Feb 29 12:34:56 2024|02/29/24|%q|%|",
            ),
            (
                -1,
                "31 Dec 1969|December 31, 69|Wednesday Wed 365 3|23:59:59|11 PM|\
                1969-12-31 23:59:59|31|Wed Dec 31 23:59:59 1969|12/31/69|%q|%|",
            ),
        ];
        for (unix_seconds, expected) in cases {
            assert_eq!(format(format_of, LocalTime { unix_seconds, utc_offset_seconds: 0 }), expected);
        }
        let evening = LocalTime { unix_seconds: 86_399, utc_offset_seconds: 7200 };
        assert_eq!(format("%d %H", evening), "02 01");
    }
}
