//! Joins with USING or NATURAL that have an alias together: relations with each common column once.
//!
//! ```text
//! (t JOIN u USING (k)) AS j(x, y, z)  ->  (SELECT * FROM t JOIN u USING (k)) AS j(x, y, z)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, SetExpr, TableFactor, TableWithJoins};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;
use super::super::join_constraint::constraint;

/// Makes a join with an alias a subquery; leaves any other relation unchanged.
///
/// # Errors
/// If the text of this module cannot be parsed.
pub(super) fn write_out(table: &mut TableFactor) -> Result<(), SqlError> {
    let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = table else {
        return Ok(());
    };
    if !merges_columns(table_with_joins) {
        return Ok(());
    }
    let mut subquery = parsed_query("SELECT * FROM t")?;
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        mem::swap(from, table_with_joins.as_mut());
    }
    let (subquery, alias) = (Box::new(subquery), alias.take());
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

/// True if a join, which is not GLOBAL, has USING or is NATURAL.
fn merges_columns(joined: &TableWithJoins) -> bool {
    let merges = |join: &Join| {
        let constraint = constraint(&join.join_operator);
        let merges = matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural));
        merges && !join.global
    };
    joined.joins.iter().any(merges)
}
