//! Records of sequences: their definitions, and their positions, which change more often.

use redb::{ReadableTable as _, TableDefinition, TableError};

use super::bytes::{FieldReader, FieldWriter, Missing};
use super::load_failure::{LoadFailure, damaged};
use super::sequence_options::{Position, SequenceOptions, SequenceType};

/// Key: the sequence's number. Databases older than sequences have neither this table nor the next.
pub(super) const SEQUENCES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("sequences");
/// Key: the sequence's number. Value: the position and true if it has been given.
pub(super) const POSITIONS: TableDefinition<'_, u64, (i64, bool)> =
    TableDefinition::new("sequence positions");

const VERSION: u8 = 1;

/// A sequence, as found in the file.
pub(super) struct LoadedSequence {
    pub(super) id: u64,
    pub(super) schema_name: String,
    pub(super) name: String,
    pub(super) options: SequenceOptions,
    pub(super) position: Position,
}

/// Reads all sequences.
pub(super) fn load(read: &redb::ReadTransaction) -> Result<Vec<LoadedSequence>, LoadFailure> {
    let table = match read.open_table(SEQUENCES) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let positions = read.open_table(POSITIONS)?;
    let mut sequences = Vec::new();
    for entry in table.iter()? {
        let (id, record) = entry?;
        let id = id.value();
        let what = format_args!("sequence number {id}");
        let (schema_name, name, options) = from_bytes(record.value()).map_err(damaged(what))?;
        let position = positions.get(id)?.map(|position| position.value());
        let position = position.ok_or_else(|| "it has no position".to_owned());
        let (value, is_called) = position.map_err(damaged(what))?;
        let position = Position { value, is_called };
        sequences.push(LoadedSequence { id, schema_name, name, options, position });
    }
    Ok(sequences)
}

/// Encodes the definition of a sequence.
pub(super) fn to_bytes((schema, name): (&str, &str), options: &SequenceOptions) -> Vec<u8> {
    let SequenceOptions { data_type, start, increment, min, max, cache, cycles } = options;
    let mut fields = FieldWriter::new(VERSION);
    fields.bytes(schema.as_bytes());
    fields.bytes(name.as_bytes());
    fields.bytes(data_type.name().as_bytes());
    for number in [start, increment, min, max, cache] {
        fields.word(u64::from_le_bytes(number.to_le_bytes()));
    }
    fields.byte(u8::from(*cycles));
    fields.finish()
}

fn from_bytes(bytes: &[u8]) -> Result<(String, String, SequenceOptions), Missing> {
    let mut fields = FieldReader::new(bytes, VERSION)?;
    let (schema, name, data_type) = (fields.text()?, fields.text()?, fields.text()?);
    let data_type = SequenceType::ALL.into_iter().find(|known| known.name() == data_type);
    let data_type = data_type.ok_or("a type of numbers")?;
    let mut number = || fields.word().map(|word| i64::from_le_bytes(word.to_le_bytes()));
    let (start, increment, min) = (number()?, number()?, number()?);
    let (max, cache) = (number()?, number()?);
    let cycles = fields.byte()? != 0;
    fields.end()?;
    Ok((schema, name, SequenceOptions { data_type, start, increment, min, max, cache, cycles }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let options = SequenceOptions {
            data_type: SequenceType::Integer,
            start: -5,
            increment: -7,
            min: i32::MIN.into(),
            max: -1,
            cache: 3,
            cycles: true,
        };
        let bytes = to_bytes(("s", "n"), &options);
        let read = from_bytes(&bytes).expect("read");
        assert_eq!(read, ("s".to_owned(), "n".to_owned(), options));
        for len in 0..bytes.len() {
            assert!(from_bytes(&bytes[..len]).is_err(), "{len}");
        }
    }
}
