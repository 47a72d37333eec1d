//! Record formats of the catalog: tables, chunks, views and access rights as bytes, each with its
//! version first.

use std::io::Cursor;

use datafusion::arrow::array::{ArrayData, make_array};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::ScalarValue;
use terrace_store::{Extent, Stored};

use super::bytes::{FieldReader, FieldWriter, Missing};
use super::properties::{ColumnProperties, Identity, OnCommit, Properties};
use crate::access::{Access, Grantee, Privileges};
use crate::chunk::{Chunk, SegmentBody, StoredSegment};
use crate::segment::{Constant, Encoding};
use crate::statistics::{Bound, SegmentStatistics};

const TABLE_VERSION: u8 = 2;
/// Table records of this version have no properties. Tables without any are still written so, which
/// older programs can read.
const BARE_TABLE_VERSION: u8 = 1;
const CHUNK_VERSION: u8 = 3;
/// Chunk records of this version have no places: the chunks are in the order of their ids.
const UNPLACED_CHUNK_VERSION: u8 = 2;
/// Chunk records of this version have no encodings either: all of their segments are plain.
const PLAIN_CHUNK_VERSION: u8 = 1;
const VIEW_VERSION: u8 = 1;
const ACCESS_VERSION: u8 = 1;

/// Record of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableRecord {
    pub schema_name: String,
    pub name: String,
    pub encoding: Encoding,
    pub columns: SchemaRef,
    pub properties: Properties,
}

impl TableRecord {
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Missing> {
        let is_bare = self.properties.is_empty();
        let version = if is_bare { BARE_TABLE_VERSION } else { TABLE_VERSION };
        let mut fields = FieldWriter::new(version);
        fields.bytes(self.schema_name.as_bytes());
        fields.bytes(self.name.as_bytes());
        fields.byte(self.encoding.code());
        fields.bytes(&schema_to_bytes(&self.columns)?);
        if !is_bare {
            write_properties(&self.properties, &mut fields);
        }
        Ok(fields.finish())
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Missing> {
        let is_bare = bytes.first() == Some(&BARE_TABLE_VERSION);
        let version = if is_bare { BARE_TABLE_VERSION } else { TABLE_VERSION };
        let mut fields = FieldReader::new(bytes, version)?;
        let (schema_name, name) = (fields.text()?, fields.text()?);
        let encoding = read_encoding(&mut fields)?;
        let columns = schema_from_bytes(fields.bytes()?)?;
        let properties = match is_bare {
            true => Properties::default(),
            false => read_properties(&mut fields)?,
        };
        fields.end()?;
        Ok(Self { schema_name, name, encoding, columns, properties })
    }
}

const DEFAULT: u8 = 1;
const GENERATED: u8 = 2;
const COLUMN_COMMENT: u8 = 3;
const CHECK: u8 = 4;
const TABLE_COMMENT: u8 = 5;
const IDENTITY: u8 = 6;
const SEQUENCE: u8 = 7;
const ON_COMMIT: u8 = 8;

/// Writes the number of properties, then each as its kind, the column or constraint, and its text.
fn write_properties(properties: &Properties, fields: &mut FieldWriter) {
    let mut all = Vec::new();
    for (column, properties) in &properties.columns {
        let ColumnProperties { default, generated, comment, identity, sequence } = properties;
        let kinds = [
            (DEFAULT, default.as_deref()),
            (GENERATED, generated.as_deref()),
            (COLUMN_COMMENT, comment.as_deref()),
            (IDENTITY, identity.map(Identity::keywords)),
            (SEQUENCE, sequence.as_deref()),
        ];
        let present = kinds.into_iter().filter_map(|(kind, text)| Some((kind, text?)));
        all.extend(present.map(|(kind, text)| (kind, column.as_str(), text)));
    }
    all.extend(properties.checks.iter().map(|(name, text)| (CHECK, name.as_str(), text.as_str())));
    all.extend(properties.comment.iter().map(|text| (TABLE_COMMENT, "", text.as_str())));
    all.extend(properties.on_commit.map(|effect| (ON_COMMIT, "", effect.keywords())));
    fields.len(all.len());
    for (kind, name, text) in all {
        fields.byte(kind);
        fields.bytes(name.as_bytes());
        fields.bytes(text.as_bytes());
    }
}

fn read_properties(fields: &mut FieldReader<'_>) -> Result<Properties, Missing> {
    let mut properties = Properties::default();
    for _ in 0..fields.word()? {
        let (kind, name, text) = (fields.byte()?, fields.text()?, fields.text()?);
        match kind {
            DEFAULT => properties.change(&name, |column| column.default = Some(text)),
            GENERATED => properties.change(&name, |column| column.generated = Some(text)),
            COLUMN_COMMENT => properties.change(&name, |column| column.comment = Some(text)),
            IDENTITY => {
                let identity = Identity::ALL.into_iter().find(|it| it.keywords() == text);
                let identity = identity.ok_or_else(|| format!("an identity {text}"))?;
                properties.change(&name, |column| column.identity = Some(identity));
            }
            SEQUENCE => properties.change(&name, |column| column.sequence = Some(text)),
            CHECK => drop(properties.checks.insert(name, text)),
            TABLE_COMMENT => properties.comment = Some(text),
            ON_COMMIT => {
                let effect = OnCommit::ALL.into_iter().find(|it| it.keywords() == text);
                let effect = effect.ok_or_else(|| format!("an effect {text}"))?;
                properties.on_commit = Some(effect);
            }
            other => return Err(format!("a property of kind {other}, which is none")),
        }
    }
    Ok(properties)
}

/// Encodes the schema as an Arrow IPC stream without batches.
fn schema_to_bytes(schema: &SchemaRef) -> Result<Vec<u8>, Missing> {
    let writer = StreamWriter::try_new(Vec::new(), schema);
    let bytes = writer.and_then(StreamWriter::into_inner);
    bytes.map_err(|error| error.to_string())
}

fn schema_from_bytes(bytes: &[u8]) -> Result<SchemaRef, Missing> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None);
    Ok(reader.map_err(|error| error.to_string())?.schema())
}

