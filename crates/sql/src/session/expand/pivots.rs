//! Values of the keys of a PIVOT that lists none, read from the table before planning.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    PivotValueSource, Query, SelectItem, SetExpr, TableFactor, TableWithJoins, UnaryOperator,
    Value,
};
use terrace_governor::pins::Reader;
use terrace_table::error::SqlError;

use super::super::client_text::bounded;
use super::super::dialect::{call, parsed_query};
use super::super::refusal::refused;
use super::super::relations::{PIVOT_COLUMNS_MAX, text_of};
use super::super::spelling::{ON, VALUE};
use super::super::state::{Planned, Session};
use super::planned::planned;
use crate::access::Rights;

/// The values of a key.
pub(super) struct Values {
    /// True if the key is to be cast to text, because its type has no literals.
    is_text: bool,
    /// Each value as a literal, and the text that names its column.
    values: Vec<(Expr, String)>,
}

/// The query that reads the values of the first key without any; `None` if there is no such key.
pub(super) fn question(table: &mut TableFactor) -> Result<Option<Query>, SqlError> {
    let Some(key) = open_key(table).map(|key| key.clone()) else { return Ok(None) };
    let TableFactor::Pivot { table, .. } = table else { return Ok(None) };
    let limit = PIVOT_COLUMNS_MAX + 1;
    let mut query = parsed_query(&format!(
        "SELECT DISTINCT \"key\" FROM t WHERE \"key\" IS NOT NULL ORDER BY 1 LIMIT {limit}"
    ))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let alias = Ident::with_quote('"', "key");
        select.projection = vec![SelectItem::ExprWithAlias { expr: key.clone(), alias }];
        select.selection = Some(Expr::IsNotNull(Box::new(Expr::Nested(Box::new(key)))));
        select.from = vec![TableWithJoins { relation: table.as_ref().clone(), joins: vec![] }];
    }
    Ok(Some(query))
}

/// Adds the values to the first key without any.
pub(super) fn answer(table: &mut TableFactor, values: Values) {
    if values.is_text
        && let Some(key) = open_key(table)
    {
        *key = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(key.clone()),
            data_type: SqlType::Varchar(None),
            array: false,
            format: None,
        };
    }
    let Some(arguments) = open_arguments(table) else { return };
    let text = |name| Expr::Value(Value::SingleQuotedString(name).into());
    let mut values: Vec<_> =
        values.values.into_iter().map(|(value, name)| call(VALUE, [value, text(name)])).collect();
    if values.is_empty() {
        values.push(call(VALUE, []));
    }
    arguments
        .extend(values.into_iter().map(|value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value))));
}

/// The expression of the first key without values.
fn open_key(table: &mut TableFactor) -> Option<&mut Expr> {
    match open_arguments(table)?.first_mut() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(key))) => Some(key),
        _ => None,
    }
}

/// The arguments of the first key without values.
fn open_arguments(table: &mut TableFactor) -> Option<&mut Vec<FunctionArg>> {
    let TableFactor::Pivot { value_source: PivotValueSource::Subquery(query), .. } = table else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let Some(SelectItem::UnnamedExpr(Expr::Function(keys))) = select.projection.first_mut() else {
        return None;
    };
    let FunctionArguments::List(keys) = &mut keys.args else { return None };
    keys.args.iter_mut().find_map(|key| match key {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(key))) => {
            let is_key = key.name.0.first()?.as_ident()?.value == ON;
            match &mut key.args {
                FunctionArguments::List(list) if is_key && list.args.len() == 1 => {
                    Some(&mut list.args)
                }
                _ => None,
            }
        }
        _ => None,
    })
}

/// Reads the values of a key by running `query`, in the transaction of the statement.
///
/// # Errors
/// Errors of the query; [`SqlError::Refused`] for more values than columns are possible.
pub(super) async fn values(
    session: &Session,
    state: &SessionState,
    rights: &Rights<'_>,
    query: Query,
) -> Result<Values, SqlError> {
    let text = query.to_string();
    let plan = planned(state, rights, query).await?;
    let physical = |reader: Arc<Reader>| async move {
        let mut state = state.clone();
        state.config_mut().set_extension(reader);
        let plan = state.create_physical_plan(&plan).await?;
        Ok(Planned { plan, watched: None })
    };
    let rows = session.start(&text, bounded(&text), session.scope(), false, physical).await?;
    let mut found = Values { is_text: false, values: Vec::new() };
    for batch in rows.collect().await?.batches {
        for row in 0..batch.num_rows() {
            let value = ScalarValue::try_from_array(batch.column(0), row)?;
            let text = text_of(&value)?;
            found.is_text = !has_literals(&value.data_type());
            let literal = if found.is_text { quoted(&text) } else { literal(&value, &text) };
            found.values.push((literal, text));
        }
    }
    if found.values.len() > PIVOT_COLUMNS_MAX {
        return Err(refused(
            &format!("a PIVOT on a column of more than {PIVOT_COLUMNS_MAX} values"),
            "name the values that become columns: ON column IN (...)",
        ));
    }
    Ok(found)
}

/// True for a type whose values can be written as literals. Values of other types are compared by
/// their text.
fn has_literals(kind: &DataType) -> bool {
    kind.is_string() || kind.is_integer() || *kind == DataType::Boolean
}

/// The literal of a value, for a type with literals.
fn literal(value: &ScalarValue, text: &str) -> Expr {
    let kind = value.data_type();
    if kind.is_string() {
        return quoted(text);
    }
    if kind == DataType::Boolean {
        return Expr::Value(Value::Boolean(text == "true").into());
    }
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).into());
    match text.strip_prefix('-') {
        Some(digits) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(digits)) },
        None => number(text),
    }
}

fn quoted(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}
