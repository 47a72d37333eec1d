//! The schema `pg_catalog`: PostgreSQL's tables, functions and syntax with which clients look up
//! the objects of a database.
//!
//! The relations are defined in `relations.txt` and `information_schema.txt`, with the columns that
//! they have in PostgreSQL. Their rows are computed from the database's names at each scan
//! ([`tables`]). The functions are in [`functions`]. Syntax that DataFusion cannot plan, such as
//! `'t'::regclass`, is rewritten in the statement ([`rewrite`]).

mod activity;
mod batch;
mod column_facts;
mod column_names;
mod defined;
mod definition;
mod described;
mod functions;
mod information;
mod objects;
mod oids;
mod provider;
mod relations;
mod rewrite;
mod roles;
mod schemas;
mod source;
mod tables;
mod types;
mod value;

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::sql::parser::Statement;
use terrace_sql::{AddedSchema, Names, Session};

use crate::connection_info::ConnectionInfo;
use schemas::SCHEMA;
use source::{Functions, Source};

pub use column_names::ColumnNames;

/// Functions that every session has already, and that accept all arguments of the functions of the
/// catalog with these names. A session with the catalog keeps its own.
const OF_SESSIONS: [&str; 2] = ["age", "format"];

/// Adds the schema and its functions to a session.
pub(crate) fn add_to(session: &Session, facts: &Arc<ConnectionInfo>) {
    let context = session.context();
    let functions = Arc::new(Functions::of(context));
    let schema = PostgresSchema { facts: Arc::clone(facts), functions };
    let source = schema.source(session.names());
    for function in functions::all(&source) {
        if !OF_SESSIONS.contains(&function.name()) {
            context.register_udf(function);
        }
    }
    context.register_udtf("pg_get_keywords", Arc::new(functions::Keywords));
    session.add_schema(Arc::new(schema));
}

/// The schema `pg_catalog` as a session includes it. It has no reference to the session's names,
/// since the session has a reference to the schema.
#[derive(Debug)]
struct PostgresSchema {
    facts: Arc<ConnectionInfo>,
    functions: Arc<Functions>,
}

impl PostgresSchema {
    fn source(&self, names: Names) -> Source {
        Source { names, facts: Arc::clone(&self.facts), functions: Arc::clone(&self.functions) }
    }
}

impl AddedSchema for PostgresSchema {
    fn name(&self) -> &'static str {
        SCHEMA
    }

    fn tables(&self, names: Names) -> Arc<dyn SchemaProvider> {
        Arc::new(provider::PgCatalog { source: self.source(names) })
    }

    fn rewrite(&self, statement: &mut Statement) {
        rewrite::rewrite(statement);
    }
}
