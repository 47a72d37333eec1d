//! PostgreSQL's types, with their properties in `pg_type`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::oids;
use super::value::Row;

/// A type of PostgreSQL. The fields are named like the columns of `pg_type`.
#[derive(Debug)]
pub(super) struct PgType {
    pub(super) oid: i64,
    pub(super) name: &'static str,
    /// The SQL name, as `format_type` returns it.
    pub(super) sql_name: &'static str,
    pub(super) len: i64,
    pub(super) by_value: bool,
    pub(super) align: &'static str,
    pub(super) storage: &'static str,
    pub(super) collation: i64,
    kind: &'static str,
    category: &'static str,
    is_preferred: bool,
    element: i64,
    array: i64,
    /// `typinput`, `typoutput`, `typreceive` and `typsend`.
    functions: [i64; 4],
    subscript: i64,
}

static TYPES: LazyLock<Vec<PgType>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(parse).collect()
});

static BY_OID: LazyLock<HashMap<i64, &'static PgType>> =
    LazyLock::new(|| TYPES.iter().map(|of| (of.oid, of)).collect());

static BY_NAME: LazyLock<HashMap<&'static str, &'static PgType>> =
    LazyLock::new(|| TYPES.iter().map(|of| (of.name, of)).collect());

static FUNCTIONS: LazyLock<Vec<(i64, &'static str)>> = LazyLock::new(|| {
    let lines = include_str!("type_functions.txt").lines().filter(|line| !line.starts_with('#'));
    let function = |line: &'static str| {
        let (oid, name) = line.split_once(' ')?;
        Some((oid.parse().ok()?, name))
    };
    lines.filter_map(function).collect()
});

fn parse(line: &'static str) -> Option<PgType> {
    let mut words = line.splitn(18, ' ');
    let mut word = || words.next();
    let number = |word: Option<&str>| word?.parse::<i64>().ok();
    let yes = |word: Option<&str>| word == Some("t");
    Some(PgType {
        oid: number(word())?,
        name: word()?,
        len: number(word())?,
        by_value: yes(word()),
        kind: word()?,
        category: word()?,
        is_preferred: yes(word()),
        element: number(word())?,
        array: number(word())?,
        functions: [number(word())?, number(word())?, number(word())?, number(word())?],
        align: word()?,
        storage: word()?,
        collation: number(word())?,
        subscript: number(word())?,
        sql_name: word()?,
    })
}

/// Returns the type with an OID.
pub(super) fn by_oid(oid: i64) -> Option<&'static PgType> {
    BY_OID.get(&oid).copied()
}

/// Returns the type with a name in `pg_type`.
pub(super) fn by_name(name: &str) -> Option<&'static PgType> {
    BY_NAME.get(name).copied()
}

/// Returns the name in `pg_type` for a type name in a statement: `int4` for `integer`.
pub(super) fn internal_name(text: &str) -> Option<&'static str> {
    by_any_name(text).map(|known| known.name)
}

/// Returns the type for an SQL name or a name in `pg_type`: `integer`, `int4`, `int`,
/// `numeric(10,2)`, `text[]`.
pub(super) fn by_any_name(text: &str) -> Option<&'static PgType> {
    let text = text.trim().strip_prefix("pg_catalog.").unwrap_or(text.trim());
    if let Some(item) = text.strip_suffix("[]") {
        return by_oid(by_any_name(item)?.array);
    }
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    if let Some(name) = quoted {
        return by_name(name);
    }
    let plain = match (text.find('('), text.find(')')) {
        (Some(open), Some(close)) if open < close => {
            let (before, after) = (text.get(..open), text.get(close + 1..));
            format!("{}{}", before.unwrap_or_default().trim_end(), after.unwrap_or_default())
        }
        _ => text.to_owned(),
    };
    let plain = plain.to_lowercase();
    let name = match plain.as_str() {
        "int" => "integer",
        "decimal" | "dec" => "numeric",
        "float" | "double" => "double precision",
        "blob" => "bytea",
        "datetime" => "timestamp without time zone",
        "string" => "text",
        "char" | "character" => "bpchar",
        name => name,
    };
    TYPES.iter().find(|of| of.sql_name == name).or_else(|| by_name(name))
}

