//! `enum_range`, `enum_range_boundary`, `enum_first`, `enum_last` and `enum_code`: the labels of an
//! enum and their ranks.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::enum_type::EnumType;
use super::functions::{cast, invalid, rank};
use super::kinds::{Kind, Scopes, is_null, text_of};
use crate::session::refusal::refused;

/// One of these functions. The rewrite of a plan replaces its calls, because the result depends on
/// the enum of the arguments; a call that is left over fails.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Listing {
    name: &'static str,
    signature: Signature,
}

/// The names of the functions, and the numbers of arguments that each takes.
const NAMES: [(&str, &[usize]); 5] = [
    ("enum_range", &[1, 2]),
    ("enum_range_boundary", &[2]),
    ("enum_first", &[1]),
    ("enum_last", &[1]),
    ("enum_code", &[1]),
];

/// Returns the functions, to be registered in a session.
pub(in crate::session) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    NAMES.into_iter().map(|(name, counts)| {
        let one_of =
            counts.iter().map(|count| datafusion::logical_expr::TypeSignature::Any(*count));
        let signature = Signature::one_of(one_of.collect(), Volatility::Immutable);
        Arc::new(ScalarUDF::from(Listing { name, signature }))
    })
}

impl ScalarUDFImpl for Listing {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            "enum_first" | "enum_last" => DataType::Utf8View,
            "enum_code" => DataType::Int32,
            _ => list_type(),
        })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "{} takes a value of an enum; cast its argument: NULL::name_of_the_type",
            self.name
        )
    }
}

fn list_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

/// Replaces a call by an expression of its result; `None` for a call of another function.
///
/// # Errors
/// [`terrace_table::SqlError::Refused`] if the first argument is not of an enum, or the bound of a
/// range is not constant.
pub(super) fn rewrite(call: &ScalarFunction, scopes: &Scopes) -> Result<Option<Expr>> {
    let name = call.func.name();
    if !NAMES.iter().any(|(known, _)| *known == name) {
        return Ok(None);
    }
    let kinds = call.args.iter().filter_map(|argument| scopes.kind(argument));
    let Some(Kind::Value(of)) = kinds.into_iter().next() else {
        let what = format!("{name} of a value that is of no enum");
        return Err(refused(&what, "cast it, such as NULL::mood").into());
    };
    let end = |label: Option<&String>| match label {
        Some(label) => cast(&of, lit(label.as_str())),
        None => cast(&of, lit(ScalarValue::Utf8(None))),
    };
    Ok(Some(match (name, call.args.as_slice()) {
        ("enum_first", _) => end(of.labels().first()),
        ("enum_last", _) => end(of.labels().last()),
        ("enum_code", [value]) => rank(&of, value.clone()),
        (_, [first, last]) => {
            let first = bound(&of, first)?.unwrap_or(0);
            let end = match bound(&of, last)? {
                Some(last) => last + 1,
                None => of.labels().len(),
            };
            labels(&of, of.labels().get(first..end).unwrap_or_default())
        }
        _ => labels(&of, of.labels()),
    }))
}

/// The rank of the bound of a range; `None` for null, which leaves the range open.
fn bound(of: &EnumType, value: &Expr) -> Result<Option<usize>> {
    let value = match value {
        Expr::ScalarFunction(call) if super::functions::returned(&call.func).is_some() => {
            call.args.first().unwrap_or(value)
        }
        value => value,
    };
    if is_null(value) {
        return Ok(None);
    }
    let constant = || -> DataFusionError {
        refused(&format!("the bound {value} of a range of {}", of.name), "say a constant").into()
    };
    let text = text_of(value).ok_or_else(constant)?;
    let rank = of.rank(text).ok_or_else(|| invalid(of, text))?;
    Ok(usize::try_from(rank).ok())
}

fn labels(of: &Arc<EnumType>, labels: &[String]) -> Expr {
    let values = labels.iter().map(|label| cast(of, lit(label.as_str())));
    make_array(values.collect())
}
