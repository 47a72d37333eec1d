//! Rows about defaults, generated columns, constraints, comments and sequences.

use terrace_sql::catalog::{Identity, Properties};
use terrace_sql::{SequenceReport, SqlError};

use super::column_facts::{expression, properties};
use super::objects::{Kind, Object, Objects};
use super::source::Source;
use super::value::{Row, Value};
use super::{defined, oids, relations, roles, types};

/// OIDs of the catalogs that comments refer to.
const PG_CLASS: i64 = 1259;
const PG_NAMESPACE: i64 = 2615;
const PG_PROC: i64 = 1255;
const PG_TYPE: i64 = 1247;

/// Returns the OID of a constraint.
fn constraint_oid(object: &Object, constraint: &str) -> i64 {
    oids::hashed(&[&object.schema, &object.name, "constraint", constraint])
}

/// Returns the definition of the constraint with an OID, as `pg_get_constraintdef` does.
pub(super) fn constraint(objects: &Objects, source: &Source, oid: i64) -> Option<String> {
    objects.relations.iter().find_map(|object| {
        let properties = properties(object, source);
        let mut checks = properties.checks.iter();
        let found = checks.find(|(name, _)| constraint_oid(object, name) == oid);
        found.map(|(_, text)| format!("CHECK (({text}))"))
    })
}

/// Returns the rows of `pg_attrdef`.
///
/// # Errors
/// Errors of looking up columns.
pub(super) async fn defaults(source: &Source) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for object in &Objects::of(&source.names).relations {
        let properties = properties(object, source);
        if properties.columns.is_empty() {
            continue;
        }
        let columns = relations::columns(object, source).await?;
        for (column, number) in columns.iter().zip(1_i64..) {
            let Some(text) = expression(&properties, &column.name) else { continue };
            let oid = oids::hashed(&[&object.schema, &object.name, "default", &column.name]);
            rows.push(vec![
                ("oid", oid.into()),
                ("adrelid", object.oid.into()),
                ("adnum", number.into()),
                ("adbin", text.into()),
            ]);
        }
    }
    Ok(rows)
}