/// True if a type of this kind exists (`pg_type.typtype`).
pub(super) fn has_kind(kind: &str) -> bool {
    TYPES.iter().any(|of| of.kind == kind)
}

/// Returns the OID and name of each input and output function of the types.
pub(super) fn functions() -> impl Iterator<Item = (i64, &'static str)> {
    FUNCTIONS.iter().copied()
}

/// Returns the name of a type with its modifier, as `format_type` does.
pub(super) fn format(oid: i64, modifier: Option<i64>) -> String {
    let Some(of) = by_oid(oid) else { return "???".to_owned() };
    let modifier = modifier.filter(|modifier| *modifier >= 0);
    match (of.name, modifier) {
        // The modifier is the packed precision and scale plus 4, the size of a header in bytes.
        ("numeric", Some(modifier)) => {
            let digits = modifier - 4;
            format!("numeric({},{})", digits >> 16, digits & 0xffff)
        }
        ("varchar", Some(modifier)) => format!("{}({})", of.sql_name, modifier - 4),
        ("bpchar", Some(modifier)) => format!("character({})", modifier - 4),
        _ => of.sql_name.to_owned(),
    }
}

/// Returns the rows of `pg_type`.
pub(super) fn rows() -> Vec<Row> {
    TYPES.iter().map(row).collect()
}

fn row(of: &'static PgType) -> Row {
    let [input, output, receive, send] = of.functions;
    vec![
        ("oid", of.oid.into()),
        ("typname", of.name.into()),
        ("typnamespace", oids::PG_CATALOG.into()),
        ("typowner", oids::OWNER.into()),
        ("typlen", of.len.into()),
        ("typbyval", of.by_value.into()),
        ("typtype", of.kind.into()),
        ("typcategory", of.category.into()),
        ("typispreferred", of.is_preferred.into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", of.subscript.into()),
        ("typelem", of.element.into()),
        ("typarray", of.array.into()),
        ("typinput", input.into()),
        ("typoutput", output.into()),
        ("typreceive", receive.into()),
        ("typsend", send.into()),
        ("typalign", of.align.into()),
        ("typstorage", of.storage.into()),
        ("typtypmod", (-1).into()),
        ("typcollation", of.collation.into()),
    ]
}

#[cfg(test)]
mod tests {
    use pgwire::api::Type;

    use super::*;

    #[test]
    fn types_are_those_of_the_protocol() {
        let text = include_str!("types.txt");
        assert_eq!(TYPES.len(), text.lines().filter(|line| !line.starts_with('#')).count());
        for of in TYPES.iter() {
            let known = Type::from_oid(u32::try_from(of.oid).unwrap_or(0));
            assert_eq!(known.map(|known| known.name().to_owned()).as_deref(), Some(of.name));
        }
    }

    #[test]
    fn types_are_found_by_all_of_their_names() {
        let oid = |name: &str| by_any_name(name).map(|of| of.oid);
        assert_eq!(oid("int"), Some(23));
        assert_eq!(oid("pg_catalog.int4"), Some(23));
        assert_eq!(oid("Double Precision"), Some(701));
        assert_eq!(oid("numeric(10, 2)"), Some(1700));
        assert_eq!(oid("timestamp(3) with time zone"), Some(1184));
        assert_eq!(oid("text[]"), Some(1009));
        assert_eq!(oid("\"char\""), Some(18));
        assert_eq!(oid("nothing"), None);
        assert_eq!(format(1700, Some(655_366)), "numeric(10,2)");
        assert_eq!(format(1043, Some(14)), "character varying(10)");
        assert_eq!(format(25, None), "text");
        assert_eq!(format(1007, Some(-1)), "integer[]");
        assert_eq!(format(1, None), "???");
    }
}
