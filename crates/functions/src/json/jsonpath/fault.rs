//! Errors of the evaluation of a path.

use datafusion::common::DataFusionError;

/// Error of the evaluation of a path.
#[derive(Debug)]
pub(super) enum Fault {
    /// A value of another structure or type than the path wants, which `silent` suppresses.
    Value(String),
    /// An error of the call.
    Call(DataFusionError),
}

pub(super) type Found<T> = Result<T, Fault>;

/// Returns [`Fault::Value`] with this message.
pub(super) fn fault<T>(text: impl Into<String>) -> Found<T> {
    Err(Fault::Value(text.into()))
}

/// The result with faults of values turned into `None`, unknown.
pub(super) fn known<T>(result: Found<T>) -> Found<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Value(_)) => Ok(None),
        Err(call) => Err(call),
    }
}
