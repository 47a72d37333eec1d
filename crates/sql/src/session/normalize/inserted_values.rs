//! VALUES within the query of an INSERT, which DataFusion would give the columns of the table.
//!
//! ```text
//! WITH v AS (VALUES (1, 2)) INSERT ...  ->  WITH v AS (SELECT * FROM (VALUES (1, 2)) AS "values")
//! ```
//! In FROM they have types of their own (`relations/values.rs`).

use std::mem;

use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableFactor};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;

const FROM: &str = "SELECT * FROM (SELECT 1) AS \"values\"";

/// Moves the VALUES of a query into a FROM.
///
/// # Errors
/// If the text of this module cannot be parsed.
pub(super) fn write_out(query: &mut Query) -> Result<(), SqlError> {
    let mut next = vec![query.body.as_mut()];
    while let Some(body) = next.pop() {
        match body {
            SetExpr::Values(values) if !values.value_keyword && !values.rows.is_empty() => {
                move_to_from(body)?;
            }
            SetExpr::SetOperation { left, right, .. } => next.extend([&mut **left, &mut **right]),
            _ => {}
        }
    }
    Ok(())
}

fn move_to_from(body: &mut SetExpr) -> Result<(), SqlError> {
    let mut outer = parsed_query(FROM)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        mem::swap(subquery.body.as_mut(), body);
    }
    *body = *outer.body;
    Ok(())
}
