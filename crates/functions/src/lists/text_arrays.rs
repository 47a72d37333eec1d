//! Casts of texts to lists: `CAST('{1,2}' AS INT[])`.

use datafusion::arrow::array::{ArrayRef, AsArray as _};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{Expr, ScalarFunctionArgs};

use super::array_levels::levels;
use super::array_text::malformed;
use crate::adapter::{Scalar, columns, function};

/// Returns an expression that parses a text as an array of texts of `depth` dimensions; other texts
/// are errors.
#[must_use]
pub fn text_arrays(expr: Expr, depth: usize) -> Expr {
    called(expr, depth, false)
}

/// Returns an expression that parses a text as an array of texts of `depth` dimensions, with null
/// for any other text.
#[must_use]
pub fn try_text_arrays(expr: Expr, depth: usize) -> Expr {
    called(expr, depth, true)
}

fn called(expr: Expr, depth: usize, is_try: bool) -> Expr {
    let depth = i64::try_from(depth).ok().filter(|depth| *depth > 1);
    let depth = depth.map(|depth| Expr::Literal(ScalarValue::Int64(Some(depth)), None));
    function(TextArrays { is_try }).call(std::iter::once(expr).chain(depth).collect())
}

/// The function of the arrays of texts that texts denote. If `is_try`, a malformed text denotes
/// null.
#[derive(Debug)]
struct TextArrays {
    is_try: bool,
}

/// The type of arrays of a number of dimensions.
fn array_type(depth: usize) -> DataType {
    (0..depth).fold(DataType::Utf8, |of, _| DataType::new_list(of, true))
}

/// The number of dimensions of a type of arrays.
fn depth_of_type(of: &DataType) -> usize {
    match of {
        DataType::List(item) => 1 + depth_of_type(item.data_type()),
        _ => 0,
    }
}

impl Scalar for TextArrays {
    fn name(&self) -> &'static str {
        if self.is_try { "try_text_arrays" } else { "text_arrays" }
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [text] if text.is_string() || text.is_null() => Ok(vec![DataType::Utf8]),
            [text, DataType::Int64] if text.is_string() || text.is_null() => {
                Ok(vec![DataType::Utf8, DataType::Int64])
            }
            _ => plan_err!("{} takes a text and a number of dimensions", self.name()),
        }
    }

    fn field(&self, given: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<Field> {
        self.coerce(given)?;
        let depth = match constants.get(1) {
            None => 1,
            Some(Some(ScalarValue::Int64(Some(depth @ 1..=64)))) => {
                usize::try_from(*depth).unwrap_or(1)
            }
            Some(_) => return plan_err!("{} takes 1 to 64 dimensions", self.name()),
        };
        Ok(Field::new(self.name(), array_type(depth), true))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let columns = columns(args, rows)?;
        let Some(texts) = columns.first() else {
            return exec_err!("{} takes a text", self.name());
        };
        let texts = cast(texts, &DataType::Utf8)?;
        let depth = depth_of_type(args.return_type());
        let refuse = |text: &str| if self.is_try { Ok(()) } else { malformed(text, depth) };
        levels(texts.as_string::<i32>().iter(), depth, refuse)
    }
}
