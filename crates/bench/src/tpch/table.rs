//! The eight tables: names, columns, row counts, parts.

use std::fmt;

use datafusion::arrow::array::RecordBatchReader;
use datafusion::arrow::datatypes::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::error::Result;
use crate::suite::generate::BATCH_ROWS;
use crate::suite::table::{Benchmark, Generated};

/// A table of the TPC-H schema, in loading order: small ones first.
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

/// Approximate number of rows of a part: the unit in which threads generate ahead of the consumer.
const PART_ROWS: u64 = 131_072;

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
}

impl Generated for Table {
    const BENCHMARK: Benchmark = Benchmark::TpcH;

    fn all() -> &'static [Table] {
        &Table::ALL
    }

    fn name(self) -> &'static str {
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

    /// Every column is NOT NULL, as clause 1.4.1 requires.
    fn schema(self) -> SchemaRef {
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

    fn row_count(self, scale: f64) -> Option<u64> {
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

    /// Compares the last order of both tables: every order has lines, so `lineitem` has lines of
    /// the last order exactly if its scale is that of `orders`.
    fn witness(self, _: f64) -> Option<String> {
        let lines = "SELECT max(l_orderkey) = (SELECT max(o_orderkey) FROM orders) FROM lineitem";
        (self == Table::LineItem).then(|| lines.to_string())
    }

    fn part_count(self, scale: f64) -> i32 {
        let rows = match self {
            // Four lines an order on average; a part is a range of orders.
            Table::LineItem => Table::Orders.row_count(scale).map(|orders| orders * 4),
            other => other.row_count(scale),
        };
        i32::try_from(rows.unwrap_or(0).div_ceil(PART_ROWS)).unwrap_or(i32::MAX).max(1)
    }

    fn part(self, scale: f64, part: i32, parts: i32) -> Result<Box<dyn RecordBatchReader + Send>> {
        macro_rules! reader {
            ($arrow:ident, $generator:ident) => {{
                let generator = $generator::new(scale, part, parts);
                Box::new($arrow::new(generator).with_batch_size(BATCH_ROWS))
            }};
        }
        Ok(match self {
            Table::Region => reader!(RegionArrow, RegionGenerator),
            Table::Nation => reader!(NationArrow, NationGenerator),
            Table::Supplier => reader!(SupplierArrow, SupplierGenerator),
            Table::Part => reader!(PartArrow, PartGenerator),
            Table::PartSupp => reader!(PartSuppArrow, PartSuppGenerator),
            Table::Customer => reader!(CustomerArrow, CustomerGenerator),
            Table::Orders => reader!(OrderArrow, OrderGenerator),
            Table::LineItem => reader!(LineItemArrow, LineItemGenerator),
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
        assert_eq!(Table::named("orders").expect("known"), Table::Orders);
        let message = Table::named("order").expect_err("unknown").to_string();
        assert!(message.contains("orders"), "{message}");
    }
}
