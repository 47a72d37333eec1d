//! WITHIN GROUP of functions that are no ordered-set aggregates.
//!
//! `listagg(x, ',') WITHIN GROUP (ORDER BY y)` becomes `listagg(x, ',' ORDER BY y)`. The
//! hypothetical-set aggregates, as in `rank(3) WITHIN GROUP (ORDER BY x)`, are refused.

use std::mem;

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArgumentClause, FunctionArguments};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Functions whose WITHIN GROUP is their ORDER BY.
const ORDERED: [&str; 3] = ["listagg", "string_agg", "group_concat"];
/// Hypothetical-set aggregates.
const HYPOTHETICAL: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Rewrites a call with WITHIN GROUP.
///
/// # Errors
/// [`SqlError::Refused`] for a hypothetical-set aggregate.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::Function(function) = expr else { return Ok(()) };
    if function.within_group.is_empty() {
        return Ok(());
    }
    let is = |name: &&str| is_named(function, name);
    if let Some(name) = HYPOTHETICAL.iter().find(|name| is(name)) {
        return Err(refused(
            &format!("{name}(...) WITHIN GROUP"),
            "count the rows that come before the value, as in count(*) FILTER (WHERE x < 3) + 1",
        ));
    }
    if ORDERED.iter().any(is) && function.over.is_none() {
        let keys = mem::take(&mut function.within_group);
        if let FunctionArguments::List(list) = &mut function.args {
            list.clauses.push(FunctionArgumentClause::OrderBy(keys));
        }
    }
    Ok(())
}

fn is_named(function: &Function, name: &str) -> bool {
    let [part] = function.name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(name))
}
