//! Commits of a log, which are JSON.

use std::io::BufReader;
use std::sync::Arc;

use delta_kernel::arrow::json::ReaderBuilder;
use delta_kernel::engine::arrow_utils::{
    build_json_reorder_indices, fixup_json_read, json_arrow_schema, parse_json,
};
use delta_kernel::schema::SchemaRef;
use delta_kernel::{
    EngineData, FileDataReadResultIterator, FileMeta, FileSize, FilteredEngineData, JsonHandler,
    KernelError, KernelResult, KernelResultIterator, PredicateRef,
};
use url::Url;

use super::errors::of_file;
use super::log_files::{LogFiles, in_turn};
use crate::file_tables::input::open_raw;

/// Reads commits.
pub(super) struct Commits(Arc<LogFiles>);

impl Commits {
    /// Reads the commits among these files.
    pub(super) fn new(files: Arc<LogFiles>) -> Self {
        Self(files)
    }
}

/// The actions of a commit, a batch of them at a time.
fn batches(
    files: &LogFiles,
    meta: &FileMeta,
    schema: &SchemaRef,
) -> KernelResult<FileDataReadResultIterator> {
    let columns = Arc::new(json_arrow_schema(schema)?);
    let order = build_json_reorder_indices(schema)?;
    let file = files.file(meta)?;
    let input = BufReader::new(open_raw(&file).map_err(|error| of_file(&error))?);
    let reader = ReaderBuilder::new(columns).with_coerce_primitive(true).build(input)?;
    let (name, url) = (file.name(), meta.location.to_string());
    Ok(Box::new(reader.map(move |batch| {
        let failed = |error| KernelError::generic(format!("cannot read {name}: {error}"));
        let data = fixup_json_read(batch.map_err(failed)?, &order, &url)?;
        Ok(Box::new(data) as Box<dyn EngineData>)
    })))
}

impl JsonHandler for Commits {
    fn parse_json(
        &self,
        json_strings: Box<dyn EngineData>,
        output_schema: SchemaRef,
    ) -> KernelResult<Box<dyn EngineData>> {
        parse_json(json_strings, output_schema)
    }

    fn read_json_files(
        &self,
        files: &[FileMeta],
        physical_schema: SchemaRef,
        _predicate: Option<PredicateRef>,
    ) -> KernelResult<FileDataReadResultIterator> {
        let log = Arc::clone(&self.0);
        Ok(in_turn(files, move |file| batches(&log, file, &physical_schema)))
    }

    fn write_json_file(
        &self,
        path: &Url,
        _: KernelResultIterator<'_, FilteredEngineData>,
        _: bool,
    ) -> KernelResult<FileSize> {
        Err(KernelError::generic(format!("cannot write {path}: delta_scan reads tables alone")))
    }
}
