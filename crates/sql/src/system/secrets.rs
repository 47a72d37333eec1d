//! `terrace.secrets`: the secrets for remote files (S3, HTTP), without the keys.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field};

use super::columns::{column, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    let has_keys = Field::new("has_keys", DataType::Boolean, true);
    vec![text("name"), text("scope"), text("region"), text("endpoint"), has_keys]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let secrets = engine.cloud().secrets().all();
    vec![
        texts(&secrets, |secret| Some(secret.name.clone())),
        texts(&secrets, |secret| Some(secret.scope.clone())),
        texts(&secrets, |secret| secret.region.clone()),
        texts(&secrets, |secret| secret.endpoint.clone()),
        column::<_, _, BooleanArray>(&secrets, |secret| Some(secret.secret.is_some())),
    ]
}
