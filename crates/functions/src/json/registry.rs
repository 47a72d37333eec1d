//! All functions over JSON.

use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::ScalarUDF;

use super::{build, change, extract, inspect, jsonpath, pairs};
use crate::adapter::function;

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = [
        extract::functions(),
        inspect::functions(),
        build::functions(),
        change::functions(),
        jsonpath::functions(),
        pairs::functions(),
    ];
    all.into_iter().flatten().map(function).collect()
});

/// Returns all functions over JSON.
#[must_use]
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.clone()
}
