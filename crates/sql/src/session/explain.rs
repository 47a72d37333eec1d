//! EXPLAIN: the plan of a statement as a tree of text, as JSON, or as an SVG drawing.
//!
//! With ANALYZE the statement is run, and each operator shows its rows, its time, and the bytes
//! that it held, spilled and read. `options` parses the options, `describe` describes the
//! operators, `measure` reads their metrics; `text`, `json` and `svg` format the tree, which `plan`
//! returns as rows.

mod describe;
mod json;
mod measure;
mod operator;
mod options;
mod plan;
mod statement;
mod svg;
mod text;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use terrace_table::error::SqlError;

use super::refusal::refused;

pub(super) use options::Options;
pub(super) use plan::ExplainExec;
pub use statement::ExplainStatement;
pub(super) use statement::{Explained, is_next, parse};

/// The schema of the result: one column of text.
pub(super) fn schema() -> SchemaRef {
    plan::schema()
}

/// The plan that EXPLAIN shows for a statement: for CREATE TABLE AS and CREATE VIEW that of their
/// query, else `plan` itself.
///
/// # Errors
/// [`SqlError::Refused`] for any other definition, and for ANALYZE of one.
pub(super) fn explainable(plan: LogicalPlan, analyze: bool) -> Result<LogicalPlan, SqlError> {
    let query = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            Arc::unwrap_or_clone(create.input)
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(create)) => Arc::unwrap_or_clone(create.input),
        LogicalPlan::Statement(LogicalStatement::Execute(_)) => return Ok(plan),
        LogicalPlan::Statement(other) => {
            return Err(refused(
                &format!("EXPLAIN of {}", other.name().to_uppercase()),
                "explain a query, a change of rows, or a CREATE TABLE AS",
            ));
        }
        LogicalPlan::Ddl(other) => {
            return Err(refused(
                &format!("EXPLAIN of {}", other.name()),
                "explain a query, a change of rows, or a CREATE TABLE AS",
            ));
        }
        plan => return Ok(plan),
    };
    match (analyze, &query) {
        (_, LogicalPlan::EmptyRelation(_)) => Err(refused(
            "EXPLAIN of a CREATE TABLE without a query",
            "explain a query, a change of rows, or a CREATE TABLE AS",
        )),
        (true, _) => Err(refused(
            "EXPLAIN ANALYZE of a definition",
            "say EXPLAIN, or EXPLAIN ANALYZE and its query",
        )),
        _ => Ok(query),
    }
}
