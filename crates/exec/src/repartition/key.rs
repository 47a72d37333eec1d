//! Keys of a repartitioning: equal floating-point numbers go to one output.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalExprRef};

use crate::floats::{self, has_floats};

/// Returns the partitioning with keys whose equal values have equal bits, and so equal hashes.
///
/// # Errors
/// If a key is not in the schema.
pub(super) fn canonical(partitioning: &Partitioning, schema: &Schema) -> Result<Partitioning> {
    let Partitioning::Hash(keys, outputs) = partitioning else {
        return Ok(partitioning.clone());
    };
    let key = |key: &PhysicalExprRef| -> Result<PhysicalExprRef> {
        Ok(match has_floats(&key.data_type(schema)?) {
            true => Arc::new(CanonicalKey(Arc::clone(key))),
            false => Arc::clone(key),
        })
    };
    Ok(Partitioning::Hash(keys.iter().map(key).collect::<Result<_>>()?, *outputs))
}

/// A key with [canonical](crate::floats) numbers.
#[derive(Debug, Eq)]
struct CanonicalKey(PhysicalExprRef);

impl PartialEq for CanonicalKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for CanonicalKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PhysicalExpr for CanonicalKey {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let key = self.0.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(floats::canonical(&key)?))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        let key = children.pop().unwrap_or_else(|| Arc::clone(&self.0));
        Ok(Arc::new(Self(key)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

impl fmt::Display for CanonicalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
