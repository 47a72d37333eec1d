//! Changes of a table that views may depend on.

use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTableOperation};
use terrace_table::error::SqlError;

use super::column_options::normalized;

/// A change that views may depend on.
pub(super) struct Lost {
    /// The column; `None` for the table.
    pub(super) column: Option<String>,
    /// The change, as in an error.
    pub(super) what: String,
    /// True if `SELECT *` depends on it too.
    pub(super) is_dropped: bool,
    /// True if the column gets another type.
    pub(super) is_type: bool,
}

impl Lost {
    /// The error of the change if a view depends on it.
    pub(super) fn refused(self, view: String) -> SqlError {
        match self.column {
            Some(column) if self.is_type => SqlError::Refused {
                what: format!("altering the type of column {column}, which view {view} uses,"),
                instead: "drop the view first".to_owned(),
            },
            _ => SqlError::InUse { what: self.what, view },
        }
    }
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
                    is_type: false,
                }));
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } => {
                let column = normalized(old_column_name.clone());
                all.push(Lost {
                    what: format!("rename column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: false,
                    is_type: false,
                });
            }
            AlterTableOperation::RenameTable { .. } => all.push(Lost {
                column: None,
                what: format!("rename table {table}"),
                is_dropped: false,
                is_type: false,
            }),
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { .. },
            } => {
                let column = normalized(column_name.clone());
                all.push(Lost {
                    what: format!("alter the type of column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: true,
                    is_type: true,
                });
            }
            _ => {}
        }
    }
    all
}