/// Code in place of that of an encoding, for a column with one value in all rows.
const CONSTANT: u8 = 255;

/// Record of a chunk's column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SegmentRecord {
    pub body: BodyRecord,
    pub statistics: SegmentStatistics,
}

/// Record of the values of a chunk's column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BodyRecord {
    Stored { stored: Stored, encoding: Encoding, len_bytes: u64 },
    Constant(Constant),
}

impl BodyRecord {
    fn of(body: &SegmentBody) -> Self {
        match body {
            SegmentBody::Stored(StoredSegment { stored, encoding, len_bytes, .. }) => {
                Self::Stored { stored: *stored, encoding: *encoding, len_bytes: *len_bytes }
            }
            SegmentBody::Constant(constant) => Self::Constant(constant.clone()),
        }
    }

    /// Encodes the record as part of a chunk record of this version.
    fn write(&self, version: u8, fields: &mut FieldWriter) -> Result<(), Missing> {
        match self {
            Self::Stored { stored, encoding, len_bytes } => {
                if version != PLAIN_CHUNK_VERSION {
                    fields.byte(encoding.code());
                }
                fields.word(stored.extent.offset_bytes);
                fields.word(stored.extent.len_bytes);
                fields.word(stored.checksum.into());
                fields.word(*len_bytes);
                Ok(())
            }
            Self::Constant(_) if version == PLAIN_CHUNK_VERSION => {
                Err("no form for a value of all rows".to_owned())
            }
            Self::Constant(constant) => {
                fields.byte(CONSTANT);
                fields.word(crc32c::crc32c(constant.bytes()).into());
                fields.bytes(constant.bytes());
                Ok(())
            }
        }
    }

    /// Decodes the record; `is_plain` for the version without encodings.
    fn read(
        fields: &mut FieldReader<'_>,
        is_plain: bool,
        data_type: &DataType,
    ) -> Result<Self, Missing> {
        let code = if is_plain { Encoding::Plain.code() } else { fields.byte()? };
        if code == CONSTANT {
            let (checksum, bytes) = (fields.word()?, fields.bytes()?);
            if checksum != u64::from(crc32c::crc32c(bytes)) {
                return Err("a value of all rows that is not as it was written".to_owned());
            }
            let constant = Constant::from_bytes(bytes, data_type);
            return constant.map(Self::Constant).map_err(|error| error.to_string());
        }
        let encoding = Encoding::from_code(code);
        let encoding = encoding.ok_or_else(|| format!("encoding {code}, which is none"))?;
        let extent = Extent { offset_bytes: fields.word()?, len_bytes: fields.word()? };
        let checksum = u32::try_from(fields.word()?).map_err(|error| error.to_string())?;
        let len_bytes = fields.word()?;
        if len_bytes > extent.len_bytes {
            return Err(format!("a segment of {len_bytes} bytes in {} bytes", extent.len_bytes));
        }
        Ok(Self::Stored { stored: Stored { extent, checksum }, encoding, len_bytes })
    }

    /// Returns the end of its bytes on the store; zero for a constant.
    pub(super) fn end_bytes(&self) -> u64 {
        match self {
            Self::Stored { stored, .. } => stored.extent.end_bytes(),
            Self::Constant(_) => 0,
        }
    }
}

