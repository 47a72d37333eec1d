//! Whole-row references: the name of a relation of FROM as an expression, whose value is the row.
//!
//! ```text
//! SELECT to_jsonb(t) FROM t          ->  SELECT jsonb_build_object('a', t.a, 'b', t.b) FROM t
//! SELECT count(t) FROM t             ->  SELECT count(named_struct('a', t.a, 'b', t.b)) FROM t
//! SELECT t IS NULL FROM t            ->  SELECT t.a IS NULL AND t.b IS NULL FROM t
//! SELECT e FROM unnest(l) AS e(x)    ->  SELECT e.x AS e FROM unnest(l) AS e(x)
//! ```
//! A column of FROM takes precedence over a relation of the same name. The row of a table function
//! with one column is the value of that column. For an unmatched row of an outer join, the value is
//! NULL. Such a row is recognized by its columns, which are all null; in a matched row, the column
//! that the join condition compares is not. A reference is refused if no column is so compared.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, Join, JoinConstraint, JoinOperator, Select, SelectItem, TableFactor, TableWithJoins,
    Value,
};
use terrace_table::error::SqlError;

use super::super::dialect::call;
use super::super::join_constraint::constraint;
use super::super::refusal::refused;
use super::super::row_values::joined;
use super::super::walk::{OwnExprs, walk_values};
use super::stars::Column;
use super::struct_stars::{names, normal};

/// Functions of a row, and the functions that build the same result from column names and values.
const OBJECTS: [(&str, &str); 3] = [
    ("to_json", "json_object"),
    ("row_to_json", "json_object"),
    ("to_jsonb", "jsonb_build_object"),
];

/// The rows of nulls that an outer join adds to a relation for unmatched rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    None,
    /// They can be told apart: every other row has a column that is not null.
    Told,
    /// They cannot be told apart: other rows may have null in all columns, too.
    Untold,
}

/// The row of a relation.
struct Row {
    columns: Vec<String>,
    /// True if the row stands for the value of its only column.
    is_value: bool,
    added: Added,
}

