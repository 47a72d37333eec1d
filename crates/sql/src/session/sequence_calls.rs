//! Calls of functions over sequences in expressions: `nextval('s')`.
//!
//! A default names its sequence with the schema, so that it does not depend on the search path of
//! the session that inserts.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnOption, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Value, ValueWithSpan, VisitorMut,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::column_options::text_of;
use super::dialect::parsed_expr;
use super::refusal::refused;
use super::sql_type::identifier;
use super::walk::Walk;
use crate::names::{is_temporary, resolve};

/// The functions whose first argument is a sequence.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// Replaces a cast of the first argument to `regclass` by its operand: `nextval('s'::regclass)`.
pub(super) fn without_cast(function: &mut Function) {
    let Some(argument) = first(function) else { return };
    if let Expr::Cast { expr, data_type, .. } = argument
        && data_type.to_string().to_ascii_lowercase().ends_with("regclass")
    {
        let inner = std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
        *argument = inner;
    }
}

/// The first argument of a call of one of the functions.
fn first(function: &mut Function) -> Option<&mut Expr> {
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    let FunctionArguments::List(list) = &mut function.args else { return None };
    if !FUNCTIONS.contains(&name.as_str()) {
        return None;
    }
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Visits the names of sequences in an expression.
struct Names<F: FnMut(&mut String)>(F);

impl<F: FnMut(&mut String)> VisitorMut for Names<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            without_cast(function);
            if let Some(Expr::Value(ValueWithSpan {
                value: Value::SingleQuotedString(name), ..
            })) = first(function)
            {
                (self.0)(name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the names of the sequences in the calls of these functions in a node.
pub(super) fn named(node: &mut dyn Walk) -> Vec<String> {
    let mut found = Vec::new();
    let _ = node.walk(&mut Names(|name: &mut String| found.push(name.clone())));
    found
}

/// Replaces the schema `from` by `to` in the names of sequences in the calls of these functions in
/// a node. A name with a catalog is not changed.
pub(super) fn rename_schema(node: &mut dyn Walk, from: &str, to: &str) {
    let rename = |name: &mut String| {
        if let TableReference::Partial { schema, table } = TableReference::parse_str(name)
            && schema.as_ref() == from
        {
            *name = quoted(to, &table);
        }
    };
    let _ = node.walk(&mut Names(rename));
}

/// True if a text contains the name of one of these functions.
pub(super) fn may_call(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    FUNCTIONS.iter().any(|name| text.contains(name))
}

/// Returns the text of a default of a table in the schema `home`, with the full names of its
/// sequences.
///
/// # Errors
/// [`SqlError::Missing`] for a sequence that does not exist; [`SqlError::Refused`] for a temporary
/// one, unless the table is temporary too; errors of the text.
pub(super) fn qualified(
    state: &SessionState,
    snapshot: &Snapshot,
    home: &str,
    text: &str,
) -> Result<String, SqlError> {
    if !may_call(text) {
        return Ok(text.to_owned());
    }
    let mut expr = parsed_expr(text)?;
    let (mut missing, mut outlived) = (None, None);
    let qualify = |name: &mut String| {
        let reference = TableReference::parse_str(name);
        let full = resolve(state.config_options(), snapshot, reference);
        match snapshot.sequence(&full.schema, &full.table) {
            Some(sequence) => {
                if is_temporary(sequence.schema_name()) && !is_temporary(home) {
                    outlived = Some(sequence.name().to_owned());
                }
                *name = quoted(sequence.schema_name(), sequence.name());
            }
            None => missing = Some(format!("{}.{}", full.schema, full.table)),
        }
    };
    let _ = expr.walk(&mut Names(qualify));
    match (missing, outlived) {
        (None, None) => Ok(expr.to_string()),
        (Some(name), _) => Err(SqlError::Missing { name }),
        (None, Some(name)) => Err(refused(
            &format!("the temporary sequence {name} in a default of a table that outlives it"),
            "make the table temporary too, or say CREATE SEQUENCE",
        )),
    }
}

/// Returns the actions of an ALTER TABLE of a table in the schema `home`, with the full names of
/// the sequences in their defaults.
///
/// # Errors
/// As [`qualified`].
pub(super) fn in_operations(
    state: &SessionState,
    snapshot: &Snapshot,
    home: &str,
    operations: &[AlterTableOperation],
) -> Result<Vec<AlterTableOperation>, SqlError> {
    let mut operations = operations.to_vec();
    let qualify = |value: &mut Expr| -> Result<(), SqlError> {
        let text = text_of(value);
        if may_call(&text) {
            *value = parsed_expr(&qualified(state, snapshot, home, &text)?)?;
        }
        Ok(())
    };
    for operation in &mut operations {
        match operation {
            AlterTableOperation::AlterColumn {
                op: AlterColumnOperation::SetDefault { value },
                ..
            } => qualify(value)?,
            AlterTableOperation::AddColumn { column_def, .. } => {
                for option in &mut column_def.options {
                    if let ColumnOption::Default(value) = &mut option.option {
                        qualify(value)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(operations)
}

/// Returns the call that takes the next number of a sequence.
pub(super) fn next_of(schema: &str, name: &str) -> String {
    format!("nextval('{}')", quoted(schema, name).replace('\'', "''"))
}

fn quoted(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// Returns the table and the column whose default uses a sequence.
///
/// # Errors
/// Errors of the texts of defaults.
pub(super) fn user_of(
    snapshot: &Snapshot,
    schema: &str,
    name: &str,
) -> Result<Option<(String, String)>, SqlError> {
    let full = quoted(schema, name);
    for schema in snapshot.schemas() {
        for table in snapshot.table_names(&schema) {
            let Some((table, _)) = snapshot.table(&schema, &table) else { continue };
            for (column, properties) in &table.properties().columns {
                let Some(text) = properties.default.as_deref().filter(|text| may_call(text)) else {
                    continue;
                };
                let mut is_user = false;
                let note = |name: &mut String| is_user |= *name == full;
                let _ = parsed_expr(text)?.walk(&mut Names(note));
                if is_user {
                    return Ok(Some((table.full_name(), column.clone())));
                }
            }
        }
    }
    Ok(None)
}
