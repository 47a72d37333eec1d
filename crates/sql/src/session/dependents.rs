//! Changes by ALTER TABLE of columns or names that views may use.

use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTableOperation, DropBehavior};
use terrace_table::error::SqlError;

use super::column_options::normalized;

/// A column that an ALTER TABLE drops, renames or gives another type, or the table that it renames.
/// The definitions of views that use it become invalid.
pub(super) struct Lost {
    /// The column; `None` for the table.
    pub(super) column: Option<String>,
    /// The change as errors name it: `drop column a of table t`.
    pub(super) what: String,
    /// True if views with `SELECT *` are affected too: for a column that is dropped or gets another
    /// type.
    pub(super) is_dropped: bool,
    /// True if the column gets another type.
    pub(super) is_type: bool,
    /// True for CASCADE: the objects that depend on it are dropped too.
    pub(super) cascades: bool,
}

impl Lost {
    /// The error of the change if views use what it affects: [`SqlError::Refused`] for a new type,
    /// [`SqlError::Dependents`] for a dropped column, [`SqlError::InUse`] for a rename. `views` are
    /// their names as in "view v", `others` are sentences about the dependents of these views.
    pub(super) fn refused(self, views: &[String], others: Vec<String>) -> SqlError {
        let view = views.first().cloned().unwrap_or_default();
        match self.column {
            Some(column) if self.is_type => SqlError::Refused {
                what: format!("altering the type of column {column}, which {view} uses,"),
                instead: "drop the view first".to_owned(),
            },
            Some(_) if self.is_dropped => {
                let dropped = self.what.trim_start_matches("drop ");
                let detail = |view: &String| format!("{view} depends on {dropped}");
                SqlError::Dependents {
                    what: format!("{} because other objects depend on it", self.what),
                    details: views.iter().map(detail).chain(others).collect(),
                }
            }
            _ => SqlError::InUse { what: self.what, view },
        }
    }
}

/// Returns the columns and names that the actions of an ALTER TABLE drop or change.
pub(super) fn lost(table: &str, operations: &[AlterTableOperation]) -> Vec<Lost> {
    let mut all = Vec::new();
    for operation in operations {
        match operation {
            AlterTableOperation::DropColumn { column_names, drop_behavior, .. } => {
                let cascades = matches!(drop_behavior, Some(DropBehavior::Cascade));
                all.extend(column_names.iter().cloned().map(normalized).map(|column| Lost {
                    what: format!("drop column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: true,
                    is_type: false,
                    cascades,
                }));
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } => {
                let column = normalized(old_column_name.clone());
                all.push(Lost {
                    what: format!("rename column {column} of table {table}"),
                    column: Some(column),
                    is_dropped: false,
                    is_type: false,
                    cascades: false,
                });
            }
            AlterTableOperation::RenameTable { .. } => all.push(Lost {
                column: None,
                what: format!("rename table {table}"),
                is_dropped: false,
                is_type: false,
                cascades: false,
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
                    cascades: false,
                });
            }
            _ => {}
        }
    }
    all
}
