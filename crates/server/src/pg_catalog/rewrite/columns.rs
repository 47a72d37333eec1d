//! Gives result columns the names that PostgreSQL gives them.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind,
};

use super::names::{folded, last};
use super::tree::take;
use crate::pg_catalog::column_names::name_of;

/// Names columns without an alias, and makes repeated names unique.
pub(super) fn named(select: &mut Select) {
    let mut taken: HashSet<String> = HashSet::new();
    beside_all(select);
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = name_of(expr);
                if taken.insert(name.clone()) {
                    if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                        continue;
                    }
                    *item = aliased(expr, name);
                } else {
                    let name = free(&name, &mut taken);
                    *item = aliased(expr, name);
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = folded(alias);
                if !taken.insert(name.clone()) {
                    *alias = Ident::with_quote('"', free(&name, &mut taken));
                }
            }
            _ => {}
        }
    }
}

/// Returns `name` with the first number from 2 that makes it unique, and adds it to `taken`.
fn free(name: &str, taken: &mut HashSet<String>) -> String {
    let mut number = 2;
    while !taken.insert(format!("{name}_{number}")) {
        number += 1;
    }
    format!("{name}_{number}")
}

/// Renames a column that is selected next to `t.*`, which contains it: `SELECT t.oid, t.*`.
fn beside_all(select: &mut Select) {
    let of_all = |item: &SelectItem| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Some(last(name))
        }
        _ => None,
    };
    let all: HashSet<String> = select.projection.iter().filter_map(of_all).collect();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Expr::CompoundIdentifier(parts) = &*expr
            && let [table, column] = parts.as_slice()
            && all.contains(&folded(table))
        {
            let name = format!("{}_1", folded(column));
            *item = aliased(expr, name);
        }
    }
}

fn aliased(expr: &mut Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr: take(expr), alias: Ident::with_quote('"', name) }
}
