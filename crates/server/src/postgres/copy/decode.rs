//! Decoder of the rows that a COPY receives, whose bytes arrive in pieces of any size.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use terrace_sql::session::{CopyFormat, CopyHeader};

use super::super::cell::Format;
use super::super::failure::{Failure, SqlState};
use super::super::parameter;
use super::encode::SIGNATURE;
use super::header::check_header;
use super::line::{Value, values_of};
use crate::column_types::field_type;

/// A batch is complete with this number of rows or of bytes.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;
/// Unit in bytes to which the memory of rows that are in no batch yet is rounded up.
const HELD_STEP_BYTES: usize = 64 << 10;
/// Maximum length of a row in bytes.
const ROW_BYTES_MAX: usize = 64 << 20;

/// Decodes the bytes of a COPY into batches of rows.
pub(crate) struct RowDecoder {
    format: CopyFormat,
    schema: SchemaRef,
    /// Bytes of an incomplete row, and how many of them were searched for the row's end.
    input: BytesMut,
    searched: usize,
    is_quoted: bool,
    /// True once the header has been read.
    has_begun: bool,
    has_ended: bool,
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
    /// Number of the current row, for errors.
    row: u64,
}

/// Decoded values of one column.
enum Values {
    Text(StringBuilder),
    Binary(Vec<ScalarValue>),
}

