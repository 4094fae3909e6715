//! Numbers as people read them.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Signals by number, as Linux numbers them on most machines.
const SIGNALS: [(u64, &str); 14] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// A signal by its name where it has one: `SIGKILL`, `signal 40`.
#[must_use]
pub fn signal(number: u64) -> String {
    match SIGNALS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("signal {number}"),
    }
}

/// A count with its thousands set apart: `3,418,112`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what it counts: `1 block`, `12 blocks`, `2 processes`.
#[must_use]
pub fn counted(number: u64, one: &str) -> String {
    let plural = match number {
        1 => "",
        _ if one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {one}{plural}", count(number))
}

/// A number of bytes: `48 B`, `325.7 KiB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut tenths = u128::from(number) * 10;
    let mut text = String::new();
    for unit in UNITS {
        tenths = (tenths + 512) / 1024;
        text = format!("{}.{} {unit}", tenths / 10, tenths % 10);
        if tenths < 10_240 {
            break;
        }
    }
    text
}

/// A share of a whole: `16.4 %`. Nothing of nothing is none.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    let permille = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

/// A length of time, rounded: `0.8 ms`, `4.2 s`, `12 m 04 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    const MILLISECOND: u64 = SECOND / 1000;
    // What is rounded up to the next unit is shown in that one.
    let to = |step: u64| ns.saturating_add(step / 2) / step;
    let (tenths, milliseconds) = (to(MILLISECOND / 10), to(MILLISECOND));
    if tenths < 100 {
        return format!("{}.{} ms", tenths / 10, tenths % 10);
    }
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    let (tenths, seconds, minutes, hours) = (to(SECOND / 10), to(SECOND), to(MINUTE), to(HOUR));
    if tenths < 600 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    if seconds < 3600 {
        return format!("{} m {:02} s", seconds / 60, seconds % 60);
    }
    if minutes < 24 * 60 {
        return format!("{} h {:02} m", minutes / 60, minutes % 60);
    }
    format!("{} d {:02} h", hours / 24, hours % 24)
}

/// Nanoseconds as seconds that can be asked for: `0.000 s`, `1.250004 s`.
#[must_use]
pub fn seconds(ns: u64) -> String {
    let digits = format!("{:09}", ns % SECOND);
    let (first, rest) = digits.split_at(3);
    format!("{}.{first}{} s", ns / SECOND, rest.trim_end_matches('0'))
}

/// Nanoseconds since 1970 as a date: `2026-11-30 13:53:52 UTC`.
#[must_use]
pub fn date(unix_ns: u64) -> String {
    const DAY: u64 = 24 * HOUR;
    let (mut year, mut days) = (1970, unix_ns / DAY);
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while let Some(length) = lengths.get(month).filter(|length| days >= **length) {
        days -= length;
        month += 1;
    }
    let of_day = unix_ns % DAY;
    let (hours, minutes) = (of_day / HOUR, of_day % HOUR / MINUTE);
    let seconds = of_day % MINUTE / SECOND;
    format!(
        "{year:04}-{:02}-{:02} {hours:02}:{minutes:02}:{seconds:02} UTC",
        month + 1,
        days + 1
    )
}

fn days_of(year: u64) -> u64 {
    let is_longer = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u64::from(is_longer)
}

/// A moment of a recording that lasted `whole`: `00:07:21`, below a minute `4.812 s`, below a second `0.8 ms`.
#[must_use]
pub fn moment(ns: u64, whole: u64) -> String {
    if whole < SECOND {
        return duration(ns);
    }
    if whole < MINUTE {
        return format!("{}.{:03} s", ns / SECOND, ns % SECOND / 1_000_000);
    }
    let (hours, minutes, seconds) = (ns / HOUR, ns % HOUR / MINUTE, ns % MINUTE / SECOND);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

/// A moment to the millisecond: `00:04:02.918`.
#[must_use]
pub fn exact_moment(ns: u64, whole: u64) -> String {
    let text = moment(ns, whole);
    if whole < MINUTE {
        return text;
    }
    format!("{text}.{:03}", ns % SECOND / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::{
        HOUR, MINUTE, SECOND, bytes, count, counted, date, duration, exact_moment, moment, percent,
        seconds,
    };

    #[test]
    fn seconds_are_exact() {
        for (ns, text) in [
            (0, "0.000 s"),
            (7, "0.000000007 s"),
            (1_250_000_000, "1.250 s"),
            (61_000_400_000, "61.0004 s"),
        ] {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn counts_have_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (3_418_112, "3,418,112"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "block"), "1 block");
        assert_eq!(counted(0, "block"), "0 blocks");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process"), "2 processes");
    }

    #[test]
    fn bytes_have_one_decimal() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (333_517, "325.7 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (5_033_165, "4.8 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(percent(280_280, 1_709_022), "16.4 %");
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!(percent(7, 7), "100.0 %");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        for (ns, text) in [
            (0, "0.0 ms"),
            (812_345, "0.8 ms"),
            (81_234_567, "81 ms"),
            (9_950_000, "10 ms"),
            (999_500_000, "1.0 s"),
            (4 * SECOND + 250_000_000, "4.3 s"),
            (MINUTE - 1, "1 m 00 s"),
            (HOUR - 1, "1 h 00 m"),
            (12 * MINUTE + 4 * SECOND, "12 m 04 s"),
            (3 * HOUR + 7 * MINUTE, "3 h 07 m"),
            (24 * HOUR - 1, "1 d 00 h"),
            (51 * HOUR, "2 d 03 h"),
            (u64::MAX, "213503 d 23 h"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds * SECOND), text);
        }
        assert_eq!(date(u64::MAX), "2554-07-21 23:34:33 UTC");
    }

    #[test]
    fn moments_follow_the_length_of_the_recording() {
        let peak = 7 * MINUTE + 21 * SECOND + 918_000_000;
        assert_eq!(moment(peak, HOUR), "00:07:21");
        assert_eq!(exact_moment(peak, HOUR), "00:07:21.918");
        assert_eq!(moment(812_000_000, SECOND), "0.812 s");
        assert_eq!(exact_moment(812_000_000, SECOND), "0.812 s");
        assert_eq!(exact_moment(812_000, SECOND - 1), "0.8 ms");
    }
}
