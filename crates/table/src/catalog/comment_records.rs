//! Records of comments on schemas, views and sequences.

use std::collections::BTreeMap;

use redb::{ReadableTable as _, TableDefinition, TableError};

use super::bytes::{FieldReader, FieldWriter, Missing};
use super::load_failure::{LoadFailure, damaged};

/// Key: schema, kind and object: [`OBJECT`] and the name of a view or sequence, or [`SCHEMA`] and
/// no name for the schema itself. Databases older than comments do not have this table.
pub(super) const COMMENTS: TableDefinition<'_, (&str, u8, &str), &[u8]> =
    TableDefinition::new("comments");
pub(super) const SCHEMA: u8 = 0;
pub(super) const OBJECT: u8 = 1;

const VERSION: u8 = 1;

/// Comments on an object and on its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comments {
    /// Comment on the object.
    pub own: Option<String>,
    /// Comments by column.
    pub columns: BTreeMap<String, String>,
}

/// Comments on an object, as found in the file.
pub(super) struct LoadedComments {
    pub(super) schema: String,
    /// `None` for the schema itself.
    pub(super) object: Option<String>,
    pub(super) comments: Comments,
}

/// Reads all comments.
pub(super) fn load(read: &redb::ReadTransaction) -> Result<Vec<LoadedComments>, LoadFailure> {
    let table = match read.open_table(COMMENTS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut all = Vec::new();
    for entry in table.iter()? {
        let (key, record) = entry?;
        let (schema, kind, object) = key.value();
        let what = format_args!("the comment on {schema}.{object}");
        let comments = from_bytes(record.value()).map_err(damaged(what))?;
        let (schema, object) = (schema.to_owned(), (kind == OBJECT).then(|| object.to_owned()));
        all.push(LoadedComments { schema, object, comments });
    }
    Ok(all)
}

/// Encodes comments.
pub(super) fn to_bytes(comments: &Comments) -> Vec<u8> {
    let mut fields = FieldWriter::new(VERSION);
    fields.byte(u8::from(comments.own.is_some()));
    fields.bytes(comments.own.as_deref().unwrap_or_default().as_bytes());
    fields.len(comments.columns.len());
    for (column, comment) in &comments.columns {
        fields.bytes(column.as_bytes());
        fields.bytes(comment.as_bytes());
    }
    fields.finish()
}

fn from_bytes(bytes: &[u8]) -> Result<Comments, Missing> {
    let mut fields = FieldReader::new(bytes, VERSION)?;
    let is_own = fields.byte()? != 0;
    let own = Some(fields.text()?).filter(|_| is_own);
    let mut columns = BTreeMap::new();
    for _ in 0..fields.word()? {
        columns.insert(fields.text()?, fields.text()?);
    }
    fields.end()?;
    Ok(Comments { own, columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let columns = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let own = Comments { own: Some(String::new()), columns: BTreeMap::new() };
        for comments in [Comments::default(), own, Comments { own: None, columns }] {
            let bytes = to_bytes(&comments);
            assert_eq!(from_bytes(&bytes), Ok(comments));
            for len in 0..bytes.len() {
                assert!(from_bytes(&bytes[..len]).is_err(), "{len}");
            }
        }
    }
}
