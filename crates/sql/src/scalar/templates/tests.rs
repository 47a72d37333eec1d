//! Expected outputs of PostgreSQL 15.

mod reading;

use std::sync::Arc;

use chrono::NaiveDateTime;
use datafusion::arrow::array::{ArrayRef, TimestampMicrosecondArray};

use super::numbers::{Number, NumberTemplate};
use super::times::{Fields, TimeTemplate};

const TIMES: &[(&str, &str, &str)] = &[
    ("2024-02-03 04:05:06.789012", "YYYY-MM-DD HH24:MI:SS", "2024-02-03 04:05:06"),
    ("2024-02-03 04:05:06.789012", "YYYY-MM-DD\"T\"HH24:MI:SS.US", "2024-02-03T04:05:06.789012"),
    ("2024-02-03 04:05:06.789012", "Day, DD Month YYYY", "Saturday , 03 February  2024"),
    ("2024-02-03 04:05:06.789012", "FMDay, FMDDth FMMonth YYYY", "Saturday, 3rd February 2024"),
    ("2024-02-03 04:05:06.789012", "DAY day Dy dy MON mon", "SATURDAY  saturday  Sat sat FEB feb"),
    ("2024-02-03 04:05:06.789012", "HH12:MI AM", "04:05 AM"),
    ("2024-02-03 04:05:06.789012", "hh:mi p.m.", "04:05 a.m."),
    ("2024-02-03 04:05:06.789012", "DDD IDDD IW IYYY ID D WW W", "034 034 05 2024 6 7 05 1"),
    ("2024-02-03 04:05:06.789012", "J Q CC BC", "2460344 1 21 AD"),
    ("2024-02-03 04:05:06.789012", "Y,YYY YYY YY Y IYY IY I", "2,024 024 24 4 024 24 4"),
    (
        "2024-02-03 04:05:06.789012",
        "FF1 FF2 FF3 FF4 FF5 FF6 MS US",
        "7 78 789 7890 78901 789012 789 789012",
    ),
    ("2024-02-03 04:05:06.789012", "SSSS RM FMRM rm", "14706 II   II ii  "),
    ("2024-02-03 04:05:06.789012", "DDTH MMth HH24TH", "03RD 02nd 04TH"),
    ("2024-02-03 04:05:06.789012", "FMMM/FMDD/YY", "2/3/24"),
    ("2024-02-03 04:05:06.789012", "a\"YYYY\"\\\"b", "aYYYY\"b"),
    ("2024-02-03 04:05:06.789012", "TMMonth TMDay", "February Saturday"),
    ("2024-02-03 04:05:06.789012", "\u{e4} YYYY", "\u{e4} 2024"),
    ("2021-01-03 00:00:00", "IYYY-\"W\"IW-ID", "2020-W53-7"),
    ("2021-01-03 00:00:00", "DDD IDDD", "003 371"),
    ("2021-01-03 00:00:00", "HH12 HH24 AM", "12 00 AM"),
    ("2021-01-03 00:00:00", "Q RM", "1 I   "),
    ("0044-03-15 12:00:00", "YYYY AD", "0044 AD"),
    ("0044-03-15 12:00:00", "CC Y,YYY", "01 0,044"),
    ("0044-03-15 12:00:00", "J", "1737205"),
];

/// Intervals of months, days and nanoseconds.
const INTERVALS: &[((i32, i32, i64), &str, &str)] = &[
    ((0, 0, 54_132_500_000_000), "HH24:MI:SS.MS", "15:02:12.500"),
    ((0, 0, 54_132_500_000_000), "HH12 AM", "03 PM"),
    ((0, 0, 54_132_500_000_000), "DD DDD", "00 000"),
    ((0, 0, 1_440_000_000_000_000), "HH24:MI", "400:00"),
    ((0, -5, -10_800_000_000_000), "DD DDD HH24", "-5 -05 -03"),
    ((25, 0, 0), "YYYY MM RM Q", "0002 01 I    1"),
];

const NUMBERS: &[(&str, &str, &str)] = &[
    ("1234.567", "9,999.99", " 1,234.57"),
    ("1234.567", "9G999D999", " 1,234.567"),
    ("1234.567", "0000000.0", " 0001234.6"),
    ("1234.567", "FM999,990.00", "1,234.57"),
    ("1234.567", "99.99", " ##.##"),
    ("1234.567", "999", " ###"),
    ("1234.567", "9.99EEEE", " 1.23e+03"),
    ("1234.567", "L9999", "  1235"),
    ("1234.567", "S9999.9", "+1234.6"),
    ("1234.567", "9999.9S", "1234.6+"),
    ("1234.567", "9999MI", "1235 "),
    ("1234.567", "PL9999", "+ 1235"),
    ("1234.567", "SG9999", "+1235"),
    ("1234.567", "9999PR", " 1235 "),
    ("-1234.567", "9,999.99", "-1,234.57"),
    ("-1234.567", "9999MI", "1235-"),
    ("-1234.567", "9999PR", "<1235>"),
    ("-1234.567", "S9999", "-1235"),
    ("-1234.567", "9999S", "1235-"),
    ("-1234.567", "PL9999", " -1235"),
    ("-1234.567", "SG9999", "-1235"),
    ("-1234.567", "FM9999.9", "-1234.6"),
    ("0.1", "0.9", " 0.1"),
    ("0.1", "9.9", "  .1"),
    ("0.1", "FM9.99", ".1"),
    ("0.1", "FM0.99", "0.1"),
    ("0.1", "FM9", "0"),
    ("0.1", "9.99", "  .10"),
    ("-0.1", "99.99", "  -.10"),
    ("-0.1", "FM9.9", "-.1"),
    ("-0.1", "0", " 0"),
    ("0", "9", " 0"),
    ("0", "B9", " 0"),
    ("0", "FM9.99", "0."),
    ("0", "FM990.009", "0.00"),
    ("0", "999.0", "    .0"),
    ("44", "RN", "           XLIV"),
    ("44", "FMRN", "XLIV"),
    ("44", "rn", "           xliv"),
    ("485", "999th", " 485th"),
    ("485", "999TH", " 485TH"),
    ("485", "99V999", " #####"),
    ("485", "\"Good number:\"999", "Good number: 485"),
    ("485", "9 9 9", " 4 8 5"),
    ("12", "99th", " 12th"),
    ("12", "000", " 012"),
    ("12", "99 \"%\"", " 12 %"),
    ("12", "990%", "  12%"),
    ("4000", "RN", "###############"),
    ("0.5", "9", " 1"),
    ("0.5", "990", "   1"),
    ("1.5", "9", " 2"),
    ("999.995", "999.99", " ###.##"),
    ("999.995", "FM999.99", "###.##"),
];

