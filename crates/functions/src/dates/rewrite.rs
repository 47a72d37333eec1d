//! Fields of `extract` and `date_part` that DataFusion lacks.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable as _, ScalarUDF, cast, lit};

use super::fields::{MILLISECONDS, SECONDS};
use super::part::Part;

/// Rewrites `date_part('century', x)` to `century(x)`, and replaces names of fields by those that
/// DataFusion knows, such as `dayofweek` by `dow`. The epoch is that of [`super::epoch`]: an
/// interval's years have 365.25 days, and a timestamp's fraction is not rounded to 128 nanoseconds.
/// Seconds and milliseconds have a fraction, as in PostgreSQL.
///
/// `julian` and `timezone` are not rewritten: the results of the other fields have DataFusion's
/// type, an integer of 32 bits.
#[derive(Debug)]
pub(crate) struct DateParts {
    functions: Vec<Arc<ScalarUDF>>,
}

impl DateParts {
    pub(crate) fn new(functions: Vec<Arc<ScalarUDF>>) -> Self {
        Self { functions }
    }

    fn named(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        self.functions.iter().find(|function| function.name() == name)
    }

    /// The call that replaces `date_part(name, value)`; `None` if that stays.
    fn call(&self, function: &Arc<ScalarUDF>, name: &str, value: &Expr) -> Option<Expr> {
        let part = Part::named(name).ok()?;
        match part {
            Part::Century
            | Part::Decade
            | Part::Millennium
            | Part::Era
            | Part::YearWeek
            | Part::TimeZoneHour
            | Part::TimeZoneMinute => {
                let function = self.named(part.name())?;
                Some(cast(function.call(vec![value.clone()]), DataType::Int32))
            }
            Part::Second => Some(self.named(SECONDS)?.call(vec![value.clone()])),
            Part::Millisecond => Some(self.named(MILLISECONDS)?.call(vec![value.clone()])),
            part if !name.eq_ignore_ascii_case(part.name()) => {
                Some(function.call(vec![lit(part.name()), value.clone()]))
            }
            _ => None,
        }
    }
}

/// True for a type whose epoch is that of [`super::epoch`].
fn has_epoch(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_) | DataType::Timestamp(..))
}

impl FunctionRewrite for DateParts {
    fn name(&self) -> &str {
        "date_parts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
        let ([Expr::Literal(name, _), value], "date_part") =
            (call.args.as_slice(), call.func.name())
        else {
            return Ok(Transformed::no(expr));
        };
        let name = name.try_as_str().flatten();
        if name.is_some_and(|name| name.eq_ignore_ascii_case("epoch"))
            && value.get_type(schema).is_ok_and(|of| has_epoch(&of))
            && let Some(epoch) = self.named("epoch")
        {
            return Ok(Transformed::yes(epoch.call(vec![value.clone()])));
        }
        match name.and_then(|name| self.call(&call.func, name, value)) {
            Some(call) => Ok(Transformed::yes(call)),
            None => Ok(Transformed::no(expr)),
        }
    }
}
