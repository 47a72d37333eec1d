//! The 24 tables: names, columns, row counts, parts.

use std::fmt;

use datafusion::arrow::array::RecordBatchReader;
use datafusion::arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow,
    CustomerAddressArrow, CustomerArrow, CustomerDemographicsArrow, DateDimArrow,
    HouseholdDemographicsArrow, IncomeBandArrow, InventoryArrow, ItemArrow, PromotionArrow,
    ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow, StoreSalesArrow, TimeDimArrow,
    WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow, WebSiteArrow,
};

use crate::error::{BenchError, Result};
use crate::suite::generate::BATCH_ROWS;
use crate::suite::table::{Benchmark, Generated};

/// Number of source rows of a part of `inventory` and of the dimensions that are generated in
/// parts.
const PART_ROWS: u64 = 131_072;

/// Number of source rows of a part of a sales or returns table: tickets and orders, of about ten
/// lines each.
const PART_ORDERS: u64 = 16_384;

type Reader = Box<dyn RecordBatchReader + Send>;

/// Calls a macro with every table: variant, name, generator.
macro_rules! tables {
    ($then:ident) => {
        $then! {
            (IncomeBand, "income_band", IncomeBandArrow),
            (Reason, "reason", ReasonArrow),
            (ShipMode, "ship_mode", ShipModeArrow),
            (Warehouse, "warehouse", WarehouseArrow),
            (CallCenter, "call_center", CallCenterArrow),
            (Store, "store", StoreArrow),
            (WebSite, "web_site", WebSiteArrow),
            (WebPage, "web_page", WebPageArrow),
            (Promotion, "promotion", PromotionArrow),
            (HouseholdDemographics, "household_demographics", HouseholdDemographicsArrow),
            (CatalogPage, "catalog_page", CatalogPageArrow),
            (Item, "item", ItemArrow),
            (DateDim, "date_dim", DateDimArrow),
            (TimeDim, "time_dim", TimeDimArrow),
            (CustomerAddress, "customer_address", CustomerAddressArrow),
            (Customer, "customer", CustomerArrow),
            (CustomerDemographics, "customer_demographics", CustomerDemographicsArrow),
            (Inventory, "inventory", InventoryArrow),
            (WebSales, "web_sales", WebSalesArrow),
            (WebReturns, "web_returns", WebReturnsArrow),
            (CatalogSales, "catalog_sales", CatalogSalesArrow),
            (CatalogReturns, "catalog_returns", CatalogReturnsArrow),
            (StoreSales, "store_sales", StoreSalesArrow),
            (StoreReturns, "store_returns", StoreReturnsArrow)
        }
    };
}

macro_rules! define {
    ($(($variant:ident, $name:literal, $arrow:ident)),*) => {
        /// A table of the TPC-DS schema, in loading order: small ones first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table {
            $(#[doc = concat!("`", $name, "`")] $variant),*
        }

        impl Table {
            /// Every table, in loading order.
            pub const ALL: [Table; 24] = [$(Table::$variant),*];
        }

        impl Table {
            fn text(self) -> &'static str {
                match self { $(Table::$variant => $name),* }
            }

            fn columns(self) -> SchemaRef {
                match self { $(Table::$variant => $arrow::schema_ref()),* }
            }

            fn source(self) -> tpcdsgen::config::Table {
                match self { $(Table::$variant => tpcdsgen::config::Table::$variant),* }
            }

            fn reader(self, session: Session, rows: (u64, u64)) -> Reader {
                match self {
                    $(Table::$variant => Box::new(
                        $arrow::new(session)
                            .with_source_row_range(rows.0, rows.1)
                            .with_batch_size(BATCH_ROWS),
                    )),*
                }
            }
        }
    };
}

tables!(define);

impl Table {
    /// Returns the number of rows that the generator counts: lines for most tables; for sales and
    /// returns the tickets or orders that the lines belong to.
    fn source_rows(self, scale: f64) -> Result<u64> {
        Ok(session(scale)?.get_scaling().get_row_count(self.source()))
    }

    /// Returns the column that numbers the tickets or orders of a sales table.
    fn order_column(self) -> Option<&'static str> {
        match self {
            Table::StoreSales => Some("ss_ticket_number"),
            Table::CatalogSales => Some("cs_order_number"),
            Table::WebSales => Some("ws_order_number"),
            _ => None,
        }
    }

    fn is_returns(self) -> bool {
        matches!(self, Table::StoreReturns | Table::CatalogReturns | Table::WebReturns)
    }

    /// Returns the number of source rows of a part; `None` if a row depends on the rows before it.
    fn part_rows(self) -> Option<u64> {
        match self {
            Table::Inventory | Table::CustomerDemographics => Some(PART_ROWS),
            _ if self.is_returns() || self.order_column().is_some() => Some(PART_ORDERS),
            _ => None,
        }
    }
}

