//! Types of columns, kinds of expressions, and values.

use super::dialect::Dialect;
use super::random::Random;

/// The kind of an expression: the set of operators that accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Booleans.
    Bool,
    /// Whole numbers of any width.
    Int,
    /// Floats of either width.
    Float,
    /// Decimals of any scale.
    Decimal,
    /// Text.
    Text,
    /// Dates.
    Date,
    /// Points in time without a time zone.
    Timestamp,
    /// Points in time with a time zone.
    TimestampTz,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::Bool,
        Kind::Int,
        Kind::Float,
        Kind::Decimal,
        Kind::Text,
        Kind::Date,
        Kind::Timestamp,
        Kind::TimestampTz,
    ];

    /// Returns the constants that may replace an expression of this kind.
    #[must_use]
    pub fn constants(self) -> &'static [&'static str] {
        match self {
            Kind::Bool => &["true", "false", "CAST(NULL AS BOOLEAN)"],
            Kind::Int => &["1", "0", "CAST(NULL AS BIGINT)"],
            Kind::Float => &["CAST(1 AS DOUBLE)", "CAST(NULL AS DOUBLE)"],
            Kind::Decimal => &["CAST('1.5' AS DECIMAL(10,2))", "CAST(NULL AS DECIMAL(10,2))"],
            Kind::Text => &["'a'", "''", "CAST(NULL AS VARCHAR)"],
            Kind::Date => &["DATE '2024-02-29'"],
            Kind::Timestamp => &["TIMESTAMP '2024-02-29 12:30:00'"],
            Kind::TimestampTz => &["CAST('2024-02-29 12:30:00+00' AS TIMESTAMP WITH TIME ZONE)"],
        }
    }

    /// Returns a type that all values of the kind can be cast to.
    #[must_use]
    pub fn wide(self) -> ColumnType {
        match self {
            Kind::Bool => ColumnType::Bool,
            Kind::Int => ColumnType::Int { bits: 64, signed: true },
            Kind::Float => ColumnType::Float { bits: 64 },
            Kind::Decimal => ColumnType::Decimal { precision: 30, scale: 8 },
            Kind::Text => ColumnType::Text { dictionary: false },
            Kind::Date => ColumnType::Date,
            Kind::Timestamp => ColumnType::Timestamp,
            Kind::TimestampTz => ColumnType::TimestampTz,
        }
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the SQL types")]
pub enum ColumnType {
    Bool,
    Int { bits: u8, signed: bool },
    Float { bits: u8 },
    Decimal { precision: u8, scale: u8 },
    Text { dictionary: bool },
    Date,
    Timestamp,
    TimestampTz,
}

impl ColumnType {
    /// Returns a random type.
    pub fn random(random: &mut Random) -> Self {
        match random.below(16) {
            0 => Self::Bool,
            1..=3 => Self::Int { bits: *random.one(&[32, 64]), signed: true },
            4 | 5 => Self::Int { bits: *random.one(&[8, 16, 32, 64]), signed: random.percent(60) },
            6 => Self::Float { bits: 32 },
            7 | 8 => Self::Float { bits: 64 },
            9 | 10 => {
                let (precision, scale) = *random.one(&[(4, 1), (9, 2), (18, 6), (15, 0), (25, 4)]);
                Self::Decimal { precision, scale }
            }
            11..=13 => Self::Text { dictionary: random.percent(20) },
            14 => Self::Date,
            _ if random.percent(50) => Self::Timestamp,
            _ => Self::TimestampTz,
        }
    }

    /// Returns the kind of the type's values.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Int { .. } => Kind::Int,
            Self::Float { .. } => Kind::Float,
            Self::Decimal { .. } => Kind::Decimal,
            Self::Text { .. } => Kind::Text,
            Self::Date => Kind::Date,
            Self::Timestamp => Kind::Timestamp,
            Self::TimestampTz => Kind::TimestampTz,
        }
    }

    /// Returns the type's name.
    #[must_use]
    pub fn name(self, dialect: Dialect) -> String {
        match self {
            Self::Bool => "BOOLEAN".to_owned(),
            Self::Int { bits, signed } => {
                let width = match bits {
                    8 => "TINYINT",
                    16 => "SMALLINT",
                    32 => "INTEGER",
                    _ => "BIGINT",
                };
                match (signed, dialect) {
                    (true, _) => width.to_owned(),
                    (false, Dialect::Terrace) => format!("{width} UNSIGNED"),
                    (false, Dialect::Duck) => format!("U{width}"),
                }
            }
            Self::Float { bits: 32 } => "REAL".to_owned(),
            Self::Float { .. } => "DOUBLE".to_owned(),
            Self::Decimal { precision, scale } => format!("DECIMAL({precision},{scale})"),
            Self::Text { .. } => "VARCHAR".to_owned(),
            Self::Date => "DATE".to_owned(),
            Self::Timestamp => "TIMESTAMP".to_owned(),
            Self::TimestampTz => "TIMESTAMP WITH TIME ZONE".to_owned(),
        }
    }

    /// Returns a random value that is not null. Most come from a small set, so that keys match.
    pub fn value(self, random: &mut Random) -> Value {
        match self {
            Self::Bool => Value::Bool(random.percent(50)),
            Self::Int { bits, signed } => Value::Int(int(bits, signed, random)),
            Self::Float { .. } => Value::Float(float(random)),
            Self::Decimal { precision, scale } => {
                let limit = if random.percent(90) { 40 } else { 999 };
                let digits = random.number(-limit, limit);
                let unit = 10_i64.pow(u32::from(scale.min(precision - 3)));
                Value::Decimal(digits.saturating_mul((unit / 4).max(1)), scale)
            }
            Self::Text { .. } => Value::Text(words(random)),
            Self::Date => Value::Date(days(random)),
            Self::Timestamp | Self::TimestampTz => {
                let seconds = *random.one(&[0, 0, 1, 43_200, 86_399]);
                Value::Timestamp(i64::from(days(random)) * 86_400 + seconds)
            }
        }
    }
}

