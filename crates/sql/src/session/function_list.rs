//! DuckDB's table function `duckdb_functions()`, which lists the functions of the session and their
//! kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};

use crate::names::routine_kinds;

/// The table functions of this module, to be registered in a session.
pub(super) fn functions() -> [(&'static str, Arc<dyn TableFunctionImpl>); 1] {
    [("duckdb_functions", Arc::new(FunctionList))]
}

/// The table function `duckdb_functions()`.
#[derive(Debug)]
struct FunctionList;

impl TableFunctionImpl for FunctionList {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("duckdb_functions takes no arguments: say FROM duckdb_functions()");
        }
        let session = args.session();
        let mut all = BTreeSet::new();
        all.extend(session.scalar_functions().keys().map(|name| (name.as_str(), "scalar")));
        all.extend(session.higher_order_functions().keys().map(|it| (it.as_str(), "scalar")));
        all.extend(session.aggregate_functions().keys().map(|it| (it.as_str(), "aggregate")));
        all.extend(session.window_functions().keys().map(|name| (name.as_str(), "window")));
        let own = routine_kinds(session)?;
        all.extend(own.iter().map(|(name, kind)| (name.as_str(), *kind)));
        // Functions with a space in the name are internal.
        all.retain(|(name, _)| !name.contains(' '));
        let (names, kinds): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] = [
            ("function_name", Arc::new(StringArray::from(names))),
            ("function_type", Arc::new(StringArray::from(kinds))),
        ];
        let batch = RecordBatch::try_from_iter(columns)?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}