/// Record of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChunkRecord {
    pub rows: usize,
    /// `None` in a record of a version without places.
    pub place: Option<u64>,
    pub is_full: bool,
    pub columns: Vec<SegmentRecord>,
}

impl ChunkRecord {
    pub(super) fn of(chunk: &Chunk) -> Self {
        let columns = chunk.columns.iter().map(|column| SegmentRecord {
            body: BodyRecord::of(&column.body),
            statistics: column.statistics.clone(),
        });
        let (rows, place, is_full) = (chunk.rows, Some(chunk.place), chunk.is_full);
        Self { rows, place, is_full, columns: columns.collect() }
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Missing> {
        let placed = self.place.is_some();
        self.to_bytes_of(if placed { CHUNK_VERSION } else { UNPLACED_CHUNK_VERSION })
    }

    /// Encodes the record in the versions from before encodings, and from before places.
    #[cfg(test)]
    pub(super) fn to_old_bytes(&self) -> Result<[Vec<u8>; 2], Missing> {
        Ok([self.to_bytes_of(PLAIN_CHUNK_VERSION)?, self.to_bytes_of(UNPLACED_CHUNK_VERSION)?])
    }

    fn to_bytes_of(&self, version: u8) -> Result<Vec<u8>, Missing> {
        let mut fields = FieldWriter::new(version);
        fields.len(self.rows);
        if let (CHUNK_VERSION, Some(place)) = (version, self.place) {
            fields.word(place);
            fields.byte(u8::from(self.is_full));
        }
        fields.len(self.columns.len());
        for SegmentRecord { body, statistics } in &self.columns {
            body.write(version, &mut fields)?;
            fields.len(statistics.nulls);
            write_bound(statistics.min.as_ref(), &mut fields)?;
            write_bound(statistics.max.as_ref(), &mut fields)?;
            fields.byte(u8::from(statistics.distinct.is_some()));
            fields.word(statistics.distinct.unwrap_or_default());
        }
        Ok(fields.finish())
    }

    pub(super) fn from_bytes(bytes: &[u8], schema: &SchemaRef) -> Result<Self, Missing> {
        let old = [PLAIN_CHUNK_VERSION, UNPLACED_CHUNK_VERSION];
        let old = old.into_iter().find(|old| bytes.first() == Some(old));
        let is_plain = old == Some(PLAIN_CHUNK_VERSION);
        let mut fields = FieldReader::new(bytes, old.unwrap_or(CHUNK_VERSION))?;
        let rows = fields.len()?;
        let (place, is_full) = match old {
            Some(_) => (None, false),
            None => (Some(fields.word()?), fields.byte()? != 0),
        };
        let columns = fields.len()?;
        if columns != schema.fields().len() {
            return Err(format!("{columns} columns for {}", schema.fields().len()));
        }
        let columns = schema.fields().iter();
        let columns =
            columns.map(|field| read_segment(&mut fields, rows, is_plain, field.data_type()));
        let columns = columns.collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { rows, place, is_full, columns })
    }
}

fn read_encoding(fields: &mut FieldReader<'_>) -> Result<Encoding, Missing> {
    let encoding = fields.byte()?;
    Encoding::from_code(encoding).ok_or_else(|| format!("encoding {encoding}, which is none"))
}

fn read_segment(
    fields: &mut FieldReader<'_>,
    rows: usize,
    is_plain: bool,
    data_type: &DataType,
) -> Result<SegmentRecord, Missing> {
    let body = BodyRecord::read(fields, is_plain, data_type)?;
    let nulls = fields.len()?;
    if nulls > rows {
        return Err(format!("{nulls} nulls in {rows} rows"));
    }
    let min = read_bound(fields, data_type)?;
    let max = read_bound(fields, data_type)?;
    let (known, distinct) = (fields.byte()?, fields.word()?);
    let distinct = (known != 0).then_some(distinct);
    let statistics = SegmentStatistics { rows, nulls, min, max, distinct };
    Ok(SegmentRecord { body, statistics })
}

const NO_BOUND: u8 = 0;
const EXACT: u8 = 1;
const ROUNDED: u8 = 2;

fn write_bound(bound: Option<&Bound>, fields: &mut FieldWriter) -> Result<(), Missing> {
    let Some(bound) = bound else {
        fields.byte(NO_BOUND);
        return Ok(());
    };
    fields.byte(if bound.exact { EXACT } else { ROUNDED });
    fields.bytes(&value_to_bytes(&bound.value)?);
    Ok(())
}

