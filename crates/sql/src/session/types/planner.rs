//! Types of PostgreSQL and DuckDB that DataFusion does not plan, or plans without their meaning.
//!
//! ```text
//! UUID, JSON, JSONB, VARCHAR(n), CHAR(n)     texts that are checked (`terrace_functions::columns`)
//! BLOB, VARBINARY, BINARY, BYTES             BYTEA
//! TIME, TIME(0) to TIME(6)                   microseconds of a day
//! TIMESTAMP, TIMESTAMPTZ                     microseconds since 1970
//! HUGEINT                                    DECIMAL(38,0)
//! MAP(VARCHAR, INTEGER)
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType as SqlType, ObjectName, TimezoneInfo,
};
use terrace_functions::columns::TextType;

use super::super::refusal::refused;
use super::map;

/// The greatest length of CHAR(n) and VARCHAR(n), as in PostgreSQL.
const LENGTH_MAX: u64 = 10_485_760;

/// Plans the types of columns and casts.
#[derive(Debug)]
pub(in super::super) struct ColumnTypes;

impl TypePlanner for ColumnTypes {
    fn plan_type_field(&self, of: &SqlType) -> Result<Option<FieldRef>> {
        match of {
            SqlType::Uuid => text(TextType::Uuid),
            SqlType::JSON => text(TextType::Json),
            SqlType::JSONB => text(TextType::Jsonb),
            SqlType::Varchar(length)
            | SqlType::CharacterVarying(length)
            | SqlType::CharVarying(length)
            | SqlType::Nvarchar(length) => match length_of(length.as_ref())? {
                Some(length) => text(TextType::Varchar(length)),
                None => plain(DataType::Utf8View),
            },
            SqlType::Char(length) | SqlType::Character(length) => match length {
                Some(CharacterLength::Max) => plain(DataType::Utf8View),
                length => text(TextType::Char(length_of(length.as_ref())?.unwrap_or(1))),
            },
            SqlType::Map(key, value) => map::planned(key, value, Arc::new(Self)).map(Some),
            SqlType::Custom(name, modifiers) if modifiers.is_empty() => Ok(custom(name)),
            other => Ok(of_numbers(other)?.or(of_bytes_and_times(other)?).map(unnamed)),
        }
    }
}

fn unnamed(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

fn plain(data_type: DataType) -> Result<Option<FieldRef>> {
    Ok(Some(unnamed(data_type)))
}

fn text(of: TextType) -> Result<Option<FieldRef>> {
    Ok(Some(Arc::new(of.field(""))))
}

fn length_of(length: Option<&CharacterLength>) -> Result<Option<u32>> {
    let Some(CharacterLength::IntegerLength { length, .. }) = length else { return Ok(None) };
    match u32::try_from(*length) {
        Ok(short) if (1..=LENGTH_MAX).contains(length) => Ok(Some(short)),
        _ => plan_err!("the length {length} of a text type; say 1 to {LENGTH_MAX}, or VARCHAR"),
    }
}

/// The type of a name that the parser has no keyword for; `None` for an unknown name.
fn custom(name: &ObjectName) -> Option<FieldRef> {
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_none())?;
    let data_type = match name.value.to_ascii_lowercase().as_str() {
        "uinteger" => DataType::UInt32,
        "int1" => DataType::Int8,
        "bpchar" => DataType::Utf8View,
        "timestamp_s" => DataType::Timestamp(TimeUnit::Second, None),
        "timestamp_ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "timestamp_us" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ => return None,
    };
    Some(unnamed(data_type))
}

fn of_numbers(of: &SqlType) -> Result<Option<DataType>> {
    Ok(Some(match of {
        SqlType::UTinyInt => DataType::UInt8,
        SqlType::USmallInt => DataType::UInt16,
        SqlType::UBigInt => DataType::UInt64,
        SqlType::HugeInt => DataType::Decimal128(38, 0),
        SqlType::UHugeInt => {
            return refuse("the type UHUGEINT", "say HUGEINT, which has 38 digits and a sign");
        }
        SqlType::Bit(_) | SqlType::BitVarying(_) | SqlType::VarBit(_) => {
            let what = format!("the type {of}");
            return refuse(&what, "say BOOLEAN, BIGINT with the operators & and |, or BYTEA");
        }
        _ => return Ok(None),
    }))
}

fn of_bytes_and_times(of: &SqlType) -> Result<Option<DataType>> {
    Ok(Some(match of {
        SqlType::Bytea
        | SqlType::Blob(None)
        | SqlType::TinyBlob
        | SqlType::MediumBlob
        | SqlType::LongBlob
        | SqlType::Bytes(None)
        | SqlType::Binary(None)
        | SqlType::Varbinary(None) => DataType::Binary,
        SqlType::Blob(_) | SqlType::Bytes(_) | SqlType::Binary(_) | SqlType::Varbinary(_) => {
            let instead = "say BYTEA, and CHECK (octet_length(x) <= n) for a limit";
            return refuse(&format!("the type {of}"), instead);
        }
        SqlType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => match digits {
            None | Some(6) => DataType::Time64(TimeUnit::Microsecond),
            Some(0) => DataType::Time32(TimeUnit::Second),
            Some(3) => DataType::Time32(TimeUnit::Millisecond),
            Some(9) => DataType::Time64(TimeUnit::Nanosecond),
            Some(_) => return refuse(&format!("the type {of}"), "say TIME, TIME(0) or TIME(3)"),
        },
        SqlType::Time(..) => {
            return refuse(&format!("the type {of}"), "say TIME, or TIMESTAMPTZ for a moment");
        }
        SqlType::Interval { fields: None, precision: None | Some(6) } => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        SqlType::Interval { .. } => return refuse(&format!("the type {of}"), "say INTERVAL"),
        SqlType::Datetime(None | Some(6)) => DataType::Timestamp(TimeUnit::Microsecond, None),
        // Instants are in UTC; the time zone of the session is that of texts and local times.
        SqlType::Timestamp(None | Some(6), zone) => {
            let has_zone = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
            DataType::Timestamp(TimeUnit::Microsecond, has_zone.then(|| "UTC".into()))
        }
        _ => return Ok(None),
    }))
}

fn refuse<T>(what: &str, instead: &str) -> Result<T> {
    Err(DataFusionError::External(Box::new(refused(what, instead))))
}
