//! Columns of a table, and their places in the data files.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::parquet::transform_schema_to_view;
use datafusion::datasource::table_schema::TableSchema;
use delta_kernel::Snapshot;
use delta_kernel::engine::arrow_conversion::TryIntoArrow as _;
use delta_kernel::schema::{DataType as DeltaType, PrimitiveType, StructField};

use super::names::Names;

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    /// The columns in the order of the table, and that of file names behind them.
    pub(super) schema: SchemaRef,
    /// The columns of the data files, and behind them those that are constant in each file.
    pub(super) files: TableSchema,
    /// Source of each column of `schema`.
    sources: Vec<Source>,
    /// Names of the partition columns in the log. A column of file names is behind them.
    pub(super) partitions: Vec<String>,
    /// True if the last column has file names.
    pub(super) has_filename: bool,
    /// Names of the columns in the data files.
    pub(super) names: Names,
}

/// Source of the values of a column.
#[derive(Clone, Debug)]
enum Source {
    /// The column of the data files at this place, and its name in them and in the log.
    File { place: usize, name: String },
    /// The constant of each file at this place.
    Constant(usize),
}

/// Source of the statistics of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// The log, by this name.
    Log(&'a str),
    /// The constant of each file at this place.
    Constant(usize),
}

impl Columns {
    /// The columns of a version of a table, and of file names if there is a name for that column.
    ///
    /// # Errors
    /// Types that are not supported, and a name that the table has.
    pub(super) fn of(name: &str, snapshot: &Snapshot, filename: Option<&str>) -> Result<Self> {
        let table = snapshot.table_configuration();
        let names = Names::new(snapshot.schema(), table.column_mapping_mode());
        let keys = table.logical_partition_columns();
        let (mut own, mut constant) = (vec![], vec![]);
        let (mut sources, mut partitions) = (vec![], vec![]);
        for column in snapshot.schema().fields() {
            refuse_unknown(name, column.name(), column.data_type())?;
            let field = field_of(column)?;
            let known = column.physical_name(names.mode()).to_owned();
            if keys.iter().any(|key| key.eq_ignore_ascii_case(column.name())) {
                sources.push(Source::Constant(constant.len()));
                constant.push(field);
                partitions.push(known);
            } else {
                sources.push(Source::File { place: own.len(), name: known });
                own.push(field);
            }
        }
        if let Some(filename) = filename {
            if own.iter().chain(&constant).any(|field| field.name() == filename) {
                return plan_err!(
                    "Delta table {name} has a column {filename}; name another one for the names \
                     of files: filename = 'file_name'"
                );
            }
            sources.push(Source::Constant(constant.len()));
            constant.push(Field::new(filename, DataType::Utf8, true));
        }
        let own = Arc::new(transform_schema_to_view(&Schema::new(own)));
        let constant = transform_schema_to_view(&Schema::new(constant));
        let of_source = |source: &Source| match source {
            Source::File { place, .. } => Arc::clone(&own.fields()[*place]),
            Source::Constant(place) => Arc::clone(&constant.fields()[*place]),
        };
        let schema = Schema::new(sources.iter().map(of_source).collect::<Vec<FieldRef>>());
        let constant = constant.fields().iter().cloned().collect::<Vec<_>>();
        let files = TableSchema::builder(own).with_table_partition_cols(constant).build();
        let (schema, has_filename) = (Arc::new(schema), filename.is_some());
        Ok(Self { schema, files, sources, partitions, has_filename, names })
    }

    /// The place of each column of a projection among those of the files.
    pub(super) fn places(&self, projection: Option<&Vec<usize>>) -> Vec<usize> {
        let own = self.files.file_schema().fields().len();
        let place = |source: &Source| match source {
            Source::File { place, .. } => *place,
            Source::Constant(place) => own + place,
        };
        match projection {
            Some(columns) => columns.iter().map(|column| place(&self.sources[*column])).collect(),
            None => self.sources.iter().map(place).collect(),
        }
    }

    /// The source of the statistics of the column of this name, and its type.
    pub(super) fn known(&self, name: &str) -> Option<(Known<'_>, &DataType)> {
        let index = self.schema.index_of(name).ok()?;
        let known = match &self.sources[index] {
            Source::File { name, .. } => Known::Log(name),
            Source::Constant(place) => Known::Constant(*place),
        };
        Some((known, self.schema.field(index).data_type()))
    }

    /// The type of the constant at this place.
    pub(super) fn constant_type(&self, place: usize) -> Option<&DataType> {
        self.files.table_partition_cols().get(place).map(|field| field.data_type())
    }
}

/// Refuses types that are read as something else than they are.
fn refuse_unknown(table: &str, column: &str, data_type: &DeltaType) -> Result<()> {
    let refused = match data_type {
        DeltaType::Array(array) => return refuse_unknown(table, column, array.element_type()),
        DeltaType::Map(map) => {
            refuse_unknown(table, column, map.key_type())?;
            return refuse_unknown(table, column, map.value_type());
        }
        DeltaType::Struct(fields) => {
            let mut fields = fields.fields();
            return fields.try_for_each(|field| {
                let column = format!("{column}.{}", field.name());
                refuse_unknown(table, &column, field.data_type())
            });
        }
        DeltaType::Primitive(PrimitiveType::IntervalYearMonth | PrimitiveType::IntervalDayTime) => {
            "interval"
        }
        DeltaType::Primitive(_) => return Ok(()),
        DeltaType::Variant(_) => "variant",
    };
    plan_err!(
        "Delta table {table} is not read: its column {column} has the type {refused}; let the \
         engine that wrote the table write the column as another type, such as STRING"
    )
}

/// The column as the planner sees it: without the metadata of writers, and nullable, since older
/// files may lack it.
fn field_of(column: &StructField) -> Result<Field> {
    let field: Field = column.try_into_arrow()?;
    Ok(nullable(&field))
}

fn nullable(field: &Field) -> Field {
    let of_all = |fields: &[FieldRef]| fields.iter().map(|field| nullable(field)).collect();
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(of_all(fields)),
        DataType::List(element) => DataType::List(Arc::new(nullable(element))),
        DataType::Map(entries, is_sorted) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => {
                let key = nullable(&parts[0]).with_nullable(false);
                let parts = vec![key, nullable(&parts[1])];
                let entries = DataType::Struct(parts.into());
                DataType::Map(Arc::new(Field::new("key_value", entries, false)), *is_sorted)
            }
            _ => field.data_type().clone(),
        },
        data_type => data_type.clone(),
    };
    Field::new(field.name(), data_type, true)
}
