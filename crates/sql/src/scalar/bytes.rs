//! Casts of texts to bytes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _, BinaryArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_table::unary::{apply_to_one, name_of_one};

use crate::bytea;

/// Parses the bytes that a text denotes, before a cast to a type of bytes, as PostgreSQL does.
/// Arrow's cast takes the bytes of the text itself.
///
/// In a plan it has the name of its argument, so that the cast has the same name as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct BytesOfText {
    /// True if a text that does not denote bytes becomes null instead of an error.
    is_lenient: bool,
    signature: Signature,
}

impl BytesOfText {
    pub(crate) fn function(is_lenient: bool) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { is_lenient, signature })
    }

    /// True if a cast between these types has to parse texts.
    pub(crate) fn is_needed(from: &DataType, to: &DataType) -> bool {
        from.is_string()
            && matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    }
}

impl ScalarUDFImpl for BytesOfText {
    fn name(&self) -> &str {
        "bytes_of_text"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, |array| self.bytes_of(array))
    }
}

impl BytesOfText {
    fn bytes_of(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(array, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let bytes = texts.iter().map(|text| {
            let Some(text) = text else { return Ok(None) };
            match bytea::parse(text) {
                None if !self.is_lenient => Err(ArrowError::CastError(format!(
                    "Cannot cast string {text:?} to bytes; write them as '\\x00ff'"
                ))),
                bytes => Ok(bytes),
            }
        });
        let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(bytes.into_iter().collect::<BinaryArray>()))
    }
}
