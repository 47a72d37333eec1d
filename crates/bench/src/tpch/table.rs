//! The eight tables: names, definitions, row counts.

use std::fmt;
use std::str::FromStr;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use tpchgen::generators::{
    CustomerGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::error::BenchError;

/// A table of the TPC-H schema, in the order in which they are loaded: small ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Five regions, at every scale.
    Region,
    /// Twenty-five nations, at every scale.
    Nation,
    /// 10,000 suppliers per unit of scale.
    Supplier,
    /// 200,000 parts per unit of scale.
    Part,
    /// Four suppliers of each part.
    PartSupp,
    /// 150,000 customers per unit of scale.
    Customer,
    /// 1,500,000 orders per unit of scale.
    Orders,
    /// One to seven lines of each order.
    LineItem,
}

impl Table {
    /// Every table, in loading order.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Part,
        Table::PartSupp,
        Table::Customer,
        Table::Orders,
        Table::LineItem,
    ];

    /// The name SQL knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Part => "part",
            Table::PartSupp => "partsupp",
            Table::Customer => "customer",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }

    /// Its columns. Every column is NOT NULL, as clause 1.4.1 wants.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Region => RegionArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::PartSupp => PartSuppArrow::schema_ref(),
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::LineItem => LineItemArrow::schema_ref(),
        }
    }

    /// The `CREATE TABLE` statement that gives [`Table::schema`].
    pub fn definition(self) -> String {
        let columns: Vec<String> = self
            .schema()
            .fields()
            .iter()
            .map(|field| format!("{} {} NOT NULL", field.name(), sql_type(field.data_type())))
            .collect();
        format!("CREATE TABLE {} ({})", self.name(), columns.join(", "))
    }

    /// Rows at a scale. `None` for `lineitem`, whose count only generating it tells.
    pub fn row_count(self, scale: f64) -> Option<u64> {
        let rows = match self {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Supplier => SupplierGenerator::calculate_row_count(scale, 1, 1),
            Table::Part => PartGenerator::calculate_row_count(scale, 1, 1),
            Table::PartSupp => PartSuppGenerator::calculate_row_count(scale, 1, 1) * 4,
            Table::Customer => CustomerGenerator::calculate_row_count(scale, 1, 1),
            Table::Orders => OrderGenerator::calculate_row_count(scale, 1, 1),
            Table::LineItem => return None,
        };
        u64::try_from(rows).ok()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Table {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Table, BenchError> {
        Table::ALL.into_iter().find(|table| table.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
            BenchError::input(format!("no TPC-H table {text:?}; there are {}", names.join(", ")))
        })
    }
}

/// The SQL type whose column has this Arrow type. The generator uses no others.
fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        _ => "VARCHAR".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_not_null() {
        for table in Table::ALL {
            for field in table.schema().fields() {
                assert!(!field.is_nullable(), "{table}.{}", field.name());
            }
        }
    }

    #[test]
    fn definition_names_types_of_sql() {
        let text = Table::LineItem.definition();
        assert!(text.starts_with("CREATE TABLE lineitem (l_orderkey BIGINT NOT NULL, "), "{text}");
        assert!(text.contains("l_quantity DECIMAL(15, 2) NOT NULL"), "{text}");
        assert!(text.contains("l_shipdate DATE NOT NULL"), "{text}");
        assert!(text.contains("l_comment VARCHAR NOT NULL"), "{text}");
    }

    #[test]
    fn row_counts_follow_the_scale() {
        assert_eq!(Table::Orders.row_count(1.0), Some(1_500_000));
        assert_eq!(Table::Customer.row_count(0.01), Some(1_500));
        assert_eq!(Table::PartSupp.row_count(10.0), Some(8_000_000));
        assert_eq!(Table::Region.row_count(10.0), Some(5));
        assert_eq!(Table::LineItem.row_count(1.0), None);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        assert_eq!("orders".parse::<Table>().expect("known"), Table::Orders);
        let message = "order".parse::<Table>().expect_err("unknown").to_string();
        assert!(message.contains("orders"), "{message}");
    }
}
