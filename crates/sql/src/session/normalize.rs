//! Rewrites of parsed statements, so that DataFusion plans them with their intended meaning.
//!
//! - `FROM t` without SELECT returns all columns.
//! - Samples become filters or limits (`samples`), FETCH and shares of rows limits or conditions
//!   (`limits`), and joins of other databases parts of relations (`special_joins`).
//! - Changes of rows behind WITH get its queries (`with_changes`), and functions WITH ORDINALITY
//!   and joins with USING that have an alias become subqueries (`ordinality`, `aliased_joins`).
//! - VALUES within the query of an INSERT move into FROM (`inserted_values`), and
//!   `LATERAL unnest(l)` becomes `unnest(l)` (`lateral_unnest`).
//! - `x AT TIME ZONE z` becomes `timezone(z, x)`, which converts as PostgreSQL does.
//! - `'today'::date` becomes `current_date` (`day_names`).
//! - Constant patterns of `~` get the syntax of DataFusion's (`regex_operators`).
//! - `UPDATE t SET ... FROM u` becomes an UPDATE of `t CROSS JOIN u`.
//! - `DELETE ... USING u WHERE c` becomes a DELETE of rows for which a row of `u` satisfies `c`, if
//!   it returns no columns of `u`.
//! - Comparisons of rows become comparisons of their columns (`row_values`), memberships of rows in
//!   subqueries conditions with EXISTS (`row_subqueries`).
//! - `generate_series(1, r.a)` in FROM becomes `unnest` of a list (`column_series`).
//! - OVERLAPS becomes comparisons, and named arguments of `make_interval` get their places
//!   (`overlaps`).
//! - `x SIMILAR TO pattern` becomes a match with a regular expression (`similar_to`).
//! - `listagg(x, ',') WITHIN GROUP (ORDER BY y)` becomes `listagg(x, ',' ORDER BY y)`
//!   (`within_group`).
//! - Casts to JSON, and its aggregates and set-returning functions (`json_calls`), and functions of
//!   structs (`struct_calls`) become calls of scalar functions, `jsonb_to_recordset` a subquery of
//!   casts (`json_records`). Functions that split a text into rows become `unnest` of a list
//!   (`split_series`).
//! - Comparisons with the elements of a list, `x = ANY(l)`, become calls
//!   (`types/quantified.rs`).
//! - The cast in `nextval('s'::regclass)` is left out (`sequence_calls`).
//! - Literals of intervals with hours and minutes become casts (`types/literals.rs`).
//! - Positions within ROLLUP, CUBE and GROUPING SETS become expressions (`grouping_positions`).
//! - Positions in ORDER BY stand for expressions over groups (`order_positions`).
//! - Literals in VALUES take the types of their columns (`types/constants.rs`).
//! - Slices of lists (`slices`), named windows (`window_names`), and DuckDB's
//!   functions about the database (`metadata_functions`) are written out.
//! - `generate_series` in a select list returns rows (`select_series`), empty window frames get
//!   bounds that DataFusion accepts, and frames with distances become marks (`window_frames`).
//! - Columns that ORDER BY names as PostgreSQL does get these names (`order_names`).
//! - The column that marks AS MATERIALIZED becomes the flag of the syntax tree (`with_queries`),
//!   and clauses of a UNION in WITH RECURSIVE move into subqueries (`recursion`).
//! - A number with an exponent becomes double precision.
//! - Chains of AND, OR and UNION become balanced trees, so that the depth of the plan does not grow
//!   with their length.
//!
//! Statements that DataFusion would accept and plan as something else are refused: a JOIN without a
//! condition, an index, a lock of rows that are no rows of tables.

mod aliased_joins;
mod day_names;
mod inserted_values;
mod lateral_unnest;
mod ordinality;
mod overlaps;
mod regex_operators;
mod with_changes;
mod zone_calls;

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, Function, Join, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins,
    Update, UpdateTableFromKind, Value, ValueWithSpan, VisitorMut, WildcardAdditionalOptions,
};
use terrace_table::error::SqlError;

use super::balance::{balance_chain, balance_unions};
use super::dialect::{double, parsed_query};
use super::join_constraint::constraint;
use super::refusal::refused;
use super::walk::Walk;
use super::{
    column_series, grouping_positions, grouping_repeats, json_calls, json_records, limits,
    metadata_functions, order_by_all, order_names, order_positions, recursion, row_locks,
    row_subqueries, row_values, samples, select_series, sequence_calls, similar_to, slices,
    special_joins, split_series, struct_calls, types, window_frames, window_names, with_queries,
    within_group,
};

use with_changes::Places;
pub(super) use with_changes::{Place, has_changes, is_change, write_out as move_with};

/// Maximum number of columns of a SELECT. Planning time grows faster than their number, and the
/// planning of one SELECT cannot be cancelled before the rules run.
const COLUMNS_MAX: usize = 10_000;

