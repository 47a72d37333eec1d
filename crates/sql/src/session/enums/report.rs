//! Descriptions of enums, for the tables that list them.

use terrace_table::catalog::{Snapshot, TextKind};
use terrace_table::error::SqlError;

use super::names::find;

/// An enum of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumReport {
    /// Name of the schema.
    pub schema: String,
    /// Name of the type.
    pub name: String,
    /// The labels, in order.
    pub labels: Vec<String>,
    /// Role that owns it; `None` if a session without a role created it.
    pub owner: Option<String>,
    /// Comment on it.
    pub comment: Option<String>,
}

/// The enums of a schema, by name.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn enums(snapshot: &Snapshot, schema: &str) -> Result<Vec<EnumReport>, SqlError> {
    let mut reports = Vec::new();
    for (name, object) in snapshot.texts(TextKind::Type, schema) {
        if let Some(of) = find(snapshot, schema, &name)? {
            let (labels, owner) = (of.labels().to_vec(), object.owner.clone());
            let (schema, comment) = (schema.to_owned(), object.comment.clone());
            reports.push(EnumReport { schema, name, labels, owner, comment });
        }
    }
    Ok(reports)
}
