//! Functions by their names and overloads.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::call::Call;
use super::kind::{Kind, Returns};
use crate::adapter::{Scalar, function};
use crate::columns::TextType;

/// A function and its overloads.
#[derive(Debug)]
pub(crate) struct Definition {
    name: &'static str,
    aliases: &'static [&'static str],
    overloads: &'static [Overload],
    volatility: Volatility,
    simplify: Option<Simplify>,
}

/// Replaces a call while a statement is planned.
type Simplify = fn(Vec<Expr>, &SimplifyContext) -> Result<ExprSimplifyResult>;

/// The arguments, the result and the evaluation of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    arguments: &'static [Kind],
    /// The number of the last arguments that a call may leave out.
    optional: usize,
    rest: Option<Kind>,
    result: Returns,
    evaluate: fn(&Call) -> Result<ArrayRef>,
}

impl Overload {
    /// An overload for arguments of these kinds.
    pub(crate) const fn new(
        arguments: &'static [Kind],
        result: Kind,
        evaluate: fn(&Call) -> Result<ArrayRef>,
    ) -> Self {
        Self::returning(arguments, Returns::Of(result), evaluate)
    }

    /// An overload whose result has a type of its own.
    pub(crate) const fn returning(
        arguments: &'static [Kind],
        result: Returns,
        evaluate: fn(&Call) -> Result<ArrayRef>,
    ) -> Self {
        Self { arguments, optional: 0, rest: None, result, evaluate }
    }

    /// The overload for calls that may leave out up to `count` of the last arguments.
    pub(crate) const fn optional(self, count: usize) -> Self {
        Self { optional: count, ..self }
    }

    /// The overload with any number of further arguments of the kind `rest`.
    pub(crate) const fn followed_by(self, rest: Kind) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// The minimum number of arguments.
    fn least(&self) -> usize {
        self.arguments.len() - self.optional
    }

    /// The types to which arguments of these types are cast, and the cost of that; `None` if the
    /// overload does not take them.
    fn coerced(&self, types: &[DataType]) -> Option<(Vec<DataType>, u32)> {
        let (least, most) = (self.least(), self.arguments.len());
        let fits = types.len() >= least && (types.len() <= most || self.rest.is_some());
        let kinds = self.arguments.iter().copied().map(Some).chain(std::iter::repeat(self.rest));
        let mut total = 0;
        let coerced = types.iter().zip(kinds).map(|(from, kind)| {
            let (to, cost) = kind?.coerced(from)?;
            total += cost;
            Some(to)
        });
        let coerced = fits.then(|| coerced.collect::<Option<Vec<_>>>())??;
        Some((coerced, total))
    }
}

impl Definition {
    /// A function whose result depends on its arguments alone.
    pub(crate) const fn new(name: &'static str, overloads: &'static [Overload]) -> Self {
        let volatility = Volatility::Immutable;
        Self { name, aliases: &[], overloads, volatility, simplify: None }
    }

    /// The function with further names.
    pub(crate) const fn alias(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Marks the function as volatile: its result differs from call to call.
    pub(crate) const fn volatile(self) -> Self {
        Self { volatility: Volatility::Volatile, ..self }
    }

    /// Marks the function as stable: its result depends on its arguments and on settings of the
    /// session.
    pub(crate) const fn of_session(self) -> Self {
        Self { volatility: Volatility::Stable, ..self }
    }

    /// Marks the function as stable: its result is one value for the whole statement, which
    /// `simplify` puts in place of the call.
    pub(crate) const fn stable(self, simplify: Simplify) -> Self {
        Self { volatility: Volatility::Stable, simplify: Some(simplify), ..self }
    }

    /// The overload with the least cost of casts, the first of several, and the types that the
    /// arguments are cast to.
    fn overload(&self, types: &[DataType]) -> Option<(&'static Overload, Vec<DataType>)> {
        let fitting = self.overloads.iter().filter_map(|overload| {
            let (types, cost) = overload.coerced(types)?;
            Some((cost, overload, types))
        });
        let (_, overload, types) = fitting.min_by_key(|(cost, ..)| *cost)?;
        Some((overload, types))
    }

    fn forms(&self) -> String {
        let form = |overload: &Overload| {
            let kinds = overload.arguments.iter().enumerate().map(|(place, kind)| {
                let kind = format!("{kind:?}").to_lowercase();
                if place < overload.least() { kind } else { format!("[{kind}]") }
            });
            let mut kinds: Vec<_> = kinds.collect();
            kinds.extend(overload.rest.map(|_| "...".to_owned()));
            format!("{}({})", self.name, kinds.join(", "))
        };
        self.overloads.iter().map(form).collect::<Vec<_>>().join(" or ")
    }
}

/// The functions of some definitions.
pub(crate) fn functions(definitions: &'static [Definition]) -> Vec<Arc<ScalarUDF>> {
    definitions.iter().map(function).collect()
}

impl Definition {
    /// The overload for arguments of these types, and the types that they are cast to.
    fn fitting(&self, types: &[DataType]) -> Result<(&'static Overload, Vec<DataType>)> {
        match self.overload(types) {
            Some(found) => Ok(found),
            None => {
                let types: Vec<_> = types.iter().map(ToString::to_string).collect();
                plan_err!(
                    "{} does not take ({}); it is {}; cast the arguments",
                    self.name,
                    types.join(", "),
                    self.forms()
                )
            }
        }
    }
}

impl Scalar for &'static Definition {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn volatility(&self) -> Volatility {
        self.volatility
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.fitting(given)?.1)
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        let (overload, types) = self.fitting(given)?;
        let data_type = overload.result.data_type(&types)?;
        Ok(match overload.result {
            Returns::Uuid => TextType::Uuid.field(self.name).with_data_type(data_type),
            _ => Field::new(self.name, data_type, true),
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.simplify {
            Some(simplify) => simplify(args, info),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn run(&self, args: &ScalarFunctionArgs, _: usize) -> Result<ArrayRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let (overload, _) = self.fitting(&types)?;
        let mut kinds = overload.arguments.to_vec();
        kinds.extend(overload.rest);
        (overload.evaluate)(&Call::new(self.name, args, &kinds)?)
    }
}