/// Maximum number of relations of a FROM. Planning time grows with more than the third power of
/// their number: a chain of joins takes 3 s of processor time for 200 tables, 12 s for 300, and
/// 32 s for 400.
const RELATIONS_MAX: usize = 400;

/// Normalizes a statement, and returns its nesting depth after that. `place` says where the first
/// query stands, which decides whether its WITH may change rows.
///
/// # Errors
/// [`SqlError::Refused`] for a statement that DataFusion would plan as something else.
pub(super) fn normalize(statement: &mut Statement, place: Place) -> Result<usize, SqlError> {
    let mut normalizer = Normalizer { places: Places::from(place), ..Normalizer::default() };
    let _ = statement.walk(&mut normalizer);
    match normalizer.error {
        None => Ok(normalizer.depth_max),
        Some(error) => Err(error),
    }
}

#[derive(Default)]
struct Normalizer {
    depth: usize,
    depth_max: usize,
    /// True before the query of an INSERT, whose values have the types of the table.
    is_inserted: bool,
    /// For each query around, true for that of an INSERT itself.
    inserted: Vec<bool>,
    /// The places where changes of rows may be queries.
    places: Places,
    /// The error that ended the walk.
    error: Option<SqlError>,
}

impl Normalizer {
    fn enter(&mut self, levels: usize) {
        self.depth += levels;
        self.depth_max = self.depth_max.max(self.depth);
    }

