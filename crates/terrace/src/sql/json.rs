//! Floats in JSON, which has neither NaN nor infinities: they become strings, as in PostgreSQL.

use std::sync::LazyLock;

use datafusion::arrow::array::Array;
use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{NullableEncoder, make_encoder};
use datafusion::arrow::json::{Encoder, EncoderFactory, EncoderOptions};

/// Options for finite numbers, which are Arrow's defaults.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// Writes floats that JSON cannot represent as `"NaN"`, `"Infinity"` and `"-Infinity"`, including
/// those in lists, structs and maps.
#[derive(Debug)]
pub struct FloatEncoders;

impl EncoderFactory for FloatEncoders {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let values: Box<dyn Fn(usize) -> f64 + 'a> = match array.data_type() {
            DataType::Float16 => {
                let array = array.as_primitive::<Float16Type>();
                Box::new(|row| f64::from(array.value(row)))
            }
            DataType::Float32 => {
                let array = array.as_primitive::<Float32Type>();
                Box::new(|row| f64::from(array.value(row)))
            }
            DataType::Float64 => {
                let array = array.as_primitive::<Float64Type>();
                Box::new(|row| array.value(row))
            }
            _ => return Ok(None),
        };
        let finite = make_encoder(field, array, &PLAIN)?;
        let floats = Floats { values, finite };
        Ok(Some(NullableEncoder::new(Box::new(floats), array.nulls().cloned())))
    }
}

struct Floats<'a> {
    values: Box<dyn Fn(usize) -> f64 + 'a>,
    finite: NullableEncoder<'a>,
}

impl Encoder for Floats<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = (self.values)(row);
        if value.is_finite() {
            return self.finite.encode(row, out);
        }
        let name: &[u8] = match value {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ => b"\"NaN\"",
        };
        out.extend_from_slice(name);
    }
}
