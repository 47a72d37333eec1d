//! Functions of lists whose counts and positions are signed, as those of PostgreSQL and DuckDB.
//!
//! DataFusion's are unsigned 64-bit integers, which a client of PostgreSQL receives as NUMERIC.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions_nested::cardinality::cardinality_udf;
use datafusion::functions_nested::dimension::array_ndims_udf;
use datafusion::functions_nested::position::{array_position_udf, array_positions_udf};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Returns the functions.
pub(super) fn functions() -> [Arc<ScalarUDF>; 4] {
    let stock = [cardinality_udf(), array_ndims_udf(), array_position_udf(), array_positions_udf()];
    stock.map(|function| Arc::new(ScalarUDF::new_from_impl(Signed { function })))
}

/// DataFusion's function, whose result is a number or a list of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signed {
    function: Arc<ScalarUDF>,
}

/// The signed type in the place of an unsigned one.
fn signed(of: &DataType) -> DataType {
    match of {
        DataType::UInt64 => DataType::Int64,
        DataType::List(item) => {
            let item = Field::new(item.name(), signed(item.data_type()), item.is_nullable());
            DataType::List(Arc::new(item))
        }
        other => other.clone(),
    }
}

impl ScalarUDFImpl for Signed {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(signed(&self.function.return_type(given)?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.function.return_field_from_args(args)?;
        let of = signed(field.data_type());
        Ok(Arc::new(field.as_ref().clone().with_data_type(of)))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(given)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = self.function.invoke_with_args(args)?;
        let of = signed(&result.data_type());
        result.cast_to(&of, None)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}
