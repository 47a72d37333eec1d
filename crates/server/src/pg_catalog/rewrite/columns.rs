//! Names of the columns of a result, as PostgreSQL gives them.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
};

use super::{folded, last, take};

/// Names the columns that have no name and are functions or casts, and tells columns of one text
/// apart.
pub(super) fn named(select: &mut Select) {
    let mut taken: HashSet<String> = HashSet::new();
    beside_all(select);
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let Some(name) = name_of(expr) else { continue };
                if taken.insert(name.clone()) {
                    if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                        continue;
                    }
                    *item = aliased(expr, name);
                } else {
                    let mut number = 2;
                    while !taken.insert(format!("{name}_{number}")) {
                        number += 1;
                    }
                    *item = aliased(expr, format!("{name}_{number}"));
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                taken.insert(folded(alias));
            }
            _ => {}
        }
    }
}

/// Gives a column beside `t.*` another name than it has there: `SELECT t.oid, t.*`.
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

/// The name that PostgreSQL gives to a column; none of one that DataFusion names as well.
fn name_of(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => folded(parts.last()?),
        Expr::Function(function) => {
            let name = last(&function.name);
            name.strip_suffix("_out").map(str::to_owned).unwrap_or(name)
        }
        Expr::Nested(inner) => return name_of(inner),
        Expr::Cast { expr, data_type, .. } => match name_of(expr) {
            Some(name) if name != UNNAMED => name,
            _ => data_type.to_string().to_lowercase(),
        },
        Expr::Case { else_result: Some(other), .. } => match name_of(other) {
            Some(name) if name != UNNAMED => name,
            _ => "case".to_owned(),
        },
        Expr::Case { .. } => "case".to_owned(),
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Subquery(query) => {
            let SetExpr::Select(select) = query.body.as_ref() else { return None };
            match select.projection.first()? {
                SelectItem::UnnamedExpr(expr) => return name_of(expr),
                SelectItem::ExprWithAlias { alias, .. } => folded(alias),
                _ => return None,
            }
        }
        _ => UNNAMED.to_owned(),
    })
}

/// The name of a column without one.
const UNNAMED: &str = "?column?";