const FLOATS: &[(f64, &str, &str)] = &[
    (0.5, "9", " 0"),
    (148.5, "999", " 148"),
    (-0.01, "9.9", " -.0"),
    (1e10, "999", " ###"),
    (123_456_789.123_456_79, "999999999.999999999", " 123456789.123457"),
    (0.000_485_9, "9.999EEEE", " 4.859e-04"),
];

fn written(template: &str, fields: &Fields) -> Result<String, String> {
    let mut text = String::new();
    let template = TimeTemplate::parsed(template).map_err(|error| error.to_string())?;
    template.write(fields, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

#[test]
fn times_are_written_as_by_postgresql() {
    for (value, template, right) in TIMES {
        let time = NaiveDateTime::parse_from_str(value, "%Y-%m-%d %H:%M:%S%.f").expect("a time");
        let text = written(template, &Fields::of_time(time, None)).expect("written");
        assert_eq!(text, *right, "{value} by {template}");
    }
}

#[test]
fn formats_of_strftime_are_refused() {
    for template in ["%Y-%m-%d", "YYYY %H"] {
        let error = TimeTemplate::parsed(template).expect_err(template).to_string();
        assert!(error.contains("strftime"), "{error}");
    }
    assert!(TimeTemplate::parsed("\"%Y\" 100 %").is_ok());
}

#[test]
fn intervals_are_written_as_by_postgresql() {
    for ((months, days, nanoseconds), template, right) in INTERVALS {
        let fields = Fields::of_interval(*months, *days, *nanoseconds);
        let text = written(template, &fields).expect("written");
        assert_eq!(text, *right, "{months} {days} {nanoseconds} by {template}");
    }
    for template in ["Day", "Month", "IW", "J", "TZ", "AD"] {
        let error = written(template, &Fields::of_interval(1, 0, 0)).expect_err(template);
        assert!(error.contains("interval"), "{error}");
    }
}

#[test]
fn numbers_are_written_as_by_postgresql() {
    for (value, template, right) in NUMBERS {
        let mut text = String::new();
        let parsed = NumberTemplate::parsed(template).expect(template);
        parsed.write(&Number::Exact((*value).to_owned()), &mut text);
        assert_eq!(text, *right, "{value} by {template}");
    }
    for (value, template, right) in FLOATS {
        let mut text = String::new();
        let parsed = NumberTemplate::parsed(template).expect(template);
        parsed.write(&Number::Double(*value), &mut text);
        assert_eq!(text, *right, "{value} by {template}");
    }
}

#[test]
fn no_template_is_too_long_for_the_formatter() {
    for template in [format!("9.{}EEEE", "9".repeat(70_000)), "9".repeat(70_000)] {
        let error = NumberTemplate::parsed(&template).expect_err("too long").to_string();
        assert!(error.contains("more than 1000 digits"), "{error}");
    }
    let mut text = String::new();
    let template = NumberTemplate::parsed(&format!("9.{}EEEE", "9".repeat(999)));
    template.expect("as long as it may be").write(&Number::Double(1.5), &mut text);
    assert!(text.starts_with(" 1.500") && text.ends_with("e+00"), "{text}");
}

#[test]
fn local_times_beyond_the_range_are_errors() {
    let last = NaiveDateTime::MAX.and_utc().timestamp_micros();
    for (zone, is_beyond) in [("+14:00", true), ("-14:00", false)] {
        let times = TimestampMicrosecondArray::from(vec![last]).with_timezone(zone);
        let written = super::written(&(Arc::new(times) as ArrayRef), |_| Some("YYYY"));
        assert_eq!(written.is_err(), is_beyond, "{zone}");
    }
}

#[test]
fn templates_that_contradict_themselves_are_refused() {
    for template in ["9.9.9", "9S9S", "SMI9", "9PR9", "9EEEE9", "FM9EEEE", "9.9V9", "PLS9"] {
        let error = NumberTemplate::parsed(template).expect_err(template).to_string();
        assert!(error.contains("a template of numbers is wrong"), "{error}");
    }
}
