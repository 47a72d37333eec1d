//! Removal of the bounds of floating-point columns, which ignore NaN, from Parquet metadata.
//!
//! Writers leave NaN out of the least and greatest value of a column, and NaN is the greatest
//! number here. A file whose other values are all 1.5 would be read as 1.5 throughout, and groups
//! of rows with NaN would be left out by `v > 2`. So these bounds are taken out of the metadata
//! before DataFusion sees it; counts of nulls stay.

use std::sync::Arc;

use datafusion::parquet::basic::{LogicalType, Type as PhysicalType};
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;
use datafusion::parquet::file::statistics::Statistics;

/// Returns metadata without the bounds of floating-point columns.
///
/// # Errors
/// If the metadata contradicts itself.
pub(super) fn without_float_bounds(
    metadata: Arc<ParquetMetaData>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let is_float: Vec<bool> = columns
        .iter()
        .map(|column| match column.physical_type() {
            PhysicalType::FLOAT | PhysicalType::DOUBLE => true,
            _ => column.logical_type_ref() == Some(&LogicalType::Float16),
        })
        .collect();
    if !is_float.contains(&true) {
        return Ok(metadata);
    }
    let groups = metadata.row_groups().iter();
    let groups = groups.map(boundless_group).collect::<ParquetResult<Vec<_>>>()?;
    let index = metadata.column_index().map(|groups| {
        let boundless = |columns: &Vec<ColumnIndexMetaData>| {
            let columns = columns.iter().zip(&is_float);
            let columns = columns.map(|(index, is_float)| match is_float {
                true => ColumnIndexMetaData::NONE,
                false => index.clone(),
            });
            columns.collect()
        };
        groups.iter().map(boundless).collect()
    });
    let builder = metadata.as_ref().clone().into_builder();
    Ok(Arc::new(builder.set_row_groups(groups).set_column_index(index).build()))
}

fn boundless_group(group: &RowGroupMetaData) -> ParquetResult<RowGroupMetaData> {
    let columns = group.columns().iter().map(boundless_column);
    let columns = columns.collect::<ParquetResult<Vec<_>>>()?;
    group.clone().into_builder().set_column_metadata(columns).build()
}

fn boundless_column(column: &ColumnChunkMetaData) -> ParquetResult<ColumnChunkMetaData> {
    let known = column.statistics();
    let (nulls, distinct) = (
        known.and_then(Statistics::null_count_opt),
        known.and_then(Statistics::distinct_count_opt),
    );
    let builder = column.clone().into_builder();
    let builder = match column.column_type() {
        PhysicalType::FLOAT => {
            builder.set_statistics(Statistics::float(None, None, distinct, nulls, false))
        }
        PhysicalType::DOUBLE => {
            builder.set_statistics(Statistics::double(None, None, distinct, nulls, false))
        }
        _ if column.column_descr().logical_type_ref() == Some(&LogicalType::Float16) => {
            builder.clear_statistics()
        }
        _ => return Ok(column.clone()),
    };
    // Without its place, the index of pages is not read.
    builder.set_column_index_offset(None).set_column_index_length(None).build()
}
