//! Internal scalar functions of one enum, which the rewrite of a plan inserts: casts, checks of
//! labels, and conversions between labels and ranks.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringViewArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::enum_type::EnumType;
use super::field::{field, list_field, list_of};

/// The computation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// Returns a text that is a label, and fails for any other.
    Cast,
    /// Returns a text that is a label, and null for any other.
    TryCast,
    /// Returns true for a label, and fails for any other text.
    Check,
    /// Returns the rank of a label, and fails for any other text.
    Rank,
    /// Returns the label of a rank.
    Label,
}

/// A scalar function of one enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EnumFunction {
    pub(super) of: Arc<EnumType>,
    action: Action,
    /// True for a function of lists, which computes with their elements.
    is_of_lists: bool,
    signature: Signature,
}

/// Casts a text to an enum.
pub(in crate::session) fn cast(of: &Arc<EnumType>, value: Expr) -> Expr {
    called(of, Action::Cast, value)
}

/// Casts a text to an enum, to null if it is no label.
pub(super) fn try_cast(of: &Arc<EnumType>, value: Expr) -> Expr {
    called(of, Action::TryCast, value)
}

/// A condition that fails for a text that is no label.
pub(super) fn check(of: &Arc<EnumType>, value: Expr) -> Expr {
    called(of, Action::Check, value)
}

/// The rank of a value in its enum.
pub(super) fn rank(of: &Arc<EnumType>, value: Expr) -> Expr {
    called(of, Action::Rank, value)
}

/// The value of a rank.
pub(super) fn label(of: &Arc<EnumType>, place: Expr) -> Expr {
    called(of, Action::Label, place)
}

/// Casts a list of texts to one of an enum.
pub(super) fn cast_list(of: &Arc<EnumType>, list: Expr) -> Expr {
    called_with_list(of, Action::Cast, list)
}

/// Casts a list of texts to one of an enum, with null for a text that is no label.
pub(super) fn try_cast_list(of: &Arc<EnumType>, list: Expr) -> Expr {
    called_with_list(of, Action::TryCast, list)
}

/// A condition that fails for a list with a text that is no label.
pub(super) fn check_list(of: &Arc<EnumType>, list: Expr) -> Expr {
    called_with_list(of, Action::Check, list)
}

/// The ranks of the elements of a list.
pub(super) fn rank_list(of: &Arc<EnumType>, list: Expr) -> Expr {
    called_with_list(of, Action::Rank, list)
}

fn called(of: &Arc<EnumType>, action: Action, value: Expr) -> Expr {
    let argument = if action == Action::Label { DataType::Int32 } else { DataType::Utf8View };
    let signature = Signature::uniform(1, vec![argument], Volatility::Immutable);
    let function = EnumFunction { of: Arc::clone(of), action, is_of_lists: false, signature };
    ScalarUDF::from(function).call(vec![value])
}

fn called_with_list(of: &Arc<EnumType>, action: Action, list: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = EnumFunction { of: Arc::clone(of), action, is_of_lists: true, signature };
    ScalarUDF::from(function).call(vec![list])
}

/// The enum of the result of `function`, and true if that is a list. `None` for any function but
/// the casts and `enum_label`.
pub(super) fn returned(function: &ScalarUDF) -> Option<(&Arc<EnumType>, bool)> {
    let function = function.inner().downcast_ref::<EnumFunction>()?;
    matches!(function.action, Action::Cast | Action::TryCast | Action::Label)
        .then_some((&function.of, function.is_of_lists))
}