/// Returns the rows of `pg_constraint`.
pub(super) fn constraints(source: &Source) -> Vec<Row> {
    let objects = Objects::of(&source.names);
    let rows = objects.relations.iter().flat_map(|object| {
        let checks = properties(object, source).checks;
        let row = |(name, text): (String, String)| -> Row {
            vec![
                ("oid", constraint_oid(object, &name).into()),
                ("conname", name.into()),
                ("connamespace", object.schema_oid.into()),
                ("contype", "c".into()),
                ("convalidated", true.into()),
                ("conrelid", object.oid.into()),
                ("confupdtype", " ".into()),
                ("confdeltype", " ".into()),
                ("confmatchtype", " ".into()),
                ("conislocal", true.into()),
                ("conbin", text.into()),
            ]
        };
        checks.into_iter().map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

/// Returns the rows of `pg_description`.
///
/// # Errors
/// Errors of looking up columns.
pub(super) async fn comments(source: &Source) -> Result<Vec<Row>, SqlError> {
    let objects = Objects::of(&source.names);
    let row = |oid: i64, class: i64, number: i64, text: String| -> Row {
        vec![
            ("objoid", oid.into()),
            ("classoid", class.into()),
            ("objsubid", number.into()),
            ("description", text.into()),
        ]
    };
    let mut rows = Vec::new();
    for schema in &objects.schemas {
        let text = source.names.comment(&schema.name, None);
        rows.extend(text.map(|text| row(schema.oid, PG_NAMESPACE, 0, text)));
    }
    for object in objects.relations.iter().filter(|object| object.is_of_user()) {
        let text = source.names.comment(&object.schema, Some(&object.name));
        rows.extend(text.map(|text| row(object.oid, PG_CLASS, 0, text)));
        for (column, number) in relations::columns(object, source).await?.iter().zip(1..) {
            let names = &source.names;
            let text = names.column_comment(&object.schema, &object.name, &column.name);
            rows.extend(text.map(|text| row(object.oid, PG_CLASS, number, text)));
        }
    }
    for routine in source.names.routines() {
        let oid = defined::routine_oid(&routine);
        rows.extend(routine.comment.map(|text| row(oid, PG_PROC, 0, text)));
    }
    for of in source.names.enums() {
        let oid = defined::enum_oid(&of.schema, &of.name);
        rows.extend(of.comment.map(|text| row(oid, PG_TYPE, 0, text)));
    }
    Ok(rows)
}

/// Returns the sequences of the database, each with its relation.
fn sequences(objects: &Objects) -> impl Iterator<Item = (&Object, &SequenceReport)> {
    objects.relations.iter().filter_map(|object| match &object.kind {
        Kind::Sequence(report) => Some((object, report)),
        _ => None,
    })
}

fn type_oid(report: &SequenceReport) -> i64 {
    let name = match report.options.data_type.name() {
        "smallint" => "int2",
        "integer" => "int4",
        _ => "int8",
    };
    types::by_name(name).map_or(0, |of| of.oid)
}

/// Returns the rows of `pg_sequence`.
pub(super) fn sequence_options(source: &Source) -> Vec<Row> {
    let objects = Objects::of(&source.names);
    let row = |(object, report): (&Object, &SequenceReport)| -> Row {
        let options = &report.options;
        vec![
            ("seqrelid", object.oid.into()),
            ("seqtypid", type_oid(report).into()),
            ("seqstart", options.start.into()),
            ("seqincrement", options.increment.into()),
            ("seqmax", options.max.into()),
            ("seqmin", options.min.into()),
            ("seqcache", options.cache.into()),
            ("seqcycle", options.cycles.into()),
        ]
    };
    sequences(&objects).map(row).collect()
}

/// Returns the rows of `pg_sequences`.
pub(super) fn sequence_values(source: &Source) -> Vec<Row> {
    let objects = Objects::of(&source.names);
    let row = |(object, report): (&Object, &SequenceReport)| -> Row {
        let options = &report.options;
        vec![
            ("schemaname", object.schema.as_str().into()),
            ("sequencename", object.name.as_str().into()),
            ("sequenceowner", roles::owner(source, &object.schema, Some(&object.name)).into()),
            ("data_type", options.data_type.name().into()),
            ("start_value", options.start.into()),
            ("min_value", options.min.into()),
            ("max_value", options.max.into()),
            ("increment_by", options.increment.into()),
            ("cycle", options.cycles.into()),
            ("cache_size", options.cache.into()),
            ("last_value", report.last.into()),
        ]
    };
    sequences(&objects).map(row).collect()
}

/// Returns the rows of `information_schema.sequences`.
pub(super) fn sequences_of_standard(objects: &Objects, source: &Source) -> Vec<Row> {
    let row = |(object, report): (&Object, &SequenceReport)| -> Row {
        let options = &report.options;
        let bits = match options.data_type.name() {
            "smallint" => 16,
            "integer" => 32,
            _ => 64,
        };
        vec![
            ("sequence_catalog", source.facts.database.into()),
            ("sequence_schema", object.schema.as_str().into()),
            ("sequence_name", object.name.as_str().into()),
            ("data_type", options.data_type.name().into()),
            ("numeric_precision", Value::Int(bits)),
            ("numeric_precision_radix", Value::Int(2)),
            ("numeric_scale", Value::Int(0)),
            ("start_value", options.start.to_string().into()),
            ("minimum_value", options.min.to_string().into()),
            ("maximum_value", options.max.to_string().into()),
            ("increment", options.increment.to_string().into()),
            ("cycle_option", if options.cycles { "YES" } else { "NO" }.into()),
        ]
    };
    // The sequences of identity columns are parts of these columns.
    let is_own = |(object, report): &(&Object, &SequenceReport)| {
        let tables = objects.relations.iter().filter(|table| table.schema == object.schema);
        !tables.into_iter().any(|table| {
            let mut columns = properties(table, source).columns.into_values();
            columns.any(|column| {
                column.identity.is_some() && column.sequence.as_ref() == Some(&report.name)
            })
        })
    };
    sequences(objects).filter(is_own).map(row).collect()
}

/// Returns the rows of `information_schema.table_constraints` for CHECK and NOT NULL.
///
/// # Errors
/// Errors of looking up columns.
pub(super) async fn constraints_of_standard(
    objects: &Objects,
    source: &Source,
) -> Result<Vec<(Row, Row)>, SqlError> {
    let mut rows = Vec::new();
    for object in objects.relations.iter().filter(|object| object.size().is_some()) {
        let mut all: Vec<(String, String)> =
            properties(object, source).checks.into_iter().collect();
        let columns = relations::columns(object, source).await?;
        for (column, number) in columns.iter().zip(1_i64..).filter(|(it, _)| !it.is_nullable) {
            let name = format!("{}_{}_{number}_not_null", object.schema_oid, object.oid);
            all.push((name, format!("{} IS NOT NULL", column.name)));
        }
        rows.extend(
            all.into_iter().map(|(name, text)| constraint_rows(object, source, name, text)),
        );
    }
    Ok(rows)
}

/// The rows of `table_constraints` and of `check_constraints` for a constraint.
fn constraint_rows(object: &Object, source: &Source, name: String, text: String) -> (Row, Row) {
    let place = || -> Row {
        vec![
            ("constraint_catalog", source.facts.database.into()),
            ("constraint_schema", object.schema.as_str().into()),
            ("constraint_name", name.as_str().into()),
        ]
    };
    let mut of_table = place();
    of_table.extend([
        ("table_catalog", source.facts.database.into()),
        ("table_schema", object.schema.as_str().into()),
        ("table_name", object.name.as_str().into()),
        ("constraint_type", "CHECK".into()),
        ("is_deferrable", "NO".into()),
        ("initially_deferred", "NO".into()),
        ("enforced", "YES".into()),
    ]);
    let mut check = place();
    check.push(("check_clause", format!("({text})").into()));
    (of_table, check)
}

/// Returns the values of `information_schema.columns` about a column's default, identity and
/// generation.
pub(super) fn values_of(
    object: &Object,
    source: &Source,
    properties: &Properties,
    column: &str,
) -> Row {
    let own = properties.of(column).cloned().unwrap_or_default();
    let yes = |is: bool| if is { "YES" } else { "NO" };
    let options = own.sequence.as_ref().filter(|_| own.identity.is_some()).and_then(|name| {
        let all = source.names.sequences();
        let found = all.into_iter().find(|it| it.schema == object.schema && it.name == *name);
        found.map(|found| found.options)
    });
    let number = |of: fn(&terrace_sql::catalog::SequenceOptions) -> i64| -> Value {
        options.as_ref().map(|options| of(options).to_string()).into()
    };
    let default = own.default.filter(|_| own.identity.is_none());
    vec![
        ("column_default", default.into()),
        ("is_identity", yes(own.identity.is_some()).into()),
        ("identity_generation", own.identity.map(Identity::keywords).into()),
        ("identity_start", number(|options| options.start)),
        ("identity_increment", number(|options| options.increment)),
        ("identity_maximum", number(|options| options.max)),
        ("identity_minimum", number(|options| options.min)),
        ("identity_cycle", yes(options.is_some_and(|options| options.cycles)).into()),
        ("is_generated", if own.generated.is_some() { "ALWAYS" } else { "NEVER" }.into()),
        ("generation_expression", own.generated.into()),
    ]
}
