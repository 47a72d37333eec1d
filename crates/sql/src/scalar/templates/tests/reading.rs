//! Dates, times and numbers that templates read, with the results of PostgreSQL 15.

use chrono::TimeDelta;

use super::super::moment::moment;
use super::super::numbers::NumberTemplate;
use super::super::pattern::Pattern;
use super::super::reader::parts;

/// Texts, templates and moments in UTC; the year 0 is 1 BC.
const MOMENTS: &[(&str, &str, &str)] = &[
    ("05 Dec 2000", "DD Mon YYYY", "2000-12-05 00:00:00"),
    ("2000/JUN", "YYYY/MON", "2000-06-01 00:00:00"),
    ("2000JUN", "YYYY///MON", "2000-06-01 00:00:00"),
    ("2000/JUN", "YYYY MON", "2000-06-01 00:00:00"),
    ("2000   JUN", "YYYY MON", "2000-06-01 00:00:00"),
    ("2000-JUN", "FXYYYY MON", "2000-06-01 00:00:00"),
    ("97/Feb/16", "YY/Mon/DD", "1997-02-16 00:00:00"),
    ("0097/Feb/16", "YYYY/Mon/DD", "0097-02-16 00:00:00"),
    ("97/2/16", "FMYY/FMMM/FMDD", "1997-02-16 00:00:00"),
    ("2011$03!18", "YYYY-MM-DD", "2011-03-18 00:00:00"),
    ("20000-1130", "YYYY-MMDD", "+20000-11-30 00:00:00"),
    ("20000Nov30", "YYYYMonDD", "+20000-11-30 00:00:00"),
    ("2024-02-29 13:14:15.123456", "YYYY-MM-DD HH24:MI:SS.US", "2024-02-29 13:14:15.123456"),
    ("12:3", "SS:MS", "0000-01-01 00:00:12.3"),
    ("12.30", "SS.MS", "0000-01-01 00:00:12.3"),
    ("12.300", "SS.MS", "0000-01-01 00:00:12.3"),
    ("1.5", "SS.FF1", "0000-01-01 00:00:01.5"),
    ("1.123456", "SS.FF3", "0000-01-01 00:00:01.123"),
    ("2024-07-01 12:00 PM", "YYYY-MM-DD HH:MI PM", "2024-07-01 12:00:00"),
    ("2024-07-01 12:00 a.m.", "YYYY-MM-DD HH12:MI p.m.", "2024-07-01 00:00:00"),
    ("2024 5 3", "IYYY IW ID", "2024-01-31 00:00:00"),
    ("2024 5", "IYYY IW", "2024-01-29 00:00:00"),
    ("2024 35", "IYYY IDDD", "2024-02-04 00:00:00"),
    ("2024 60", "YYYY DDD", "2024-02-29 00:00:00"),
    ("2024 5", "YYYY WW", "2024-01-29 00:00:00"),
    ("2024-03 2", "YYYY-MM W", "2024-03-08 00:00:00"),
    ("2460344", "J", "2024-02-03 00:00:00"),
    ("21", "CC", "2001-01-01 00:00:00"),
    ("20 97", "CC YY", "1997-01-01 00:00:00"),
    ("44 BC", "YYYY BC", "-0043-01-01 00:00:00"),
    ("0044-03-15 b.c.", "YYYY-MM-DD a.d.", "-0043-03-15 00:00:00"),
    ("1,999", "Y,YYY", "1999-01-01 00:00:00"),
    ("24", "YY", "2024-01-01 00:00:00"),
    ("124", "YYY", "2124-01-01 00:00:00"),
    ("4", "Y", "2004-01-01 00:00:00"),
    ("999", "YYY", "1999-01-01 00:00:00"),
    ("Saturday 3 february 2024", "Day DD Month YYYY", "2024-02-03 00:00:00"),
    ("Sat", "Dy", "0000-01-01 00:00:00"),
    ("iv 2024", "RM YYYY", "2024-04-01 00:00:00"),
    ("XII2024", "RMYYYY", "2024-12-01 00:00:00"),
    ("3rd Feb 2024", "DDth Mon YYYY", "2024-02-03 00:00:00"),
    ("2024-01-01 12:00 +05:30", "YYYY-MM-DD HH24:MI TZH:TZM", "2024-01-01 06:30:00"),
    ("2024-01-01 12:00-03", "YYYY-MM-DD HH24:MITZH", "2024-01-01 15:00:00"),
    ("2024-01-01 12:00 -8", "YYYY-MM-DD HH24:MI TZH", "2024-01-01 20:00:00"),
    ("86399", "SSSS", "0000-01-01 23:59:59"),
    ("30 02", "DD MM", "0000-03-01 00:00:00"),
    ("20240101", "YYYYMMDD", "2024-01-01 00:00:00"),
    ("2024010", "YYYYMMDD", "2024-01-01 00:00:00"),
    ("abc 2024", "\"abc\" YYYY", "2024-01-01 00:00:00"),
    ("2024Q3", "YYYY\"Q\"Q", "2024-01-01 00:00:00"),
    ("2024\u{5e74}5\u{6708}", "YYYY\u{5e74}MM\u{6708}", "2024-05-01 00:00:00"),
    ("", "YYYY", "0000-01-01 00:00:00"),
    ("1 2 2024", "D Q YYYY", "2024-01-01 00:00:00"),
    ("2024-06-15", "FXYYYY-MM-DD", "2024-06-15 00:00:00"),
    ("2024- 6-15", "FXYYYY-MM-DD", "2024-06-15 00:00:00"),
    ("  2024 - 06 - 15", "YYYY-MM-DD", "2024-06-15 00:00:00"),
    ("10000-01-01", "YYYY-MM-DD", "+10000-01-01 00:00:00"),
    ("2024;06;15 trailing", "YYYY-MM-DD", "2024-06-15 00:00:00"),
    ("15-06-2024", "DDMMYYYY", "0006-01-15 00:00:00"),
    ("2024-06-15T10:11:12Z", "YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"", "2024-06-15 10:11:12"),
];

/// Texts that PostgreSQL refuses.
const NO_MOMENTS: &[(&str, &str)] = &[
    ("1.9999996", "SS.US"),
    ("13 PM", "HH PM"),
    ("2023 366", "YYYY DDD"),
    ("86400", "SSSSS"),
    ("2024-13-01", "YYYY-MM-DD"),
    ("2024-02-30", "YYYY-MM-DD"),
    ("2024-1", "YYYYMM"),
    ("x", "YYYY"),
    ("2024 2025", "YYYY YYYY"),
    ("2024-01 5", "YYYY-MM IW"),
    ("2024", "TZ YYYY"),
    ("Foo 2024", "Mon YYYY"),
    ("60", "MI"),
    ("99999999999", "YYYY"),
    ("10:11", "HH24MI"),
];

/// Texts, templates, and numbers in units of their last digit.
const NUMBERS: &[(&str, &str, i128, usize)] = &[
    ("12.345", "99.9", 123, 1),
    ("1234", "99", 12, 0),
    ("-12", "99", -12, 0),
    ("<12>", "99PR", -12, 0),
    ("$12", "L99", 12, 0),
    ("1 2", "999", 12, 0),
    ("12,345", "99,999", 12_345, 0),
    ("12345", "99,999", 12_345, 0),
    ("1,2,3", "9G9G9", 123, 0),
    ("1,234", "FM9G999", 123, 0),
    ("1st", "9th", 1, 0),
    ("123", "99V9", 123, 1),
    ("-0.5", "9.9", -5, 1),
    (".5", "9.9", 5, 1),
    ("5-", "9S", -5, 0),
    ("5-", "9MI", -5, 0),
    ("+5", "SG9", 5, 0),
    ("5", "PL9", 5, 0),
    ("-5", "MI9", -5, 0),
    ("-12", "99S", -12, 0),
    ("12-", "99.9S", -12, 0),
    ("12 -", "99S", 12, 0),
    ("x12", "\"x\"99", 12, 0),
    ("12.5", "99", 12, 0),
    ("  12", "9999", 12, 0),
    ("- 12", "S999", -12, 0),
    ("\u{20ac} 12", "L99", 12, 0),
    ("12,454.8-", "99G999D9S", -124_548, 1),
    ("1e3", "999", 13, 0),
    ("12.", "99.9", 12, 0),
    ("12", "99.99", 12, 0),
];

fn read(text: &str, template: &str) -> Result<String, String> {
    let pattern = Pattern::parsed(template).map_err(|error| error.to_string())?;
    let parts = parts(&pattern, text).map_err(|error| error.to_string())?;
    let moment = moment(&parts, text).map_err(|error| error.to_string())?;
    let local = moment.date.and_time(chrono::NaiveTime::MIN) + TimeDelta::microseconds(moment.time)
        - TimeDelta::seconds(moment.offset.unwrap_or(0));
    let shown = local.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
    Ok(shown.trim_end_matches('0').trim_end_matches('.').to_owned())
}

#[test]
fn moments_are_read_as_by_postgresql() {
    for (text, template, right) in MOMENTS {
        assert_eq!(read(text, template).as_deref(), Ok(*right), "{text} by {template}");
    }
}

#[test]
fn texts_without_the_fields_of_a_template_are_refused() {
    for (text, template) in NO_MOMENTS {
        let read = read(text, template);
        assert!(read.is_err(), "{text} by {template}: {read:?}");
    }
}

#[test]
fn numbers_are_read_as_by_postgresql() {
    for (text, template, number, scale) in NUMBERS {
        let parsed = NumberTemplate::parsed(template).expect(template);
        let digits = parsed.read(text).expect(text);
        let found = (digits.at_scale(*scale), digits.behind());
        assert_eq!(found, (Some(*number), *scale), "{text} by {template}");
    }
    for (text, template) in [("", "99"), ("abc", "99"), (".", "9.9"), ("-", "9")] {
        let digits = NumberTemplate::parsed(template).expect(template).read(text);
        assert!(!digits.expect("read").has_digits(), "{text} by {template}");
    }
    for (text, template) in [("12", "RN"), ("12", "9EEEE"), ("123", "9.9")] {
        let read = NumberTemplate::parsed(template).expect(template).read(text);
        assert!(read.is_err(), "{text} by {template}: {read:?}");
    }
}