impl ScalarUDFImpl for EnumFunction {
    fn name(&self) -> &str {
        match self.action {
            Action::Cast if self.is_of_lists => "enum_cast_list",
            Action::TryCast if self.is_of_lists => "enum_try_cast_list",
            Action::Check if self.is_of_lists => "enum_check_list",
            Action::Rank if self.is_of_lists => "enum_rank_list",
            Action::Cast => "enum_cast",
            Action::TryCast => "enum_try_cast",
            Action::Check => "enum_check",
            Action::Rank => "enum_rank",
            Action::Label => "enum_label",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the field of an enum has its type")
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(match self.action {
            Action::Cast | Action::TryCast if self.is_of_lists => {
                list_field(&self.of.schema, &self.of.name)
            }
            Action::Rank if self.is_of_lists => Field::new("", list_of(DataType::Int32), true),
            Action::Cast | Action::TryCast | Action::Label => field(&self.of.schema, &self.of.name),
            Action::Check => Field::new("", DataType::Boolean, true),
            Action::Rank => Field::new("", DataType::Int32, true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("a value of an enum is one") };
        let (is_scalar, rows) = match value {
            ColumnarValue::Scalar(_) => (true, 1),
            ColumnarValue::Array(_) => (false, args.number_rows),
        };
        let values = value.to_array(rows)?;
        let result = match self.is_of_lists {
            true => self.evaluate_lists(&values)?,
            false => self.evaluate(&values)?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl EnumFunction {
    /// Evaluates the function for the elements of lists.
    fn evaluate_lists(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = compute::cast(values, &list_of(DataType::Utf8View))?;
        let lists = values.as_list::<i32>();
        let (first, last) = (lists.offsets()[0], lists.offsets()[lists.len()]);
        let place = |offset: i32| usize::try_from(offset).unwrap_or(0);
        let items = lists.values().slice(place(first), place(last) - place(first));
        let items = self.evaluate(&items)?;
        if self.action == Action::Check {
            return Ok(Arc::new(BooleanArray::from(vec![true; lists.len()])));
        }
        let offsets = lists.offsets().iter().map(|offset| offset - first);
        let offsets = OffsetBuffer::new(offsets.collect());
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Ok(Arc::new(ListArray::try_new(item, offsets, items, lists.nulls().cloned())?))
    }

    fn evaluate(&self, values: &ArrayRef) -> Result<ArrayRef> {
        if self.action == Action::Label {
            let places = values.as_primitive::<Int32Type>();
            let labels = self.of.labels();
            let label = |place: i32| usize::try_from(place).ok().and_then(|at| labels.get(at));
            let labels = places.iter().map(|place| place.and_then(label));
            return Ok(Arc::new(labels.collect::<StringViewArray>()));
        }
        let texts = values.as_string_view();
        let known = |text: &&str| match self.of.rank(text) {
            Some(_) => Ok(true),
            None if self.action == Action::TryCast => Ok(false),
            None => Err(invalid(&self.of, text)),
        };
        let ranks = texts.iter().map(|text| match text {
            Some(text) if known(&text)? => Ok(self.of.rank(text)),
            _ => Ok(None),
        });
        let ranks: Int32Array = ranks.collect::<Result<_>>()?;
        Ok(match self.action {
            Action::Rank => Arc::new(ranks),
            Action::Check => {
                let valid = vec![Some(true); ranks.len()];
                Arc::new(BooleanArray::from(valid))
            }
            _ => {
                let texts =
                    texts.iter().zip(&ranks).map(|(text, rank)| text.filter(|_| rank.is_some()));
                Arc::new(texts.collect::<StringViewArray>())
            }
        })
    }
}

/// The error for a text that is no label.
pub(super) fn invalid(of: &EnumType, text: &str) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(ArrowError::ParseError(of.invalid(text))), None)
}

#[cfg(test)]
mod tests {
    use datafusion::config::ConfigOptions;

    use super::*;

    fn evaluated(action: Action, values: ArrayRef) -> Result<ArrayRef> {
        let labels = ["b", "a", "c"].map(str::to_owned).to_vec();
        let of = Arc::new(EnumType::new("public", "e", labels).expect("a type"));
        let Expr::ScalarFunction(call) = called(&of, action, Expr::default()) else {
            panic!("a call");
        };
        let field = Arc::new(Field::new("", values.data_type().clone(), true));
        let returned = ReturnFieldArgs { arg_fields: &[Arc::clone(&field)], scalar_arguments: &[] };
        let args = ScalarFunctionArgs {
            number_rows: values.len(),
            args: vec![ColumnarValue::Array(values)],
            return_field: call.func.return_field_from_args(returned)?,
            arg_fields: vec![field],
            config_options: Arc::new(ConfigOptions::default()),
        };
        call.func.invoke_with_args(args)?.to_array(0)
    }

    #[test]
    fn labels_have_places() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("c"), None, Some("b")]));
        let ranks = evaluated(Action::Rank, Arc::clone(&texts)).expect("ranks");
        let expected = Int32Array::from(vec![Some(2), None, Some(0)]);
        assert_eq!(ranks.as_primitive::<Int32Type>(), &expected);
        let labels = evaluated(Action::Label, ranks).expect("labels");
        assert_eq!(labels.as_string_view(), texts.as_string_view());
        assert!(evaluated(Action::Check, Arc::clone(&texts)).is_ok());
    }

    #[test]
    fn other_texts_are_refused_or_null() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), Some("x")]));
        for action in [Action::Cast, Action::Check, Action::Rank] {
            let error = evaluated(action, Arc::clone(&texts)).expect_err("x is no label");
            assert!(error.to_string().contains("invalid input value for enum e: \"x\""));
        }
        let tried = evaluated(Action::TryCast, texts).expect("a null");
        assert_eq!(tried.null_count(), 1);
        let empty: ArrayRef = Arc::new(StringViewArray::from(Vec::<Option<&str>>::new()));
        assert_eq!(evaluated(Action::Cast, empty).expect("nothing").len(), 0);
    }
}
