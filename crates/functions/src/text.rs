//! Functions of texts and bytes.

mod base;
mod bytes;
mod characters;
mod charset;
mod digest;
mod distance;
mod encoding;
mod format;
mod forms;
mod growing;
mod matches;
mod pattern;
mod quote;
mod regex;
mod room;
mod similarity;
mod split;
mod unicode;
mod url;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use forms::BytesLike;
pub use pattern::operator_pattern;

use crate::scalar::functions;

/// Returns the functions of texts and bytes.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [
        base::FUNCTIONS,
        bytes::FUNCTIONS,
        characters::FUNCTIONS,
        charset::FUNCTIONS,
        digest::FUNCTIONS,
        distance::FUNCTIONS,
        encoding::FUNCTIONS,
        format::FUNCTIONS,
        growing::FUNCTIONS,
        matches::FUNCTIONS,
        quote::FUNCTIONS,
        regex::FUNCTIONS,
        similarity::FUNCTIONS,
        split::FUNCTIONS,
        unicode::FUNCTIONS,
        url::FUNCTIONS,
    ];
    all.into_iter().flat_map(functions).chain(room::functions()).chain(forms::functions()).collect()
}
