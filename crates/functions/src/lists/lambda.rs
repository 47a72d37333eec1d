//! DuckDB's functions of lists that take a lambda.
//!
//! The lambda receives an element and its position from 1. That of `list_reduce` receives the
//! result so far, the next element and the position of that element.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray as _, BooleanArray};
use datafusion::arrow::compute::{cast, filter, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::elements::{Flat, Lists, element_field, list_type, lists_of};
use super::reduce::{self, Step};

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Filter,
    Reduce,
}

impl Kind {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Transform => {
                &["list_transform", "array_transform", "list_apply", "array_apply", "apply"]
            }
            Self::Filter => &["list_filter", "array_filter", "filter"],
            Self::Reduce => &["list_reduce", "array_reduce", "reduce"],
        }
    }
}

/// Returns the functions.
pub(crate) fn functions() -> Vec<Arc<HigherOrderUDF>> {
    let kinds = [Kind::Transform, Kind::Filter, Kind::Reduce].into_iter();
    kinds.map(|kind| Arc::new(HigherOrderUDF::new_from_impl(ListLambda::new(kind)))).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListLambda {
    kind: Kind,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

impl ListLambda {
    fn new(kind: Kind) -> Self {
        let aliases = kind.names().iter().skip(1).map(|&name| name.to_owned()).collect();
        let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
        Self { kind, aliases, signature }
    }

    /// The list and the initial value among the arguments.
    fn split<'a, V, L>(&self, args: &'a [ValueOrLambda<V, L>]) -> Result<Split<'a, V, L>> {
        match (self.kind, args) {
            (_, [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)]) => {
                Ok(Split { list, lambda, initial: None })
            }
            (
                Kind::Reduce,
                [
                    ValueOrLambda::Value(list),
                    ValueOrLambda::Lambda(lambda),
                    ValueOrLambda::Value(it),
                ],
            ) => Ok(Split { list, lambda, initial: Some(it) }),
            (Kind::Reduce, _) => {
                plan_err!(
                    "{0} takes a list, a lambda and an initial value: {0}(l, lambda x, y: x + y)",
                    self.name()
                )
            }
            _ => plan_err!("{0} takes a list and a lambda: {0}(l, lambda x: x)", self.name()),
        }
    }
}

/// The arguments of a call.
struct Split<'a, V, L> {
    list: &'a V,
    lambda: &'a L,
    initial: Option<&'a V>,
}

impl HigherOrderUDFImpl for ListLambda {
    fn name(&self) -> &str {
        self.kind.names().first().copied().unwrap_or_default()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Some(list) = given.first().and_then(list_type) else {
            return plan_err!("{} takes a list as its first argument", self.name());
        };
        Ok(std::iter::once(list).chain(given.iter().skip(1).cloned()).collect())
    }

    fn lambda_parameters(
        &self,
        step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let Split { list, lambda, initial } = self.split(fields)?;
        let Some(element) = element_field(list.data_type()) else {
            return plan_err!("{} takes a list, not {}", self.name(), list.data_type());
        };
        let position = Arc::new(Field::new("position", DataType::Int64, true));
        let element = Arc::new(element.as_ref().clone().with_nullable(true));
        if self.kind != Kind::Reduce {
            return Ok(LambdaParametersProgress::Complete(vec![vec![element, position]]));
        }
        let begin =
            initial.map_or_else(|| element.data_type().clone(), |it| it.data_type().clone());
        let result = lambda.as_ref().map(|lambda| lambda.data_type().clone());
        Ok(reduce::parameters(step, begin, result, &element, &position))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Split { list, lambda, .. } = self.split(args.arg_fields)?;
        let of = match self.kind {
            Kind::Transform => DataType::new_list(lambda.data_type().clone(), true),
            Kind::Filter if !matches!(lambda.data_type(), DataType::Boolean | DataType::Null) => {
                return plan_err!(
                    "{}: the lambda returns {}; give a condition",
                    self.name(),
                    lambda.data_type()
                );
            }
            Kind::Filter => list.data_type().clone(),
            Kind::Reduce => lambda.data_type().clone(),
        };
        Ok(Arc::new(Field::new("", of, true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let Split { list, lambda, initial } = self.split(&args.args)?;
        let lists = Lists::new(&list.to_array(args.number_rows)?)?;
        let flat = lists.flat()?;
        if self.kind == Kind::Reduce {
            let initial = initial.map(|it| it.to_array(args.number_rows)).transpose()?;
            let of = args.return_field.data_type();
            let result = reduce::reduce(&lists, &flat, initial.as_ref(), of, |values| {
                let Step { so_far, elements, positions, rows } = values;
                let so_far = || Ok(Arc::clone(&so_far));
                let elements = || Ok(Arc::clone(&elements));
                let numbers = || Ok(Arc::new(positions.clone()) as ArrayRef);
                let count = rows.len();
                let spread = |arrays: &[ArrayRef]| Ok(take_arrays(arrays, rows, None)?);
                let result = lambda.evaluate(&[&so_far, &elements, &numbers], spread)?;
                result.into_array(count)
            })?;
            return Ok(ColumnarValue::Array(result));
        }
        let Some(field) = element_field(args.return_field.data_type()) else {
            return exec_err!("{} returns lists", self.name());
        };
        if flat.values.is_empty() {
            let result = lists_of(field, flat.lengths, flat.values, lists.nulls())?;
            return Ok(ColumnarValue::Array(result));
        }
        let values = || Ok(Arc::clone(&flat.values));
        let positions = || Ok(Arc::new(flat.positions.clone()) as ArrayRef);
        let spread = |arrays: &[ArrayRef]| Ok(take_arrays(arrays, &flat.rows, None)?);
        let result = lambda.evaluate(&[&values, &positions], spread)?;
        let result = result.into_array(flat.values.len())?;
        let (lengths, values) = match self.kind {
            Kind::Filter => kept(&flat, &result)?,
            _ => (flat.lengths, result),
        };
        Ok(ColumnarValue::Array(lists_of(field, lengths, values, lists.nulls())?))
    }
}

/// The elements for which the condition is true, and their number in each row.
fn kept(flat: &Flat, condition: &ArrayRef) -> Result<(Vec<usize>, ArrayRef)> {
    let condition = cast(condition, &DataType::Boolean)?;
    let keeps: BooleanArray =
        condition.as_boolean().iter().map(|it| Some(it.unwrap_or(false))).collect();
    let mut next = 0;
    let lengths = flat.lengths.iter().map(|&length| {
        let count = keeps.slice(next, length).true_count();
        next += length;
        count
    });
    let lengths = lengths.collect();
    Ok((lengths, filter(&flat.values, &keeps)?))
}
