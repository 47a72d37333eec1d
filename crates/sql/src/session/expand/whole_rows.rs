//! Rows of a relation of FROM as values, which its name stands for.
//!
//! ```text
//! SELECT to_jsonb(t) FROM t          ->  SELECT jsonb_build_object('a', t.a, 'b', t.b) FROM t
//! SELECT count(t) FROM t             ->  SELECT count(named_struct('a', t.a, 'b', t.b)) FROM t
//! SELECT t IS NULL FROM t            ->  SELECT t.a IS NULL AND t.b IS NULL FROM t
//! SELECT e FROM unnest(l) AS e(x)    ->  SELECT e.x AS e FROM unnest(l) AS e(x)
//! ```
//! A column of FROM of that name is meant before a relation. The row of a function with one column
//! is the value of that column. The row that an outer join adds is null: it is told by its columns,
//! of which the condition of the join has one that is not null in all others.

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

/// Functions of a row, and those that make the same of its names and values.
const OBJECTS: [(&str, &str); 3] = [
    ("to_json", "json_object"),
    ("row_to_json", "json_object"),
    ("to_jsonb", "jsonb_build_object"),
];

/// The rows that an outer join adds to a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    None,
    /// All others have a column that is not null.
    Told,
    /// Others may have null in all columns, too.
    Untold,
}

/// The row of a relation.
struct Row {
    columns: Vec<String>,
    is_value: bool,
    added: Added,
}

/// True if a SELECT may use a row of its FROM.
pub(super) fn are_in(select: &mut Select) -> bool {
    let known: BTreeSet<String> = relations(&select.from).into_keys().collect();
    let is_use = |expr: &mut Expr| match expr {
        Expr::Identifier(name) if known.contains(&normal(name)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !known.is_empty() && walk_values(select, &mut OwnExprs::outermost_first(is_use)).is_break()
}

/// Replaces the rows that a SELECT over the columns uses.
///
/// # Errors
/// [`SqlError::Refused`] for a row that may be added by an outer join and cannot be told.
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

/// The relations of a FROM by their names: true for a function, and the rows that joins add.
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

/// True if a row of the joined relation has a column that is not null.
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

    /// The result of a function of the names and values of all columns.
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

    /// True if a condition holds for all columns.
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

    /// Returns the replacement of an expression; `None` if it has no row.
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

/// The function that makes an object of names and values, and the operand of a call that makes one
/// of a row.
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