impl Generated for Table {
    const BENCHMARK: Benchmark = Benchmark::TpcDs;

    fn all() -> &'static [Table] {
        &Table::ALL
    }

    fn name(self) -> &'static str {
        self.text()
    }

    fn schema(self) -> SchemaRef {
        self.columns()
    }

    fn row_count(self, scale: f64) -> Option<u64> {
        let lines = self.order_column().is_some() || self.is_returns();
        self.source_rows(scale).ok().filter(|_| !lines)
    }

    /// Compares the number of the last order: every order has lines, so it is the number of orders
    /// at the scale. A returns table, whose lines are drawn at random, is checked by its sales
    /// table.
    fn witness(self, scale: f64) -> Option<String> {
        let (column, orders) = (self.order_column()?, self.source_rows(scale).ok()?);
        Some(format!("SELECT max({column}) = {orders} FROM {self}"))
    }

    fn part_count(self, scale: f64) -> i32 {
        let Some(rows) = self.part_rows() else { return 1 };
        let parts = self.source_rows(scale).unwrap_or(0).div_ceil(rows);
        i32::try_from(parts).unwrap_or(i32::MAX).max(1)
    }

    fn part(self, scale: f64, part: i32, parts: i32) -> Result<Reader> {
        let rows = self.source_rows(scale)?;
        let wide = |number: i32| u64::try_from(number).unwrap_or(1).max(1);
        let end = |part: u64| rows * part / wide(parts);
        let range = (end(wide(part) - 1) + 1, end(wide(part)));
        Ok(self.reader(session(scale)?, range))
    }
}

fn session(scale: f64) -> Result<Session> {
    let built = SessionBuilder::new().with_scale_factor(scale).build();
    built.map_err(|error| BenchError::Feed(error.to_string()))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, RecordBatch};
    use datafusion::arrow::compute::{concat_batches, max};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    const SCALE: f64 = 0.01;

    fn whole(table: Table, parts: i32) -> RecordBatch {
        let batches: Vec<RecordBatch> = (1..=parts)
            .flat_map(|part| table.part(SCALE, part, parts).expect("part"))
            .map(|batch| batch.expect("batch"))
            .collect();
        concat_batches(&table.schema(), &batches).expect("one schema")
    }

    #[test]
    fn parts_are_the_whole_in_any_number() {
        for table in Table::ALL.into_iter().filter(|table| table.part_rows().is_some()) {
            let one = whole(table, 1);
            assert_eq!(one, whole(table, 3), "{table}");
            assert!(one.num_rows() > 0, "{table}");
        }
    }

    #[test]
    fn row_counts_and_witnesses_tell_scales_apart() {
        for table in Table::ALL {
            let rows = whole(table, 1);
            let count = u64::try_from(rows.num_rows()).ok();
            if let Some(expected) = table.row_count(SCALE) {
                assert_eq!(Some(expected), count, "{table}");
            } else if let Some(column) = table.order_column() {
                let orders = rows.column_by_name(column).expect(column);
                let last = max(orders.as_primitive::<Int64Type>());
                let witness = table.witness(SCALE).expect("of sales");
                assert!(witness.contains(&format!("= {} FROM", last.expect("rows"))), "{witness}");
                assert_ne!(table.witness(1.0), Some(witness), "{table}");
            } else {
                assert!(table.is_returns() && table.witness(SCALE).is_none(), "{table}");
            }
        }
    }

    #[test]
    fn keys_are_not_null_and_other_columns_may_be() {
        let text = Table::StoreSales.definition();
        assert!(text.starts_with("CREATE TABLE store_sales (ss_sold_date_sk INTEGER, "), "{text}");
        assert!(text.contains("ss_item_sk INTEGER NOT NULL"), "{text}");
        assert!(text.contains("ss_ticket_number BIGINT NOT NULL"), "{text}");
        assert!(text.contains("ss_net_profit DECIMAL(7, 2)"), "{text}");
        let text = Table::DateDim.definition();
        assert!(text.contains("d_date DATE") && text.contains("d_day_name VARCHAR"), "{text}");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        assert_eq!(Table::named("web_site").expect("known"), Table::WebSite);
        let message = Table::named("website").expect_err("unknown").to_string();
        assert!(message.contains("web_site") && message.contains("tpcds"), "{message}");
    }
}
