//! Functions with which clients look up the objects of a database.
//!
//! Each of the modules below has a table of functions; the body of a function computes its value
//! for one row.

mod argument;
mod call;
mod definitions;
mod facts;
mod format;
mod function;
mod identifier;
mod keywords;
mod names;
mod privileges;
mod routines;
mod texts;
mod transactions;

use datafusion::logical_expr::ScalarUDF;

use super::source::Source;
use super::value::{Row, Value};
use super::{defined, oids, types};
use function::Function;

pub(super) use facts::UTF8;
pub(super) use keywords::Keywords;

/// Returns the functions of a session.
pub(super) fn all(source: &Source) -> Vec<ScalarUDF> {
    let tables = [
        definitions::FUNCTIONS,
        facts::FUNCTIONS,
        format::FUNCTIONS,
        names::FUNCTIONS,
        privileges::FUNCTIONS,
        routines::FUNCTIONS,
        texts::FUNCTIONS,
        transactions::FUNCTIONS,
    ];
    let tables = tables.concat();
    let function = |definition| ScalarUDF::from(Function::new(definition, source.clone()));
    tables.into_iter().map(function).collect()
}

/// Returns the rows of `pg_proc`: the session's functions, and the input and output functions of
/// types.
pub(super) fn rows(source: &Source) -> Vec<Row> {
    let any = types::by_name("any").map_or(0, |of| of.oid);
    let row = |oid: i64, name: &str, kind: &str| -> Row {
        vec![
            ("oid", oid.into()),
            ("proname", name.into()),
            ("pronamespace", oids::PG_CATALOG.into()),
            ("proowner", oids::OWNER.into()),
            ("prolang", defined::INTERNAL.into()),
            ("procost", 1.0.into()),
            ("prokind", kind.into()),
            ("provolatile", "s".into()),
            ("proparallel", "s".into()),
            ("prorettype", any.into()),
            ("proargtypes", Value::Ints(vec![])),
            ("prosrc", name.into()),
        ]
    };
    let own = source.functions.all().iter();
    let own = own.map(|(name, kind)| row(oids::hashed(&[name]), name, kind));
    let of_types = types::functions().map(|(oid, name)| row(oid, name, "f"));
    own.chain(of_types).collect()
}
