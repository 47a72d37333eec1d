//! The syntax of a RETURNING clause, taken from a statement before DataFusion plans it.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    FromTable, Ident, OutputClause, SelectItem, Statement as SqlStatement, TableFactor,
};

/// A RETURNING clause, as written.
pub(super) struct Clause {
    pub(super) items: Vec<SelectItem>,
    /// Name that the statement gives the table.
    pub(super) alias: Option<Ident>,
    /// True for a MERGE, which has `merge_action()` and returns the columns of its source first.
    pub(super) is_merge: bool,
}

/// Removes the RETURNING clause from a statement, which DataFusion would refuse, and returns it.
pub(super) fn take(statement: &mut Statement) -> Option<Clause> {
    match statement {
        Statement::Statement(statement) => take_sql(statement),
        // The plan of the change is the same without it.
        Statement::Explain(explain) => {
            drop(take(&mut explain.statement));
            None
        }
        _ => None,
    }
}

fn take_sql(statement: &mut SqlStatement) -> Option<Clause> {
    let clause = |(items, alias)| Clause { items, alias, is_merge: false };
    match statement {
        SqlStatement::Prepare { statement, .. } => take_sql(statement),
        SqlStatement::Explain { statement, .. } => {
            drop(take_sql(statement));
            None
        }
        SqlStatement::Insert(insert) => {
            let alias = insert.table_alias.take().map(|alias| alias.alias);
            insert.returning.take().map(|items| clause((items, alias)))
        }
        SqlStatement::Update(update) => {
            let alias = alias_of(&update.table.relation);
            update.returning.take().map(|items| clause((items, alias)))
        }
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let alias = from.first().and_then(|table| alias_of(&table.relation));
            delete.returning.take().map(|items| clause((items, alias)))
        }
        SqlStatement::Merge(merge) => match merge.output.take() {
            Some(OutputClause::Returning { select_items: items, .. }) => {
                Some(Clause { items, alias: alias_of(&merge.table), is_merge: true })
            }
            other => {
                merge.output = other;
                None
            }
        },
        _ => None,
    }
}

/// The name that a statement gives its table.
fn alias_of(table: &TableFactor) -> Option<Ident> {
    match table {
        TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    }
}