impl RowDecoder {
    pub(crate) fn new(format: CopyFormat, schema: SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| Values::new(&format)).collect();
        Self {
            format,
            schema,
            input: BytesMut::new(),
            searched: 0,
            is_quoted: false,
            has_begun: false,
            has_ended: false,
            columns,
            rows: 0,
            bytes: 0,
            row: 0,
        }
    }

    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Clients may send anything after the end marker.
        if !self.has_ended {
            self.input.extend_from_slice(bytes);
        }
    }

    /// Returns the bytes held for rows that are not in a batch yet, rounded up to a step.
    pub(crate) fn held_bytes(&self) -> u64 {
        let steps = (self.input.capacity() + self.bytes).div_ceil(HELD_STEP_BYTES);
        u64::try_from(steps * HELD_STEP_BYTES).unwrap_or(u64::MAX)
    }

    /// Returns the next full batch, if the bytes received so far complete one.
    ///
    /// # Errors
    /// Bytes that do not form a row of these columns.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        while self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES {
            if !self.next_row(false)? {
                return self.refuse_long_row().map(|()| None);
            }
        }
        self.take().map(Some)
    }

    /// Returns the last batch, if it has rows.
    ///
    /// # Errors
    /// Bytes that do not form a row of these columns, and an incomplete last row.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>, Failure> {
        while self.next_row(true)? {}
        if !self.input.is_empty() && !self.has_ended {
            return Err(self.malformed("the last row is not whole"));
        }
        if !self.has_begun {
            self.check_header(&[])?;
        }
        if self.rows == 0 { Ok(None) } else { self.take().map(Some) }
    }

    /// Decodes a row. Returns false if no complete one has arrived.
    fn next_row(&mut self, is_last: bool) -> Result<bool, Failure> {
        if self.has_ended {
            return Ok(false);
        }
        if self.format == CopyFormat::Binary {
            return self.next_binary();
        }
        let Some(line) = self.next_line(is_last) else { return Ok(false) };
        if line.as_ref() == b"\\." {
            self.has_ended = true;
            self.input.clear();
            return Ok(false);
        }
        self.row += 1;
        if !std::mem::replace(&mut self.has_begun, true) && self.format.has_header() {
            self.check_header(&line)?;
            return Ok(true);
        }
        self.add_values(&values_of(&line, &self.format))?;
        self.rows += 1;
        self.bytes += line.len();
        Ok(true)
    }

    /// Compares the header with the names of the columns, if the COPY has `HEADER MATCH`.
    fn check_header(&self, line: &[u8]) -> Result<(), Failure> {
        match self.format.header() {
            CopyHeader::Match => check_header(line, &self.schema, &self.format),
            CopyHeader::Absent | CopyHeader::Names => Ok(()),
        }
    }

    /// Returns the next line without its line end; with `is_last`, also a line that lacks one.
    fn next_line(&mut self, is_last: bool) -> Option<Bytes> {
        let end = self.end_of_line();
        let line = match end {
            Some(end) => {
                let line = self.input.split_to(end);
                self.input.advance(1);
                line
            }
            None if is_last && !self.input.is_empty() && !self.is_quoted => self.input.split(),
            None => return None,
        };
        self.searched = 0;
        let line = line.freeze();
        Some(match line.strip_suffix(b"\r") {
            Some(without) => line.slice(..without.len()),
            None => line,
        })
    }

    /// Returns the position of the first line end that is not escaped or in quotes.
    fn end_of_line(&mut self) -> Option<usize> {
        let (quote, escape) = match &self.format {
            CopyFormat::Csv { quote, escape, .. } => (Some(*quote), *escape),
            _ => (None, b'\\'),
        };
        let bytes = &self.input;
        let mut at = self.searched;
        while at < bytes.len() {
            let byte = bytes[at];
            let is_escape = match quote {
                Some(quote) => self.is_quoted && byte == escape && escape != quote,
                None => byte == escape,
            };
            if is_escape {
                if at + 1 == bytes.len() {
                    // The escaped byte has not arrived yet.
                    break;
                }
                at += 2;
                continue;
            }
            if quote == Some(byte) {
                self.is_quoted = !self.is_quoted;
            } else if byte == b'\n' && !self.is_quoted {
                self.searched = 0;
                return Some(at);
            }
            at += 1;
        }
        self.searched = at;
        None
    }

    fn add_values(&mut self, values: &[Value]) -> Result<(), Failure> {
        if values.len() != self.columns.len() {
            let text = format!("it has {} values, not {}", values.len(), self.columns.len());
            return Err(self.malformed(&text));
        }
        for (index, Value { bytes, is_null }) in values.iter().enumerate() {
            let Ok(text) = std::str::from_utf8(bytes) else {
                let name = self.schema.field(index).name();
                return Err(self.malformed(&format!("the value of {name} is not UTF-8")));
            };
            let Values::Text(builder) = &mut self.columns[index] else { continue };
            match is_null {
                true => builder.append_null(),
                false => builder.append_value(text),
            }
        }
        Ok(())
    }

    /// Decodes a row of the binary format.
    fn next_binary(&mut self) -> Result<bool, Failure> {
        if !self.has_begun {
            let head = SIGNATURE.len();
            let Some(more) = self.input.get(head + 4..head + 8) else { return Ok(false) };
            let more = length(more).ok_or_else(|| self.malformed("its header has no length"))?;
            if !self.input.starts_with(SIGNATURE) {
                return Err(self.malformed("the bytes do not begin as the binary format does"));
            }
            if self.input.len() < head + 8 + more {
                return Ok(false);
            }
            self.input.advance(head + 8 + more);
            self.has_begun = true;
        }
        let Some(end) = self.end_of_binary()? else { return Ok(false) };
        let mut row = self.input.split_to(end).freeze();
        self.row += 1;
        if row.get_i16() == -1 {
            self.has_ended = true;
            self.input.clear();
            return Ok(false);
        }
        for index in 0..self.columns.len() {
            let length = row.get_i32();
            let bytes = usize::try_from(length).ok().map(|length| row.split_to(length));
            let field = self.schema.field(index);
            let what = format_args!("row {}: {}", self.row, field.name());
            let value = {
                let of = field_type(field);
                parameter::value_of(bytes.as_ref(), Format::Binary, what, &of, field.data_type())?
            };
            if let Values::Binary(values) = &mut self.columns[index] {
                values.push(value);
            }
        }
        self.rows += 1;
        self.bytes += end;
        Ok(true)
    }

    /// Returns the length in bytes of the first row; `None` if it is not complete.
    fn end_of_binary(&self) -> Result<Option<usize>, Failure> {
        let Some(count) = self.input.get(..2) else { return Ok(None) };
        let count = i16::from_be_bytes([count[0], count[1]]);
        if count == -1 {
            return Ok(Some(2));
        }
        if usize::try_from(count) != Ok(self.columns.len()) {
            let text = format!("it has {count} values, not {}", self.columns.len());
            return Err(self.malformed(&text));
        }
        let mut end = 2;
        for _ in 0..count {
            let Some(bytes) = self.input.get(end..end + 4) else { return Ok(None) };
            end += 4 + length(bytes).unwrap_or(0);
            if end > self.input.len() {
                return Ok(None);
            }
        }
        Ok(Some(end))
    }

    /// Returns the rows so far as a batch.
    fn take(&mut self) -> Result<RecordBatch, Failure> {
        let first = self.row - u64::try_from(self.rows).unwrap_or(0) + 1;
        let place = format!("rows {first} to {}", self.row);
        let format = self.format.clone();
        let fields = self.schema.fields().iter().zip(&mut self.columns);
        let columns = fields.map(|(field, values)| {
            let values = std::mem::replace(values, Values::new(&format));
            values.finish(field.data_type(), &format!("{place}: {}", field.name()))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        (self.rows, self.bytes) = (0, 0);
        // The table itself refuses nulls in columns that are NOT NULL, and names the column.
        let nullable = self.schema.fields().iter();
        let nullable = nullable.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Schema::new(nullable.collect::<Vec<_>>());
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }

    /// Refuses a row that is still incomplete after more than `ROW_BYTES_MAX` bytes.
    fn refuse_long_row(&self) -> Result<(), Failure> {
        if self.input.len() <= ROW_BYTES_MAX {
            return Ok(());
        }
        let why = if self.is_quoted { "; a quote in it is not closed" } else { "" };
        let text = format!("row {} of the COPY has more than 64 MiB{why}", self.row + 1);
        Err(Failure::new(SqlState::TOO_LARGE, text))
    }

    fn malformed(&self, what: &str) -> Failure {
        Failure::new(SqlState::BAD_COPY, format!("row {} of the COPY: {what}", self.row))
    }
}

/// Decodes a length; `None` for a null.
fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

impl Values {
    fn new(format: &CopyFormat) -> Self {
        match format {
            CopyFormat::Binary => Self::Binary(vec![]),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    /// Converts the values to an array of the column's type; `what` names them in errors.
    fn finish(self, data_type: &DataType, what: &str) -> Result<ArrayRef, Failure> {
        let mut texts = match self {
            Self::Binary(values) => return Ok(ScalarValue::iter_to_array(values)?),
            Self::Text(texts) => texts,
        };
        let texts = texts.finish();
        if data_type.is_integer() || data_type.is_floating() || data_type.is_string() {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let texts: ArrayRef = Arc::new(texts);
            return cast_with_options(&texts, data_type, &options).map_err(|error| {
                let text = terrace_sql::SqlError::from(error).to_string();
                Failure::new(SqlState::INVALID_TEXT, format!("{what}: {text}"))
            });
        }
        let values = texts.iter().map(|text| {
            let bytes = text.map(|text| Bytes::copy_from_slice(text.as_bytes()));
            parameter::value(bytes.as_ref(), Format::Text, format_args!("{what}"), data_type)
        });
        Ok(ScalarValue::iter_to_array(values.collect::<Result<Vec<_>, _>>()?)?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;
    use datafusion::arrow::datatypes::Field;
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;

    fn schema() -> SchemaRef {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        Arc::new(Schema::new(vec![
            field("k", DataType::Int64),
            field("s", DataType::Utf8View),
            field("b", DataType::Boolean),
            field("d", DataType::Decimal128(9, 2)),
        ]))
    }

    /// Decodes bytes that arrive in pieces of `size`; returns the rows as text.
    fn read(format: &CopyFormat, bytes: &[u8], size: usize) -> Result<Vec<String>, Failure> {
        let mut decoder = RowDecoder::new(format.clone(), schema());
        let mut batches = vec![];
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            batches.extend(decoder.next()?);
        }
        batches.extend(decoder.finish()?);
        let table = pretty_format_batches(&batches)?.to_string();
        let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
        Ok(lines.map(|line| line.replace(' ', "")).collect())
    }

    fn text() -> CopyFormat {
        let header = CopyHeader::Absent;
        CopyFormat::Text { delimiter: b'\t', null: "\\N".to_owned(), header }
    }

    fn csv(null: &str, header: CopyHeader) -> CopyFormat {
        let null = null.to_owned();
        CopyFormat::Csv { delimiter: b',', null, header, quote: b'"', escape: b'"' }
    }

    #[test]
    fn rows_come_in_pieces_of_any_size() -> Result<(), Failure> {
        let lines: &[u8] =
            b"1\ta\\tb\\\\\tt\t1.5\r\n-2\t\\N\tf\t\\N\n3\t\\x41\\101\\\n!\t\\N\t0\n\\.\nx";
        let table: &[u8] = b"k,s,b,d\n1,\"a,\"\"b\"\"\nc\",true,1.50\n2,,,\n3,\"\",no,-0.25\n";
        for size in [1, 2, 3, 7, 1000] {
            let found = read(&text(), lines, size)?;
            let wanted = ["|1|a\\tb\\\\|true|1.50|", "|-2||false||", "|3|AA\n!||0.00|"];
            let wanted = wanted.map(|line| line.replace("\\t", "\t").replace("\\\\", "\\"));
            assert_eq!(found.len(), 4, "a line end in the third row: {found:?}");
            assert_eq!(found[0], wanted[0]);
            assert_eq!(found[1], wanted[1]);
            let found = read(&csv("", CopyHeader::Names), table, size)?;
            assert_eq!(found[0], "|1|a,\"b\"|true|1.50|");
            assert_eq!(&found[2..], ["|2||||", "|3||false|-0.25|"]);
        }
        Ok(())
    }

    /// Returns a header and a row of the binary format.
    fn binary() -> Vec<u8> {
        let mut row = SIGNATURE.to_vec();
        row.put_i64(0);
        row.put_i16(4);
        row.put_i32(8);
        row.put_i64(7);
        row.put_i32(3);
        row.put_slice(b"abc");
        row.put_i32(1);
        row.put_u8(1);
        row.put_i32(-1);
        row.put_i16(-1);
        row
    }

    #[test]
    fn damaged_bytes_are_rows_or_errors() -> Result<(), Failure> {
        assert_eq!(read(&CopyFormat::Binary, &binary(), 5)?, ["|7|abc|true||"]);
        let lines = b"1\ta\\tb\\\\\tt\t1.5\n-2\t\\N\tf\t\\N\n\\.\n".to_vec();
        let table = b"k,s,b,d\n1,\"a,\"\"b\"\"\nc\",true,1.50\r\n2,,,\n".to_vec();
        let inputs =
            [(text(), lines), (csv("", CopyHeader::Names), table), (CopyFormat::Binary, binary())];
        terrace_testkit::with_seed(|seed| {
            let mut rng = terrace_testkit::Rng::new(seed);
            for _ in 0..20_000 {
                let (format, bytes) = &inputs[rng.index(inputs.len())];
                let mut bytes = bytes.clone();
                for _ in 0..=rng.index(4) {
                    let place = rng.index(bytes.len());
                    match rng.index(3) {
                        0 => bytes[place] = u8::try_from(rng.below(256)).unwrap_or(0),
                        1 => bytes.truncate(place + 1),
                        _ => bytes.extend_from_within(place..),
                    }
                }
                // Damaged bytes must not panic: they give rows or an error.
                let _rows = read(format, &bytes, 1 + rng.index(bytes.len()));
            }
        });
        Ok(())
    }

    #[test]
    fn bad_rows_are_named() {
        let bad = |bytes: &[u8]| {
            let failure = read(&text(), bytes, 5).expect_err("bad");
            failure.text().to_owned()
        };
        assert_eq!(bad(b"1\ta\tt\t1\n2\tb\n"), "row 2 of the COPY: it has 2 values, not 4");
        assert!(bad(b"x\ta\tt\t1\n").starts_with("rows 1 to 1: k: "));
        assert!(bad(b"1\ta\tperhaps\t1\n").contains("b is no bool"));
        assert!(bad(b"1\t\xff\tt\t1\n").contains("s is not UTF-8"));
        let quoted = read(&csv("", CopyHeader::Absent), b"1,\"a", 1).expect_err("not whole");
        assert!(quoted.text().contains("not whole"));
    }

    /// The header, and PostgreSQL's error for it; columns are `k`, `s`, `b` and `d`.
    #[test]
    fn headers_are_compared() {
        let wrong = "wrong number of fields in header line: got";
        let other = "column name mismatch in header line field";
        let cases: &[(CopyFormat, &[u8], &str)] = &[
            (csv("", CopyHeader::Match), b"k,\"s\",b,d\n1,x,t,2\n", ""),
            (csv("", CopyHeader::Match), b"k,s,b,d", ""),
            (csv("", CopyHeader::Match), b"k,s,b,d\r\n", ""),
            (
                csv("", CopyHeader::Match),
                b"k,S,b,d\n",
                &format!("{other} 2: got \"S\", expected \"s\""),
            ),
            (csv("", CopyHeader::Match), b"k,s,b\n", &format!("{wrong} 3, expected 4")),
            (csv("", CopyHeader::Match), b"", &format!("{wrong} 1, expected 4")),
            (csv("", CopyHeader::Match), b"\n", &format!("{wrong} 1, expected 4")),
            (
                csv("", CopyHeader::Match),
                b",s,b,d\n",
                &format!("{other} 1: got null value (\"\"), expected \"k\""),
            ),
            (
                csv("NULL", CopyHeader::Match),
                b"k,NULL,b,d\n",
                &format!("{other} 2: got null value (\"NULL\"), expected \"s\""),
            ),
            (csv("", CopyHeader::Names), b"anything\n", ""),
            (csv("", CopyHeader::Names), b"", ""),
        ];
        for (format, bytes, said) in cases {
            for size in [1, 3, 1000] {
                let text = read(format, bytes, size).err().map(|failure| failure.text().to_owned());
                let shown = String::from_utf8_lossy(bytes);
                assert_eq!(text.unwrap_or_default(), *said, "{shown:?}");
            }
        }
        let lines = |null: &str| {
            let (null, header) = (null.to_owned(), CopyHeader::Match);
            CopyFormat::Text { delimiter: b'\t', null, header }
        };
        assert!(read(&lines("\\N"), b"k\t\\x73\tb\td\n1\tx\tt\t2\n", 2).is_ok(), "an escaped s");
        let failure = read(&lines("\\N"), b"k\t\\N\tb\td\n", 2).expect_err("a null");
        assert_eq!(failure.state(), SqlState::BAD_COPY);
        assert_eq!(failure.text(), format!("{other} 2: got null value (\"\\N\"), expected \"s\""));
        let failure = read(&lines("\\N"), b"\\.\n", 2).expect_err("the end");
        assert_eq!(failure.text(), format!("{wrong} 1, expected 4"));
    }
}
