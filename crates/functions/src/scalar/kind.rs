//! Kinds of arguments and results.

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

/// The kind of an argument, to which values are cast before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text in any of Arrow's three layouts.
    Text,
    /// A text, or any other value as the text that a cast makes of it.
    AsText,
    Bytes,
    Boolean,
    /// An integer of 64 bits.
    Integer,
    /// An unsigned integer of 64 bits.
    Unsigned,
    Double,
    /// A decimal in its own precision and scale, or an integer as one.
    Decimal,
    Date,
    /// Nanoseconds of a day.
    Time,
    /// Microseconds of a local time: a timestamp with time zone is one in its zone.
    Timestamp,
    /// Microseconds of an instant, in UTC.
    Instant,
    Interval,
    /// A list of texts.
    Texts,
    /// A value of any type, as it is.
    Any,
}

/// The type of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Returns {
    /// The type of a kind.
    Of(Kind),
    /// An integer of 32 bits.
    Integer32,
    /// A text that is marked as a UUID.
    Uuid,
    /// The type that a function computes from the types of the arguments.
    By(fn(&[DataType]) -> datafusion::common::Result<DataType>),
}

/// The cost of a cast that is always possible but changes the kind of the value.
const WIDENING: u32 = 1;
/// The cost of a cast that loses a part of the value.
const LOSS: u32 = 4;
/// The cost of parsing a text.
const PARSING: u32 = 16;
/// The cost of an argument of [`Kind::Any`], so that overloads with a specific kind are preferred.
const ANYTHING: u32 = 64;

impl Kind {
    /// The type of values of this kind, for results and for arguments of other types.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Text | Self::AsText => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Decimal => DataType::Decimal128(38, 0),
            Self::Double => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Nanosecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Texts => {
                DataType::List(std::sync::Arc::new(Field::new_list_field(DataType::Utf8, true)))
            }
            Self::Any => DataType::Null,
        }
    }

    /// The type to which an argument of type `from` is cast, and the cost of that; `None` if the
    /// kind does not take such arguments.
    pub(crate) fn coerced(self, from: &DataType) -> Option<(DataType, u32)> {
        if from.is_null() {
            return Some((self.data_type(), 0));
        }
        let cost = match self {
            Self::Any => return Some((from.clone(), ANYTHING)),
            Self::Text if is_text(from) => return Some((plain_text(from), 0)),
            Self::AsText if is_text(from) => return Some((plain_text(from), 0)),
            Self::AsText => ANYTHING,
            Self::Decimal => return decimal(from),
            Self::Timestamp => match from {
                DataType::Timestamp(_, None) => 0,
                DataType::Timestamp(_, zone) => {
                    return Some((DataType::Timestamp(TimeUnit::Microsecond, zone.clone()), LOSS));
                }
                _ => self.cost(from)?,
            },
            _ => self.cost(from)?,
        };
        Some((self.data_type(), cost))
    }

    fn cost(self, from: &DataType) -> Option<u32> {
        let cost = match self {
            Self::Bytes if is_bytes(from) => 0,
            Self::Bytes if is_text(from) => PARSING,
            Self::Boolean if *from == DataType::Boolean => 0,
            Self::Integer if *from == DataType::UInt64 => WIDENING,
            Self::Integer | Self::Unsigned if from.is_integer() => 0,
            Self::Double if *from == DataType::Float64 => 0,
            Self::Double if from.is_numeric() => WIDENING,
            Self::Date if matches!(from, DataType::Date32 | DataType::Date64) => 0,
            Self::Time if matches!(from, DataType::Time32(_) | DataType::Time64(_)) => 0,
            Self::Timestamp if matches!(from, DataType::Date32 | DataType::Date64) => WIDENING,
            Self::Instant => match from {
                DataType::Timestamp(_, Some(_)) => 0,
                DataType::Timestamp(_, None) => WIDENING,
                DataType::Date32 | DataType::Date64 => 2 * WIDENING,
                _ if is_text(from) => 2 * PARSING,
                _ => return None,
            },
            Self::Interval if matches!(from, DataType::Interval(_) | DataType::Duration(_)) => 0,
            Self::Date | Self::Time | Self::Timestamp | Self::Interval if is_text(from) => {
                PARSING + u32::from(self != Self::Timestamp)
            }
            Self::Texts => match from {
                DataType::List(item)
                | DataType::LargeList(item)
                | DataType::FixedSizeList(item, _)
                    if is_text(item.data_type()) || item.data_type().is_null() =>
                {
                    0
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(cost)
    }
}

impl Returns {
    /// The type of the result for arguments of these types.
    pub(crate) fn data_type(self, arguments: &[DataType]) -> datafusion::common::Result<DataType> {
        match self {
            Self::Of(kind) => Ok(kind.data_type()),
            Self::Integer32 => Ok(DataType::Int32),
            Self::Uuid => Ok(DataType::Utf8),
            Self::By(by) => by(arguments),
        }
    }
}

/// The decimal type to which a number is cast, and the cost of that.
fn decimal(from: &DataType) -> Option<(DataType, u32)> {
    match from {
        DataType::Decimal128(..) => Some((from.clone(), 0)),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            Some((DataType::Decimal128(*precision, *scale), 0))
        }
        integer if integer.is_integer() => Some((DataType::Decimal128(20, 0), WIDENING)),
        _ => None,
    }
}

/// True for texts in any layout, dictionaries among them.
pub(crate) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

/// True for bytes in any layout.
fn is_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// The layout in which a text is passed: its own, or that of the values of a dictionary.
fn plain_text(kind: &DataType) -> DataType {
    match kind {
        DataType::Dictionary(_, values) => plain_text(values),
        other => other.clone(),
    }
}
