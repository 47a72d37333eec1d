//! Reader of a file of delimited values: blocks of rows, each with as many values as the file has
//! columns.

use std::io::Read;
use std::sync::Arc;

use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::super::scan::{Block, Reader};
use super::decode::CsvBlock;
use super::dialect::{Dialect, Step, Value};
use super::lines::lines_in;
use super::plan::FilePlan;

/// Number of rows, or of bytes, that completes a block.
const BLOCK_ROWS: usize = 8_192;
const BLOCK_BYTES: usize = 256 << 10;

/// Reader of a file of delimited values.
pub(super) struct CsvReader {
    input: Box<dyn Read + Send>,
    plan: Arc<FilePlan>,
    buffer: Vec<u8>,
    is_end: bool,
    /// Number of the line at the beginning of the buffer, from 1.
    line: u64,
}

impl CsvReader {
    /// A reader at the beginning of `input`.
    pub(super) fn new(input: Box<dyn Read + Send>, plan: Arc<FilePlan>) -> Self {
        Self { input, plan, buffer: vec![], is_end: false, line: 1 }
    }

    /// Sets the columns of the following rows.
    pub(super) fn set_plan(&mut self, plan: Arc<FilePlan>) {
        self.plan = plan;
    }

    /// Reads more bytes: as many as there are already, so that a long row is searched for its end
    /// a few times only.
    fn fill(&mut self) -> Result<()> {
        let more = self.buffer.len().max(BLOCK_BYTES);
        let mut input = self.input.by_ref().take(u64::try_from(more).unwrap_or(u64::MAX));
        let failed = |error| exec_datafusion_err!("cannot read {}: {error}", self.plan.name);
        let read = input.read_to_end(&mut self.buffer).map_err(failed)?;
        self.is_end = read < more;
        Ok(())
    }

    /// Skips lines, whatever they contain.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn skip_lines(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            loop {
                let end = self.buffer.iter().position(|byte| *byte == b'\n');
                if let Some(end) = end {
                    self.drop_bytes(end + 1);
                    break;
                }
                if self.is_end {
                    self.buffer.clear();
                    return Ok(());
                }
                self.refuse_long_row(0)?;
                self.fill()?;
            }
        }
        Ok(())
    }

    /// Reads one row, such as the header; `None` at the end of the file.
    ///
    /// # Errors
    /// Errors of the file and a malformed row.
    pub(super) fn row<T>(
        &mut self,
        read: impl FnOnce(&Dialect, &[u8], &[Value]) -> T,
    ) -> Result<Option<T>> {
        let mut values = vec![];
        loop {
            if self.buffer.is_empty() && self.is_end {
                return Ok(None);
            }
            let dialect = &self.plan.dialect;
            let step = match self.buffer.is_empty() {
                true => Step::Incomplete,
                false => dialect.row(&self.buffer, 0, self.is_end, &mut values),
            };
            match step {
                Step::Row(next) => {
                    let row = read(dialect, &self.buffer, &values);
                    self.drop_bytes(next);
                    return Ok(Some(row));
                }
                Step::Comment(next) => self.drop_bytes(next),
                Step::End => return Ok(None),
                Step::Incomplete => {
                    self.refuse_long_row(0)?;
                    self.fill()?;
                }
                Step::Malformed(_, what) => return self.refuse(0, what),
            }
        }
    }

    fn drop_bytes(&mut self, count: usize) {
        self.line += lines_in(&self.buffer[..count]);
        self.buffer.drain(..count);
    }

    fn refuse<T>(&self, at: usize, what: &str) -> Result<T> {
        let line = self.line + lines_in(&self.buffer[..at]);
        exec_err!("{}, line {line}: {what}", self.plan.name)
    }

    /// Refuses a row that is incomplete after the maximum length.
    fn refuse_long_row(&self, at: usize) -> Result<()> {
        let most = self.plan.row_bytes_max;
        if self.buffer.len() - at <= most {
            return Ok(());
        }
        let what = format!(
            "the row has more than {most} bytes; a quote in it may not be closed, or say \
             max_line_size = a greater number of bytes"
        );
        self.refuse(at, &what)
    }

    /// Reads the rows of the next block from the beginning of the buffer, and adds their values to
    /// `values`. Returns the position behind the last row.
    fn rows(&mut self, values: &mut Vec<Value>) -> Result<usize> {
        let (width, mut at, mut rows) = (self.plan.width, 0, 0);
        while rows < BLOCK_ROWS && (at < BLOCK_BYTES || rows == 0) {
            if at == self.buffer.len() && self.is_end {
                break;
            }
            let first = values.len();
            let step = match at == self.buffer.len() {
                true => Step::Incomplete,
                false => self.plan.dialect.row(&self.buffer, at, self.is_end, values),
            };
            match step {
                Step::Row(next) => {
                    if self.keep(at, first, values, width)? {
                        rows += 1;
                    }
                    at = next;
                }
                Step::Comment(next) => at = next,
                Step::End => {
                    // Nothing behind the mark is read.
                    self.buffer.truncate(at);
                    self.is_end = true;
                    self.input = Box::new(std::io::empty());
                    break;
                }
                Step::Incomplete => {
                    self.refuse_long_row(at)?;
                    if rows > 0 {
                        break;
                    }
                    self.fill()?;
                }
                Step::Malformed(next, _) if self.plan.ignore_errors => at = next,
                Step::Malformed(_, what) => return self.refuse(at, what),
            }
        }
        Ok(at)
    }

    /// Checks the number of values of the row that begins at `at`. Returns false if the row is
    /// skipped.
    fn keep(&self, at: usize, first: usize, values: &mut Vec<Value>, width: usize) -> Result<bool> {
        let found = values.len() - first;
        if found == width {
            return Ok(true);
        }
        if super::sniff::is_blank(&values[first..]) {
            values.truncate(first);
            return Ok(false);
        }
        if found < width && self.plan.null_padding {
            values.resize(first + width, Value { is_absent: true, ..Value::default() });
            return Ok(true);
        }
        values.truncate(first);
        if self.plan.ignore_errors {
            return Ok(false);
        }
        self.refuse(at, &self.plan.wrong_width(found))
    }
}

impl Reader for CsvReader {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        Ok(self.next_rows()?.map(|block| Box::new(block) as _))
    }
}

impl CsvReader {
    /// Returns the next rows; `None` at the end of the file.
    ///
    /// # Errors
    /// Errors of the file, and rows that are malformed or have another number of values.
    pub(super) fn next_rows(&mut self) -> Result<Option<CsvBlock>> {
        let mut values = vec![];
        let end = self.rows(&mut values)?;
        if values.is_empty() && end == self.buffer.len() && self.is_end {
            self.buffer = vec![];
            return Ok(None);
        }
        let rest = self.buffer.split_off(end);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let line = self.line;
        self.line += lines_in(&bytes);
        Ok(Some(CsvBlock { plan: Arc::clone(&self.plan), bytes, values, line }))
    }
}
