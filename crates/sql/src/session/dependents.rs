//! Changes of a table that views may depend on.

use datafusion::sql::sqlparser::ast::AlterTableOperation;

use super::column_options::normalized;

/// A change that views may depend on.
pub(super) struct Lost {
    /// The column; `None` for the table.
    pub(super) column: Option<String>,
    /// The change, as in an error.
    pub(super) what: String,
    /// True if `SELECT *` depends on it too.
    pub(super) is_dropped: bool,
}

/// Returns the changes of a statement that views of the table may depend on.
pub(super) fn lost(table: &str, operations: &[AlterTableOperation]) -> Vec<Lost> {
    let mut all = Vec::new();
    for operation in operations {
        match operation {
            AlterTableOperation::DropColumn { column_names, .. } => {
                all.extend(column_names.iter().cloned().map(normalized).map(|column| Lost {
                    what: format!("drop column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: true,
                }));
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } => {
                let column = normalized(old_column_name.clone());
                all.push(Lost {
                    what: format!("rename column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: false,
                });
            }
            AlterTableOperation::RenameTable { .. } => all.push(Lost {
                column: None,
                what: format!("rename table {table}"),
                is_dropped: false,
            }),
            _ => {}
        }
    }
    all
}
