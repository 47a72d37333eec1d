//! Table functions about files: `glob`, `parquet_metadata` and `parquet_schema`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    Array as _, ArrayRef, Int64Builder, RecordBatch, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::basic::{LogicalType, Type as PhysicalType};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use datafusion::parquet::schema::types::Type;
use datafusion::physical_plan::ExecutionPlan;

use super::arguments::Arguments;
use super::found;
use super::parquet_file::footer;
use super::read_csv::files;

/// Table with the computed rows of `glob`, `parquet_metadata` or `parquet_schema`.
#[derive(Debug)]
pub(crate) struct FileFacts {
    batch: RecordBatch,
}

#[async_trait]
impl TableProvider for FileFacts {
    fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batches = [vec![self.batch.clone()]];
        Ok(MemorySourceConfig::try_new_exec(&batches, self.schema(), projection.cloned())?)
    }
}

/// A value of such a table.
enum Fact {
    Text(Option<String>),
    Number(Option<i64>),
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<i64> for Fact {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

/// The names of the columns of such a table, and its rows.
struct Facts {
    names: &'static [&'static str],
    rows: Vec<Vec<Fact>>,
}

impl Facts {
    fn table(self, is_number: impl Fn(&str) -> bool) -> Result<Arc<dyn TableProvider>> {
        let (mut fields, mut columns) = (vec![], Vec::<ArrayRef>::new());
        for (place, name) in self.names.iter().enumerate() {
            let values = self.rows.iter().map(|row| &row[place]);
            if is_number(name) {
                let mut builder = Int64Builder::new();
                values.for_each(|fact| match fact {
                    Fact::Number(number) => builder.append_option(*number),
                    Fact::Text(_) => builder.append_null(),
                });
                fields.push(Field::new(*name, DataType::Int64, true));
                columns.push(Arc::new(builder.finish()));
            } else {
                let mut builder = StringViewBuilder::new();
                values.for_each(|fact| match fact {
                    Fact::Text(text) => builder.append_option(text.as_deref()),
                    Fact::Number(number) => {
                        builder.append_option(number.map(|number| number.to_string()));
                    }
                });
                fields.push(Field::new(*name, DataType::Utf8View, true));
                columns.push(Arc::new(builder.finish()));
            }
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok(Arc::new(FileFacts { batch }))
    }
}

/// The table of a call of `glob`: the files that patterns stand for.
///
/// # Errors
/// Options, of which there are none, and malformed patterns.
pub(super) fn glob(
    arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    arguments.finish("none")?;
    let mut rows = vec![];
    for pattern in &arguments.paths {
        let found = found::find(pattern, &arguments.cloud)?;
        rows.extend(found.iter().map(|file| vec![Fact::from(file.name())]));
    }
    Facts { names: &["file"], rows }.table(|_| false)
}

/// Columns of `parquet_metadata`, as in DuckDB.
const METADATA: &[&str] = &[
    "file_name",
    "row_group_id",
    "row_group_num_rows",
    "row_group_num_columns",
    "row_group_bytes",
    "column_id",
    "file_offset",
    "num_values",
    "path_in_schema",
    "type",
    "stats_min",
    "stats_max",
    "stats_null_count",
    "stats_distinct_count",
    "stats_min_value",
    "stats_max_value",
    "compression",
    "encodings",
    "index_page_offset",
    "dictionary_page_offset",
    "data_page_offset",
    "total_compressed_size",
    "total_uncompressed_size",
];
/// Columns of `parquet_metadata` that are texts.
const METADATA_TEXTS: &[&str] = &[
    "file_name",
    "path_in_schema",
    "type",
    "stats_min",
    "stats_max",
    "stats_min_value",
    "stats_max_value",
    "compression",
    "encodings",
];

/// The table of a call of `parquet_metadata`: the column chunks of the row groups.
///
/// # Errors
/// Options, of which there are none, missing files, and errors of the files.
pub(super) fn parquet_metadata(
    arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    arguments.finish("none")?;
    let mut rows = vec![];
    for file in files(&arguments.paths, &arguments.cloud)? {
        let footer = footer(&file)?;
        for (number, group) in (0..).zip(footer.metadata().row_groups()) {
            for (column, chunk) in group.columns().iter().enumerate() {
                let mut row = vec![Fact::from(file.name()), Fact::from(number)];
                row.extend(facts_of_group(group));
                row.extend(facts_of_chunk(&footer, group, column, chunk)?);
                rows.push(row);
            }
        }
    }
    Facts { names: METADATA, rows }.table(|name| !METADATA_TEXTS.contains(&name))
}

fn facts_of_group(group: &RowGroupMetaData) -> [Fact; 3] {
    let columns = i64::try_from(group.num_columns()).ok();
    [group.num_rows().into(), Fact::Number(columns), group.total_byte_size().into()]
}

fn facts_of_chunk(
    footer: &ArrowReaderMetadata,
    group: &RowGroupMetaData,
    column: usize,
    chunk: &ColumnChunkMetaData,
) -> Result<Vec<Fact>> {
    let (least, greatest) = bounds(footer, group, chunk)?;
    let count = |count: Option<u64>| Fact::Number(count.and_then(|it| i64::try_from(it).ok()));
    let statistics = chunk.statistics();
    let encodings: Vec<String> = chunk.encodings().map(|encoding| encoding.to_string()).collect();
    // DuckDB names a codec without its level.
    let compression = chunk.compression_codec().to_string();
    Ok(vec![
        Fact::Number(i64::try_from(column).ok()),
        chunk.file_offset().into(),
        chunk.num_values().into(),
        chunk.column_path().string().into(),
        chunk.column_type().to_string().into(),
        Fact::Text(least.clone()),
        Fact::Text(greatest.clone()),
        count(statistics.and_then(|it| it.null_count_opt())),
        count(statistics.and_then(|it| it.distinct_count_opt())),
        Fact::Text(least),
        Fact::Text(greatest),
        compression.into(),
        encodings.join(", ").into(),
        Fact::Number(chunk.index_page_offset()),
        Fact::Number(chunk.dictionary_page_offset()),
        chunk.data_page_offset().into(),
        chunk.compressed_size().into(),
        chunk.uncompressed_size().into(),
    ])
}

/// The least and the greatest value of a chunk, as texts; `None` for nested columns.
fn bounds(
    footer: &ArrowReaderMetadata,
    group: &RowGroupMetaData,
    chunk: &ColumnChunkMetaData,
) -> Result<(Option<String>, Option<String>)> {
    let [name] = chunk.column_path().parts() else { return Ok((None, None)) };
    let descriptor = footer.metadata().file_metadata().schema_descr();
    let failed = |error| exec_datafusion_err!("statistics of {name}: {error}");
    let converter =
        StatisticsConverter::try_new(name, footer.schema(), descriptor).map_err(failed)?;
    let text = |array: ArrayRef| match array.is_empty() || array.is_null(0) {
        true => Ok(None),
        false => array_value_to_string(&array, 0).map(Some),
    };
    let least = converter.row_group_mins([group]).map_err(failed)?;
    let greatest = converter.row_group_maxes([group]).map_err(failed)?;
    Ok((text(least)?, text(greatest)?))
}

/// Columns of `parquet_schema`, as in DuckDB.
const SCHEMA: &[&str] = &[
    "file_name",
    "name",
    "type",
    "type_length",
    "repetition_type",
    "num_children",
    "converted_type",
    "scale",
    "precision",
    "field_id",
    "logical_type",
];
/// Columns of `parquet_schema` that are numbers.
const SCHEMA_NUMBERS: &[&str] = &["num_children", "scale", "precision", "field_id"];

/// The table of a call of `parquet_schema`: the elements of the schema, depth first.
///
/// # Errors
/// Options, of which there are none, missing files, and errors of the files.
pub(super) fn parquet_schema(
    arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    arguments.finish("none")?;
    let mut rows = vec![];
    for file in files(&arguments.paths, &arguments.cloud)? {
        let footer = footer(&file)?;
        // Files with deep schemas are refused when they are opened; a stack needs no limit.
        let mut open = vec![footer.metadata().file_metadata().schema_descr().root_schema_ptr()];
        while let Some(element) = open.pop() {
            let mut row = vec![Fact::from(file.name())];
            row.extend(facts_of_element(&element));
            rows.push(row);
            if element.is_group() {
                open.extend(element.get_fields().iter().rev().cloned());
            }
        }
    }
    Facts { names: SCHEMA, rows }.table(|name| SCHEMA_NUMBERS.contains(&name))
}

fn facts_of_element(element: &Type) -> Vec<Fact> {
    let info = element.get_basic_info();
    let physical = element.is_primitive().then(|| element.get_physical_type());
    let length = match element {
        Type::PrimitiveType { type_length, .. }
            if physical == Some(PhysicalType::FIXED_LEN_BYTE_ARRAY) =>
        {
            Some(type_length.to_string())
        }
        _ => None,
    };
    let (scale, precision) = match element {
        Type::PrimitiveType { scale, precision, .. } if *precision > 0 => {
            (Some(i64::from(*scale)), Some(i64::from(*precision)))
        }
        _ => (None, None),
    };
    let children = element.is_group().then(|| i64::try_from(element.get_fields().len()).ok());
    let repetition = match info.has_repetition() {
        true => info.repetition().to_string(),
        false => "REQUIRED".to_owned(),
    };
    let converted = info.converted_type().to_string();
    let logical = info.logical_type_ref().map(|logical: &LogicalType| format!("{logical:?}"));
    vec![
        element.name().to_owned().into(),
        Fact::Text(physical.map(|physical| physical.to_string())),
        Fact::Text(length),
        repetition.into(),
        Fact::Number(children.flatten()),
        Fact::Text((converted != "NONE").then_some(converted)),
        Fact::Number(scale),
        Fact::Number(precision),
        Fact::Number(info.has_id().then(|| i64::from(info.id()))),
        Fact::Text(logical),
    ]
}
