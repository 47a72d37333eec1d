//! Rewrites of joins that DataFusion's planner lacks.
//!
//! `SEMI JOIN` and `ANTI JOIN` are joins of the left side. A GLOBAL join, POSITIONAL or ASOF, is
//! put into parentheses with all tables on its left, for the planner of such relations.

use std::mem;

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

/// Rewrites the joins of a FROM item.
pub(super) fn write_out(table: &mut TableWithJoins) {
    for join in &mut table.joins {
        let none = || JoinConstraint::None;
        match &mut join.join_operator {
            JoinOperator::Semi(on) => {
                join.join_operator = JoinOperator::LeftSemi(mem::replace(on, none()));
            }
            JoinOperator::Anti(on) => {
                join.join_operator = JoinOperator::LeftAnti(mem::replace(on, none()));
            }
            _ => {}
        }
    }
    let is_special = |table: &TableWithJoins| table.joins.iter().position(|join| join.global);
    while let Some(place) = is_special(table) {
        let behind = table.joins.split_off(place + 1);
        let Some(special) = table.joins.pop() else { return };
        let before = mem::take(&mut table.joins);
        let empty = TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins {
                relation: special.relation.clone(),
                joins: vec![],
            }),
            alias: None,
        };
        let first = mem::replace(&mut table.relation, empty);
        let left = match before.is_empty() {
            true => first,
            false => nested(TableWithJoins { relation: first, joins: before }),
        };
        table.relation = nested(TableWithJoins { relation: left, joins: vec![special] });
        table.joins = behind;
    }
}

/// Rewrites the joins within parentheses, unless they are a single GLOBAL join, which is the result
/// of this rewrite.
pub(super) fn write_out_nested(factor: &mut TableFactor) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = factor
        && !matches!(table_with_joins.joins.as_slice(), [join] if join.global)
    {
        write_out(table_with_joins);
    }
}

fn nested(table: TableWithJoins) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None }
}
