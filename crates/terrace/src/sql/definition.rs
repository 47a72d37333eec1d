//! Output of `.schema`: the statements that create the tables and views of a session.

use std::fmt::Write as _;

use datafusion::arrow::array::cast::AsArray as _;
use datafusion::sql::sqlparser::ast::Ident;
use terrace_sql::{RelationKind, Session};

use crate::error::Result;

/// Returns the statements that create all tables and views, or the one of this name.
///
/// # Errors
/// If there is no table of this name.
pub async fn definitions(session: &Session, name: Option<&str>) -> Result<String> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => all(session),
    };
    let mut text = String::new();
    for name in names {
        for output in session.sql(&format!("SHOW CREATE TABLE {name}")).await? {
            for batch in &output.batches {
                let Some(column) = batch.column_by_name("definition") else { continue };
                for definition in column.as_string::<i32>().iter().flatten() {
                    // Writing to a text does not fail.
                    let _ = writeln!(text, "{definition};");
                }
            }
        }
    }
    Ok(text)
}

/// Returns the quoted names of all tables, and then of all views, each sorted by schema and name.
fn all(session: &Session) -> Vec<String> {
    let mut relations = session.names().relations();
    relations.retain(|relation| relation.kind != RelationKind::System);
    relations.sort_by_key(|relation| {
        let is_view = matches!(relation.kind, RelationKind::View(_));
        (is_view, relation.schema.clone(), relation.name.clone())
    });
    let quoted = |name: String| Ident::with_quote('"', name).to_string();
    let full = relations.into_iter().map(|it| format!("{}.{}", quoted(it.schema), quoted(it.name)));
    full.collect()
}
