//! Reasons for the end of an evaluation.

use datafusion::common::DataFusionError;

/// The reason for the end of an evaluation.
#[derive(Debug)]
pub(super) enum Fault {
    /// A value of another structure or type than the path wants, which `silent` suppresses.
    Value(String),
    /// An error of the call.
    Call(DataFusionError),
}

pub(super) type Found<T> = Result<T, Fault>;

/// The fault of a value.
pub(super) fn fault<T>(text: impl Into<String>) -> Found<T> {
    Err(Fault::Value(text.into()))
}

/// The result without faults of values, which are unknown.
pub(super) fn known<T>(result: Found<T>) -> Found<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Value(_)) => Ok(None),
        Err(call) => Err(call),
    }
}