    /// Continues the walk, or ends it with an error.
    fn goes_on(&mut self, result: Result<(), SqlError>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Normalizer {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        if let Err(error) = with_changes::write_out(statement) {
            return self.goes_on(Err(error));
        }
        self.is_inserted |= matches!(statement, SqlStatement::Insert(_));
        self.goes_on(match statement {
            SqlStatement::CreateIndex(_) => Err(refused(
                "CREATE INDEX",
                "leave it out: scans skip chunks by the minimum and maximum of their columns",
            )),
            SqlStatement::Delete(delete) => {
                write_out_condition(delete.selection.as_mut()).and_then(|()| delete_using(delete))
            }
            SqlStatement::Update(update) => {
                join_updated(update);
                write_out_condition(update.selection.as_mut())
            }
            SqlStatement::Install { .. } | SqlStatement::Load { .. } => Err(refused(
                &statement.to_string(),
                "leave it out: there are no extensions, and CSV, Parquet and JSON are built in",
            )),
            _ => Ok(()),
        })
    }

    /// Clears the flag that an INSERT sets for its query: one of default values has no query.
    fn post_visit_statement(&mut self, _: &mut SqlStatement) -> ControlFlow<()> {
        self.is_inserted = false;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_own = mem::take(&mut self.is_inserted);
        self.inserted.push(is_own);
        // VALUES in parentheses are those of the INSERT as well.
        self.is_inserted =
            is_own && query.with.is_none() && matches!(*query.body, SetExpr::Query(_));
        if !is_own {
            types::write_out_values(&mut query.body);
        }
        with_queries::read_columns(query);
        let written = self
            .places
            .check(query)
            .and_then(|()| row_locks::check(query))
            .and_then(|()| recursion::write_out(query))
            .and_then(|()| window_names::write_out(query));
        if let Err(error) = written {
            return self.goes_on(Err(error));
        }
        balance_unions(&mut query.body);
        self.enter(1 + set_operations_deep(&query.body));
        order_by_all::write_out(query);
        order_positions::write_out(query);
        order_names::write_out(query);
        grouping_repeats::distinct_on(query);
        self.goes_on(limits::write_out(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1 + set_operations_deep(&query.body);
        let is_own = self.inserted.pop().unwrap_or_default();
        let written = match !is_own && self.inserted.contains(&true) {
            true => inserted_values::write_out(query),
            false => Ok(()),
        };
        self.goes_on(written)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            let all = WildcardAdditionalOptions::default();
            select.projection = vec![SelectItem::Wildcard(all)];
        }
        if select.projection.len() > COLUMNS_MAX {
            let what = format!("a SELECT of {} columns", select.projection.len());
            return self
                .goes_on(Err(refused(&what, &format!("at most {COLUMNS_MAX} are possible"))));
        }
        let relations: usize = select.from.iter().map(relations_of).sum();
        if relations > RELATIONS_MAX {
            let what = format!("a FROM of {relations} relations");
            let instead = format!("at most {RELATIONS_MAX} are possible: join some into a table");
            return self.goes_on(Err(refused(&what, &instead)));
        }
        select_series::write_out(select);
        json_calls::name_columns(select);
        split_series::name_columns(select);
        types::name_columns(select);
        let sampled = samples::share_out(select);
        let mut joins = select.from.iter().flat_map(|from| &from.joins);
        let joined = joins.try_for_each(|join| refuse_join(&join.join_operator));
        select.from.iter_mut().for_each(special_joins::write_out);
        let joined = sampled.and(joined);
        let joined = joined.and_then(|()| window_names::write_out_select(select));
        let joined = joined.and_then(|()| window_frames::write_out_named(select));
        let joined = joined.and_then(|()| grouping_positions::write_out(select));
        let joined = joined.and_then(|()| grouping_repeats::write_out(select));
        self.goes_on(joined.and_then(|()| write_out_condition(select.selection.as_mut())))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        lateral_unnest::write_out(table);
        let written = ordinality::write_out(table).and_then(|()| aliased_joins::write_out(table));
        if let Err(error) = written {
            return self.goes_on(Err(error));
        }
        column_series::write_out(table);
        let described = metadata_functions::write_out(table);
        json_calls::write_out_table(table);
        split_series::write_out_table(table);
        let described = described.and_then(|()| json_records::write_out(table));
        special_joins::write_out_nested(table);
        self.goes_on(described.and_then(|()| samples::write_out(table)))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The walk visits the rewritten expression next, which measures its depth.
        slices::write_out(expr);
        types::write_out(expr);
        split_series::write_out(expr);
        let written = overlaps::write_out(expr)
            .and_then(|()| row_values::write_out(expr))
            .and_then(|()| row_subqueries::write_out(expr))
            .and_then(|()| similar_to::write_out(expr))
            .and_then(|()| within_group::write_out(expr))
            .and_then(|()| window_frames::write_out(expr))
            .and_then(|()| json_calls::write_out(expr))
            .and_then(|()| struct_calls::write_out(expr));
        if let Expr::Function(function) = expr {
            sequence_calls::without_cast(function);
            rename_count(function);
            overlaps::place_arguments(function);
        }
        balance_chain(expr);
        self.enter(1);
        self.goes_on(written)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= 1;
        if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = expr {
            // `1_000`; the tokenizer allows one between digits.
            digits.retain(|letter| letter != '_');
        }
        if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = expr
            && digits.contains(['e', 'E'])
        {
            let digits = Value::SingleQuotedString(mem::take(digits));
            *expr = double(Expr::Value(digits.into()));
        }
        day_names::write_out(expr);
        regex_operators::write_out(expr);
        zone_calls::write_out(expr);
        ControlFlow::Continue(())
    }
}

/// Rewrites `count_star()`, which DuckDB writes into the views of an export, as `count()`.
fn rename_count(function: &mut Function) {
    if let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice()
        && name.value.eq_ignore_ascii_case("count_star")
    {
        "count".clone_into(&mut name.value);
    }
}

/// The number of relations that are joined.
fn relations_of(joined: &TableWithJoins) -> usize {
    let relations = joined.joins.iter().map(|join| &join.relation).chain([&joined.relation]);
    let count = |relation: &TableFactor| match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => relations_of(table_with_joins),
        _ => 1,
    };
    relations.map(count).sum()
}

/// Refuses a join without a condition that is not a CROSS JOIN.
fn refuse_join(operator: &JoinOperator) -> Result<(), SqlError> {
    let is_cross = matches!(operator, JoinOperator::CrossJoin(_));
    match constraint(operator) {
        Some(JoinConstraint::None) if !is_cross => Err(refused(
            "a JOIN without a condition",
            "give it ON or USING, or say CROSS JOIN for all pairs of rows",
        )),
        _ => Ok(()),
    }
}

/// Rewrites `UPDATE t SET ... FROM u` as an UPDATE of the first table of `t CROSS JOIN u`.
fn join_updated(update: &mut Update) {
    let Some(from) = update.from.take() else { return };
    let (UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) = from;
    let joins = tables.into_iter().map(|table| Join {
        relation: match table.joins.is_empty() {
            true => table.relation,
            false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
        },
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    });
    update.table.joins.extend(joins);
}

/// Rewrites `DELETE FROM t USING u WHERE c` as `DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE
/// c)`, unless it has RETURNING, which can name columns of `u`.
fn delete_using(delete: &mut Delete) -> Result<(), SqlError> {
    if delete.returning.is_some() {
        return Ok(());
    }
    let Some(using) = delete.using.take() else { return Ok(()) };
    let mut query = parsed_query("SELECT 1 FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = using;
        select.selection = delete.selection.take();
    }
    delete.selection = Some(Expr::Exists { subquery: Box::new(query), negated: false });
    Ok(())
}

/// Rewrites the memberships of rows in the condition of a WHERE.
fn write_out_condition(condition: Option<&mut Expr>) -> Result<(), SqlError> {
    condition.map_or(Ok(()), row_subqueries::write_out_condition)
}

/// Nesting depth of set operations on the left.
fn set_operations_deep(body: &SetExpr) -> usize {
    let mut depth = 0;
    let mut next = body;
    while let SetExpr::SetOperation { left, .. } = next {
        depth += 1;
        next = left;
    }
    depth
}
