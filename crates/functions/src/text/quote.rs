//! Texts quoted for SQL, as in PostgreSQL.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::scalar::{Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("quote_ident", &[Overload::new(&[Kind::Text], Kind::Text, ident)]),
    Definition::new("quote_literal", &[Overload::new(&[Kind::AsText], Kind::Text, literal)]),
    Definition::new("quote_nullable", &[Overload::new(&[Kind::AsText], Kind::Text, nullable)]),
];

fn ident(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(quoted_ident(text))))
}

fn literal(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(quoted_literal(text).into())))
}

fn nullable(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Text>(|row| {
        let text = call.value::<Text>(0, row)?;
        Ok(Some(text.map_or("NULL".into(), |text| quoted_literal(text).into())))
    })
}

/// An identifier with quotation marks, if it needs them.
pub(super) fn quoted_ident(text: &str) -> Cow<'_, str> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_plain = text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && RESERVED.split_ascii_whitespace().all(|word| word != text);
    match is_plain {
        true => text.into(),
        false => format!("\"{}\"", text.replace('"', "\"\"")).into(),
    }
}

/// A literal; one with backslashes has an E before it.
pub(super) fn quoted_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

/// The words of PostgreSQL 15 that are not names everywhere.
const RESERVED: &str = "
    all analyse analyze and any array as asc asymmetric authorization between bigint binary
    bit boolean both case cast char character check coalesce collate collation column
    concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from
    full grant greatest group grouping having ilike in initially inner inout int integer
    intersect interval into is isnull join lateral leading least left like limit localtime
    localtimestamp national natural nchar none normalize not notnull null nullif numeric
    offset on only or order out outer overlaps overlay placing position precision primary
    real references returning right row select session_user setof similar smallint some
    substring symmetric table tablesample then time timestamp to trailing treat trim true
    union unique user using values varchar variadic verbose when where window with
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
    xmlroot xmlserialize xmltable";