/// Returns a random integer: mostly small, sometimes the limits of a narrow type, never so large
/// that sums overflow.
fn int(bits: u8, signed: bool, random: &mut Random) -> i64 {
    let number = match random.below(20) {
        0 if bits < 64 => (1_i64 << (bits - u8::from(signed))) - 1,
        0 => 1_000_000_000,
        1 if signed && bits < 64 => -(1_i64 << (bits - 1)),
        1 => random.number(0, 120),
        2..=4 => random.number(-100, 100),
        _ => random.number(-3, 12),
    };
    if signed { number } else { number.max(0) }
}

/// Returns a random float: a multiple of a quarter, so that sums are exact, or a special value.
fn float(random: &mut Random) -> f64 {
    const SPECIAL: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0];
    match random.below(12) {
        0 if random.special => *random.one(&SPECIAL),
        1 | 2 => quarters(random.number(-4000, 4000)),
        _ => quarters(random.number(-12, 24)),
    }
}

fn quarters(number: i64) -> f64 {
    i32::try_from(number).map_or(0.0, f64::from) / 4.0
}

fn words(random: &mut Random) -> String {
    const WORDS: [&str; 14] = [
        "",
        "a",
        "b",
        "B",
        "ab",
        "abc",
        " a",
        "a ",
        "%",
        "a_b",
        "x'y",
        "twelve chars",
        "thirteen char",
        "\u{e9}t\u{e9}",
    ];
    match random.below(10) {
        0 => format!("a text that is too long to be inline {}", random.below(5)),
        1 => format!("n{}", random.below(50)),
        _ => (*random.one(&WORDS)).to_owned(),
    }
}

/// Returns a random date as days since 1970.
fn days(random: &mut Random) -> i32 {
    let number = match random.below(4) {
        0 => random.number(-3000, 20_000),
        _ => random.number(19_780, 19_790),
    };
    i32::try_from(number).unwrap_or(0)
}

/// A value that is not null.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A Boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// The digits of a decimal, and the number of them after the decimal point.
    Decimal(i64, u8),
    /// Text.
    Text(String),
    /// Days since 1970.
    Date(i32),
    /// Seconds since 1970.
    Timestamp(i64),
}

impl Value {
    /// Returns the value as a literal of a type.
    #[must_use]
    pub fn literal(&self, column: ColumnType, dialect: Dialect) -> String {
        let cast = |text: &str| format!("CAST('{text}' AS {})", column.name(dialect));
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value.is_nan() => cast("NaN"),
            Self::Float(value) if value.is_infinite() && *value > 0.0 => cast("Infinity"),
            Self::Float(value) if value.is_infinite() => cast("-Infinity"),
            Self::Float(value) => cast(&format!("{value:?}")),
            Self::Decimal(digits, scale) => cast(&decimal(*digits, *scale)),
            Self::Text(value) => format!("'{}'", value.replace('\'', "''")),
            Self::Date(days) => cast(&date(i64::from(*days))),
            Self::Timestamp(seconds) => {
                let zone = if column == ColumnType::TimestampTz { "+00" } else { "" };
                let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
                let (hour, minute) = (second / 3600, second / 60 % 60);
                let time = format!("{hour:02}:{minute:02}:{:02}", second % 60);
                cast(&format!("{} {time}{zone}", date(day)))
            }
        }
    }
}

fn decimal(digits: i64, scale: u8) -> String {
    let sign = if digits < 0 { "-" } else { "" };
    let unit = 10_u64.pow(u32::from(scale));
    let (whole, part) = (digits.unsigned_abs() / unit, digits.unsigned_abs() % unit);
    match scale {
        0 => format!("{sign}{whole}"),
        scale => format!("{sign}{whole}.{part:0width$}", width = usize::from(scale)),
    }
}

/// Returns the civil date of a day since 1970, by the algorithm of Howard Hinnant.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_literals() {
        let literal = |value: Value, column: ColumnType| value.literal(column, Dialect::Duck);
        assert_eq!(literal(Value::Text("x'y".into()), Kind::Text.wide()), "'x''y'");
        let small = ColumnType::Decimal { precision: 9, scale: 2 };
        assert_eq!(literal(Value::Decimal(-125, 2), small), "CAST('-1.25' AS DECIMAL(9,2))");
        let moment = Value::Timestamp(-1);
        let want = "CAST('1969-12-31 23:59:59+00' AS TIMESTAMP WITH TIME ZONE)";
        assert_eq!(literal(moment, ColumnType::TimestampTz), want);
        assert_eq!(date(19_782), "2024-02-29");
        let float = literal(Value::Float(-0.0), ColumnType::Float { bits: 64 });
        assert_eq!(float, "CAST('-0.0' AS DOUBLE)");
    }

    #[test]
    fn values_fit_their_types() {
        let mut random = Random::new(1, 1);
        for _ in 0..2000 {
            let column = ColumnType::random(&mut random);
            match (column, column.value(&mut random)) {
                (ColumnType::Int { bits: 8, signed: true }, Value::Int(value)) => {
                    assert!((-128..=127).contains(&value));
                }
                (ColumnType::Decimal { precision, .. }, Value::Decimal(digits, _)) => {
                    let digits = digits.unsigned_abs().to_string().len();
                    assert!(digits <= usize::from(precision), "{column:?}");
                }
                _ => {}
            }
        }
    }
}
