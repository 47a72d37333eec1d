//! Names of columns in data files, which differ from those of the table with column mapping.
//!
//! A table with column mapping can rename and remove columns without writing its files again: a
//! column has a name in the files, or a number, that stays the same. The metadata of a file is
//! changed when it is read, so that its columns have the names of the table, at any depth. Pages
//! have no names, so that nothing else has to know of it.

use std::sync::Arc;

use datafusion::parquet::arrow::ARROW_SCHEMA_META_KEY;
use datafusion::parquet::errors::Result;
use datafusion::parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use datafusion::parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use delta_kernel::schema::{DataType, SchemaRef, StructField, StructType};
use delta_kernel::table_features::ColumnMappingMode;

use crate::file_tables::float_bounds::without_float_bounds;
use crate::file_tables::metadata_readers::EditMetadata;

/// Beginning of the name of a column of a file that the table has not: no column of a table has
/// it.
const FOREIGN: char = '\0';

/// The names of columns in data files.
#[derive(Clone, Debug)]
pub(super) struct Names {
    columns: SchemaRef,
    mode: ColumnMappingMode,
}

impl Names {
    /// The names of the columns of a table.
    pub(super) fn new(columns: SchemaRef, mode: ColumnMappingMode) -> Self {
        Self { columns, mode }
    }

    /// The means by which a column of a file is found.
    pub(super) fn mode(&self) -> ColumnMappingMode {
        self.mode
    }

    /// The changes of the metadata of a file that the reader makes: names, and bounds that say
    /// nothing.
    pub(super) fn edit(&self) -> EditMetadata {
        let names = self.clone();
        match self.mode {
            ColumnMappingMode::None => Arc::new(without_float_bounds),
            _ => Arc::new(move |metadata: Arc<ParquetMetaData>| {
                without_float_bounds(names.of_table(&metadata)?)
            }),
        }
    }

    /// Returns the metadata of a file with the names of the table.
    fn of_table(&self, metadata: &ParquetMetaData) -> Result<Arc<ParquetMetaData>> {
        let file = metadata.file_metadata();
        let root = file.schema_descr().root_schema();
        let fields = self.of_group(root.get_fields(), &self.columns)?;
        let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
        // Types of writers are stored with the names of the file.
        let pairs = file.key_value_metadata().map(|pairs| {
            let pairs = pairs.iter().filter(|pair| pair.key != ARROW_SCHEMA_META_KEY);
            pairs.cloned().collect()
        });
        let renamed = FileMetaData::new(
            file.version(),
            file.num_rows(),
            file.created_by().map(str::to_owned),
            pairs,
            Arc::new(SchemaDescriptor::new(Arc::new(root))),
            file.column_orders().cloned(),
        );
        let builder = ParquetMetaDataBuilder::new(renamed)
            .set_row_groups(metadata.row_groups().to_vec())
            .set_column_index(metadata.column_index().cloned())
            .set_offset_index(metadata.offset_index().cloned());
        Ok(Arc::new(builder.build()))
    }

    /// The fields of a file with the names of `columns`.
    fn of_group(&self, fields: &[TypePtr], columns: &StructType) -> Result<Vec<TypePtr>> {
        let named = fields.iter().map(|field| match self.column(field, columns) {
            Some(column) => self.of_field(field, column.name(), column.data_type()),
            None => with_name(field, &format!("{FOREIGN}{}", field.name()), None),
        });
        named.collect()
    }

    /// The column of a field of a file.
    fn column<'a>(&self, field: &Type, columns: &'a StructType) -> Option<&'a StructField> {
        let info = field.get_basic_info();
        let mut columns = columns.fields();
        if self.mode == ColumnMappingMode::Id && info.has_id() {
            return columns.find(|column| column.column_mapping_id() == Some(i64::from(info.id())));
        }
        columns.find(|column| column.physical_name(self.mode) == field.name())
    }

    /// A field by another name, with the names of the table below it.
    fn of_field(&self, field: &TypePtr, name: &str, data_type: &DataType) -> Result<TypePtr> {
        let Type::GroupType { fields, .. } = field.as_ref() else {
            return with_name(field, name, None);
        };
        let fields = match (data_type, fields.as_slice()) {
            (DataType::Struct(columns), fields) => self.of_group(fields, columns)?,
            (DataType::Array(array), [repeated]) => {
                vec![self.of_repeated(repeated, array.element_type())?]
            }
            (DataType::Map(map), [repeated]) => match repeated.as_ref() {
                Type::GroupType { fields, .. } if fields.len() == 2 => {
                    let key = self.of_field(&fields[0], fields[0].name(), map.key_type())?;
                    let value = self.of_field(&fields[1], fields[1].name(), map.value_type())?;
                    vec![with_name(repeated, repeated.name(), Some(vec![key, value]))?]
                }
                _ => vec![Arc::clone(repeated)],
            },
            (_, fields) => fields.to_vec(),
        };
        with_name(field, name, Some(fields))
    }

    /// The repeated field of a list, which is the element itself in files of old writers.
    fn of_repeated(&self, repeated: &TypePtr, element: &DataType) -> Result<TypePtr> {
        let name = repeated.name();
        match repeated.as_ref() {
            Type::GroupType { fields, .. }
                if fields.len() == 1 && name != "array" && !name.ends_with("_tuple") =>
            {
                let inner = self.of_field(&fields[0], fields[0].name(), element)?;
                with_name(repeated, name, Some(vec![inner]))
            }
            _ => self.of_field(repeated, name, element),
        }
    }
}

/// A field by another name and without its number, and a group with other fields.
fn with_name(field: &TypePtr, name: &str, fields: Option<Vec<TypePtr>>) -> Result<TypePtr> {
    let info = field.get_basic_info();
    let logical = info.logical_type_ref().cloned();
    let renamed = match field.as_ref() {
        Type::GroupType { fields: own, .. } => Type::group_type_builder(name)
            .with_repetition(info.repetition())
            .with_converted_type(info.converted_type())
            .with_logical_type(logical)
            .with_fields(fields.unwrap_or_else(|| own.clone()))
            .build()?,
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            Type::primitive_type_builder(name, *physical_type)
                .with_repetition(info.repetition())
                .with_converted_type(info.converted_type())
                .with_logical_type(logical)
                .with_length(*type_length)
                .with_precision(*precision)
                .with_scale(*scale)
                .build()?
        }
    };
    Ok(Arc::new(renamed))
}