fn read_bound(
    fields: &mut FieldReader<'_>,
    data_type: &DataType,
) -> Result<Option<Bound>, Missing> {
    let exact = match fields.byte()? {
        NO_BOUND => return Ok(None),
        EXACT => true,
        ROUNDED => false,
        other => return Err(format!("a bound of kind {other}, which is none")),
    };
    // Dictionaries are described by their values.
    let data_type = match data_type {
        DataType::Dictionary(_, values) => values,
        data_type => data_type,
    };
    let value = value_from_bytes(fields.bytes()?, data_type)?;
    Ok(Some(Bound { value, exact }))
}

/// Encodes a value that is not null: text and binary as they are, any other type as Arrow stores
/// it.
fn value_to_bytes(value: &ScalarValue) -> Result<Vec<u8>, Missing> {
    use ScalarValue::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match value {
        Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)) => {
            Ok(text.as_bytes().to_vec())
        }
        Binary(Some(bytes)) | LargeBinary(Some(bytes)) | BinaryView(Some(bytes)) => {
            Ok(bytes.clone())
        }
        ScalarValue::Boolean(Some(value)) => Ok(vec![u8::from(*value)]),
        _ => {
            let data = value.to_array().map_err(|error| error.to_string())?.to_data();
            match data.buffers() {
                [values] => Ok(values.as_slice().to_vec()),
                _ => Err(format!("no form for a bound of type {}", value.data_type())),
            }
        }
    }
}

fn value_from_bytes(bytes: &[u8], data_type: &DataType) -> Result<ScalarValue, Missing> {
    let text = || String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string()).map(Some);
    match data_type {
        DataType::Utf8 => text().map(ScalarValue::Utf8),
        DataType::LargeUtf8 => text().map(ScalarValue::LargeUtf8),
        DataType::Utf8View => text().map(ScalarValue::Utf8View),
        DataType::Binary => Ok(ScalarValue::Binary(Some(bytes.to_vec()))),
        DataType::LargeBinary => Ok(ScalarValue::LargeBinary(Some(bytes.to_vec()))),
        DataType::BinaryView => Ok(ScalarValue::BinaryView(Some(bytes.to_vec()))),
        _ => fixed_value(bytes, data_type),
    }
}

fn fixed_value(bytes: &[u8], data_type: &DataType) -> Result<ScalarValue, Missing> {
    let is_fixed = data_type.primitive_width().is_some()
        || matches!(data_type, DataType::Boolean | DataType::FixedSizeBinary(_));
    if !is_fixed {
        return Err(format!("a bound for type {data_type}, which has none"));
    }
    let data = ArrayData::builder(data_type.clone()).len(1).add_buffer(Buffer::from(bytes)).build();
    let array = make_array(data.map_err(|error| error.to_string())?);
    ScalarValue::try_from_array(&array, 0).map_err(|error| error.to_string())
}

/// Encodes a view: the text of its query.
pub(super) fn view_to_bytes(sql: &str) -> Vec<u8> {
    let mut fields = FieldWriter::new(VIEW_VERSION);
    fields.bytes(sql.as_bytes());
    fields.finish()
}

/// Decodes the text of a view's query.
pub(super) fn view_from_bytes(bytes: &[u8]) -> Result<String, Missing> {
    let mut fields = FieldReader::new(bytes, VIEW_VERSION)?;
    let sql = fields.text()?;
    fields.end()?;
    Ok(sql)
}

/// Encodes owner and grants. The grant to all roles has no name.
pub(super) fn access_to_bytes(access: &Access) -> Vec<u8> {
    let mut fields = FieldWriter::new(ACCESS_VERSION);
    fields.byte(u8::from(access.owner.is_some()));
    fields.bytes(access.owner.as_deref().unwrap_or_default().as_bytes());
    fields.len(access.grants.len());
    for (grantee, privileges) in &access.grants {
        let (is_role, name) = match grantee {
            Grantee::Public => (0, ""),
            Grantee::Role(name) => (1, name.as_str()),
        };
        fields.byte(is_role);
        fields.bytes(name.as_bytes());
        fields.byte(privileges.to_byte());
    }
    fields.finish()
}

/// Decodes owner and grants.
pub(super) fn access_from_bytes(bytes: &[u8]) -> Result<Access, Missing> {
    let mut fields = FieldReader::new(bytes, ACCESS_VERSION)?;
    let has_owner = fields.byte()? != 0;
    let owner = has_owner.then_some(fields.text()?);
    let mut access = Access { owner, ..Access::default() };
    for _ in 0..fields.word()? {
        let is_role = fields.byte()? != 0;
        let name = fields.text()?;
        let privileges = Privileges::from_byte(fields.byte()?).ok_or("an unknown privilege")?;
        let grantee = if is_role { Grantee::Role(name) } else { Grantee::Public };
        access.grant(grantee, privileges);
    }
    fields.end()?;
    Ok(access)
}
