//! Rewrites casts to types of the catalog.
//!
//! `x::regclass` is the OID of the relation in comparisons and calculations, but its name in a
//! column of the result, and when it is cast further to a text.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CharacterLength, DataType, Expr, Ident, Select, SelectItem,
    SetExpr,
};
use terrace_sql::session::call;

use super::arrays;
use super::names::{self, folded, last};
use super::tree::{take, type_named};
use crate::pg_catalog::{definition, types};

/// Returns the functions that convert a value to the OID and to the name, for a type such as
/// `regclass`; `None` for a type that is not one of the catalog.
fn functions(data_type: &DataType) -> Option<(&'static str, &'static str)> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, _) => last(name),
        _ => return None,
    };
    Some(match name.as_str() {
        "regclass" => ("regclass", "regclass_out"),
        "regtype" => ("regtype", "regtype_out"),
        "regproc" | "regprocedure" => ("regproc", "regproc_out"),
        "regoper" | "regoperator" => ("regoper", "regoper_out"),
        "regnamespace" => ("regnamespace", "regnamespace_out"),
        "regrole" => ("regrole", "regrole_out"),
        _ => return None,
    })
}

/// True for a type of the catalog, such as `regclass` or `oid`: a statement with a cast to it
/// refers to the catalog.
pub(super) fn is_of_catalog(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => is_of_catalog(item),
        DataType::Custom(name, _) => {
            names::is_of_catalog(name) || last(name) == "oid" || functions(data_type).is_some()
        }
        _ => functions(data_type).is_some(),
    }
}

/// Returns the operand of a cast to a type of the catalog, and the type's two functions; looks
/// through parentheses around the cast.
fn operand(expr: &mut Expr) -> Option<(&mut Expr, &'static str, &'static str)> {
    match expr {
        Expr::Nested(inner) => operand(inner),
        Expr::Cast { expr, data_type, .. } => {
            let (oid, name) = functions(data_type)?;
            Some((expr, oid, name))
        }
        _ => None,
    }
}

/// Rewrites columns of a result that are casts to types of the catalog: the column has names in
/// place of OIDs.
pub(super) fn shown(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if let Some((inner, _, name)) = operand(expr) {
            *expr = call(name, [take(inner)]);
        } else if let Some(name) = to_name(expr) {
            *expr = name;
        }
    }
}

/// Rewrites the columns of a result that are catalog columns of type `regproc`: the result has the
/// functions' names in place of OIDs.
pub(super) fn functions_shown(body: &mut SetExpr) {
    let SetExpr::Select(select) = body else { return };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                if let Some(alias) = function_column(expr) {
                    let expr = call("regproc_out", [take(expr)]);
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } if function_column(expr).is_some() => {
                *expr = call("regproc_out", [take(expr)]);
            }
            _ => {}
        }
    }
}

/// Rewrites a cast of a catalog column of type `regproc` to a text: the text is the function's
/// name.
pub(super) fn function_as_text(expr: &mut Expr) {
    if let Expr::Cast { expr: inner, data_type, .. } = expr
        && is_text(data_type)
        && function_column(inner).is_some()
    {
        **inner = call("regproc_out", [take(inner)]);
    }
}

/// Returns the name of a catalog column of type `regproc`, such as `typreceive`; `None` for any
/// other expression.
fn function_column(expr: &Expr) -> Option<Ident> {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    definition::is_of_functions(&folded(name)).then(|| name.clone())
}

/// Converts `to_regclass('t')`, and the like, to an expression for the name in place of the OID;
/// `None` for any other expression.
fn to_name(expr: &mut Expr) -> Option<Expr> {
    let Expr::Function(function) = &*expr else { return None };
    let name = match last(&function.name).as_str() {
        "to_regclass" => "regclass_out",
        "to_regtype" => "regtype_out",
        "to_regproc" => "regproc_out",
        "to_regnamespace" => "regnamespace_out",
        "to_regrole" => "regrole_out",
        _ => return None,
    };
    Some(call(name, [take(expr)]))
}

/// Rewrites operands of a binary operator that are casts to types of the catalog: they become OIDs,
/// unless the operator is `||`.
pub(super) fn compared(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    if matches!(op, BinaryOperator::StringConcat) {
        return;
    }
    for side in [left, right] {
        if let Some((inner, oid, _)) = operand(side) {
            **side = call(oid, [take(inner)]);
        }
    }
}

/// Rewrites a cast to a type of the catalog, or a type that only PostgreSQL names so, to one that
/// DataFusion can plan.
pub(super) fn plain(expr: &mut Expr) {
    let Expr::Cast { expr: inner, data_type, .. } = &mut *expr else { return };
    if let Some((oid, _)) = functions(data_type) {
        let inner = take(inner);
        *expr = call(oid, [inner]);
        return;
    }
    if let Some(item) = listed(data_type)
        && let Some((_, name)) = functions(item)
        && name == "regtype_out"
    {
        // A list of types is shown as a list of their names.
        let inner = take(inner);
        *expr = call("regtypes_out", [inner]);
        return;
    }
    let target = of_postgres(data_type);
    if is_text(target.as_ref().unwrap_or(data_type))
        && let Some((shown, _, name)) = operand(inner)
    {
        **inner = call(name, [take(shown)]);
    }
    if let Some(target) = target {
        *data_type = target;
    }
    let is_list = listed(data_type).is_some();
    if is_list && let Some(array) = arrays::written(inner) {
        **inner = array;
    }
}

/// Returns the item type of a list type.
fn listed(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => Some(item),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_))
}

/// Converts the name of a PostgreSQL type to one that DataFusion knows; `None` if DataFusion knows
/// the type by the same name.
fn of_postgres(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, length)) => {
            let item = Box::new(of_postgres(item)?);
            Some(DataType::Array(ArrayElemTypeDef::SquareBracket(item, *length)))
        }
        // The type stays as it is, with its length.
        DataType::Varchar(Some(CharacterLength::IntegerLength { .. })) => None,
        DataType::Custom(name, _) => {
            let is_ours = name.0.len() == 1 || names::is_of_catalog(name);
            let of = types::by_name(&last(name)).filter(|_| is_ours)?;
            Some(match of.name {
                "oid" => DataType::IntUnsigned(None),
                "xid" | "cid" => DataType::BigInt(None),
                "name" | "char" | "cstring" | "bpchar" | "unknown" | "aclitem" | "inet"
                | "cidr" | "pg_node_tree" | "refcursor" | "json" | "jsonb" | "uuid" | "xml" => {
                    DataType::Text
                }
                name => type_named(name)?,
            })
        }
        _ => None,
    }
}
