//! `hash` of DuckDB: one number for values of any types.
//!
//! The numbers are others than DuckDB's, and may change between versions and processors.

use datafusion::arrow::array::{ArrayRef, UInt64Array};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};

use crate::scalar::{Call, Definition, Kind, Overload};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "hash",
    &[Overload::new(&[Kind::Any], Kind::Unsigned, hash).followed_by(Kind::Any)],
)];

fn hash(call: &Call) -> Result<ArrayRef> {
    let mut arrays = Vec::with_capacity(call.len());
    for argument in 0..call.len() {
        arrays.push(call.expanded(argument)?);
    }
    let mut hashes = vec![0; call.rows()];
    create_hashes(&arrays, &RandomState::with_seed(0), &mut hashes)?;
    Ok(std::sync::Arc::new(UInt64Array::from(hashes)))
}