/// True if a SELECT may have a whole-row reference to a relation of its FROM.
pub(super) fn are_in(select: &mut Select) -> bool {
    let known: BTreeSet<String> = relations(&select.from).into_keys().collect();
    let is_use = |expr: &mut Expr| match expr {
        Expr::Identifier(name) if known.contains(&normal(name)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !known.is_empty() && walk_values(select, &mut OwnExprs::outermost_first(is_use)).is_break()
}

/// Replaces the whole-row references in a SELECT. `columns` are those of its FROM.
///
/// # Errors
/// [`SqlError::Refused`] for a relation with unmatched rows that cannot be told apart.
pub(super) fn write_out(select: &mut Select, columns: &[Column]) -> Result<(), SqlError> {
    let is_column = |name: &str| columns.iter().any(|column| column.name == name);
    let mut rows = HashMap::new();
    for (name, (is_function, added)) in relations(&select.from) {
        let is_own = |it: &&Column| it.table.as_ref().is_some_and(|table| table.table() == name);
        let own: Vec<_> = columns.iter().filter(is_own).map(|it| it.name.clone()).collect();
        if !own.is_empty() && !is_column(&name) {
            let is_value = is_function && own.len() == 1;
            rows.insert(name, Row { columns: own, is_value, added });
        }
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && rows.contains_key(&normal(name))
        {
            let (expr, alias) = (Expr::Identifier(name.clone()), name.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let rows = Rows(rows);
    let mut refused = None;
    let write = |expr: &mut Expr| match rows.written(expr) {
        Ok(written) => {
            if let Some(written) = written {
                *expr = written;
            }
            ControlFlow::Continue(())
        }
        Err(error) => {
            refused = Some(error);
            ControlFlow::Break(())
        }
    };
    let _ = walk_values(select, &mut OwnExprs::outermost_first(write));
    refused.map_or(Ok(()), Err)
}

/// The relations of a FROM by name: each with true for a table function, and the rows that outer
/// joins add to it.
fn relations(from: &[TableWithJoins]) -> HashMap<String, (bool, Added)> {
    let mut all = HashMap::new();
    for joined in from {
        let mut known = vec![(&joined.relation, Added::None)];
        for join in &joined.joins {
            let added = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) if is_told(join) => Added::Told,
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Added::Untold,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => {
                    known.iter_mut().for_each(|(_, added)| *added = Added::Untold);
                    Added::None
                }
                JoinOperator::FullOuter(_) => {
                    known.iter_mut().for_each(|(_, added)| *added = Added::Untold);
                    Added::Untold
                }
                _ => Added::None,
            };
            known.push((&join.relation, added));
        }
        for (relation, added) in known {
            let is_function = match relation {
                TableFactor::Table { args, .. } => args.is_some(),
                TableFactor::Function { .. } | TableFactor::UNNEST { .. } => true,
                TableFactor::Derived { .. } => false,
                _ => continue,
            };
            all.extend(names(relation).into_iter().map(|name| (name, (is_function, added))));
        }
    }
    all
}

/// True if every matched row of the joined relation has a column that is not null, because the join
/// compares it for equality.
fn is_told(join: &Join) -> bool {
    let names = names(&join.relation);
    let Some(name) = names.first() else { return false };
    match constraint(&join.join_operator) {
        Some(JoinConstraint::On(condition)) => has_key(condition, name),
        Some(JoinConstraint::Using(_) | JoinConstraint::Natural) => true,
        _ => false,
    }
}

/// True if a condition compares a column of a relation for equality.
fn has_key(condition: &Expr, relation: &str) -> bool {
    let is_own = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => {
            parts.len() > 1 && normal(&parts[parts.len() - 2]) == relation
        }
        _ => false,
    };
    match condition {
        Expr::Nested(inner) => has_key(inner, relation),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            has_key(left, relation) || has_key(right, relation)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => is_own(left) || is_own(right),
        _ => false,
    }
}

fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

impl Row {
    fn field(name: &str, column: &str) -> Expr {
        let quoted = |name: &str| Ident::with_quote('"', name);
        Expr::CompoundIdentifier(vec![quoted(name), quoted(column)])
    }

    /// A call of `function` with the names and values of all columns, or NULL for an unmatched row
    /// of an outer join. `name` is that of the relation.
    fn made(&self, name: &str, function: &str) -> Result<Expr, SqlError> {
        let pairs = self.columns.iter().flat_map(|it| [text(it), Self::field(name, it)]);
        let made = call(function, pairs);
        match self.added {
            Added::None => Ok(made),
            Added::Told => Ok(Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen {
                    condition: self.all(name, |field| Expr::IsNull(Box::new(field))),
                    result: Expr::Value(Value::Null.into()),
                }],
                else_result: Some(Box::new(made)),
            }),
            Added::Untold => Err(refused(
                &format!("a row of {name}, which an outer join may add"),
                &format!("name its columns, as in {name}.{}", self.columns[0]),
            )),
        }
    }

    /// The conjunction of `condition` for all columns.
    fn all(&self, name: &str, condition: impl Fn(Expr) -> Expr) -> Expr {
        let each = self.columns.iter().map(|column| condition(Self::field(name, column)));
        joined(each.collect(), &BinaryOperator::And)
    }
}

/// The rows of relations by their names.
struct Rows(HashMap<String, Row>);

impl Rows {
    fn row(&self, expr: &Expr) -> Option<(String, &Row)> {
        let Expr::Identifier(name) = expr else { return None };
        let name = normal(name);
        let row = self.0.get(&name)?;
        Some((name, row))
    }

    /// Returns the replacement of an expression; `None` if it is no whole-row reference, test for
    /// NULL of one, or call of one of [`OBJECTS`] with one.
    fn written(&self, expr: &Expr) -> Result<Option<Expr>, SqlError> {
        let is_null = |field| Expr::IsNull(Box::new(field));
        let is_not_null = |field| Expr::IsNotNull(Box::new(field));
        match expr {
            Expr::IsNull(operand) => {
                Ok(self.row(operand).map(|(name, row)| row.all(&name, is_null)))
            }
            Expr::IsNotNull(operand) => {
                Ok(self.row(operand).map(|(name, row)| row.all(&name, is_not_null)))
            }
            Expr::Function(function) => {
                let found = object(function).and_then(|(object, operand)| {
                    let (name, row) = self.row(operand)?;
                    (!row.is_value).then(|| row.made(&name, object))
                });
                found.transpose()
            }
            expr => match self.row(expr) {
                Some((name, row)) if row.is_value => Ok(Some(Row::field(&name, &row.columns[0]))),
                Some((name, row)) => row.made(&name, "named_struct").map(Some),
                None => Ok(None),
            },
        }
    }
}

/// For a call of one of [`OBJECTS`], the function of names and values, and the operand of the call;
/// `None` for any other call.
fn object(function: &Function) -> Option<(&'static str, &Expr)> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = &name.as_ident()?.value;
    let (_, object) = OBJECTS.iter().find(|(of_row, _)| of_row.eq_ignore_ascii_case(name))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] => Some((*object, operand)),
        _ => None,
    }
}
