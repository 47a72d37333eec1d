//! Adapter: DataFusion's function with accumulators of this crate.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunctionParams,
};
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::physical_expr::PhysicalSortExpr;

use super::canonical::Canonical;
use super::difference::{Kind, is_list};
use super::sliding::{Merging, Sliding, Totals};
use super::sum::average;
use super::text_limit::{Limit, Limited, LimitedGroups};
use super::wide::state_type;
use super::{extreme, sum};
use crate::floats::has_floats;

/// A DataFusion function with other accumulators; see the [module](super).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SqlAggregate {
    stock: AggregateUDF,
    kind: Kind,
    signature: Signature,
}

impl SqlAggregate {
    /// Creates the function that replaces `stock`.
    pub(super) fn over(stock: &AggregateUDF, kind: Kind) -> AggregateUDF {
        AggregateUDF::from(Self::new(stock.clone(), kind))
    }

    fn new(stock: AggregateUDF, kind: Kind) -> Self {
        let signature = match kind {
            Kind::Average | Kind::Sum => Signature::user_defined(stock.signature().volatility),
            _ => stock.signature().clone(),
        };
        Self { stock, kind, signature }
    }

    pub(super) fn stock(&self) -> &AggregateUDF {
        &self.stock
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns true if equal arguments must be given equal bits.
    fn looks_at_floats(&self, args: &AccumulatorArgs<'_>) -> bool {
        let matters = match self.kind {
            Kind::Sum | Kind::Moving | Kind::Logical => false,
            Kind::Min | Kind::Max => true,
            Kind::Distinct | Kind::Average => args.is_distinct,
        };
        matters && args.expr_fields.iter().any(|field| has_floats(field.data_type()))
    }

    fn over_floats(
        &self,
        args: &AccumulatorArgs<'_>,
        inner: Box<dyn Accumulator>,
    ) -> Box<dyn Accumulator> {
        if self.looks_at_floats(args) { Box::new(Canonical(inner)) } else { inner }
    }

    /// Limits the bytes of texts that `inner` may hold if the function is `array_agg` or
    /// `string_agg`; returns the accumulator of any other function unchanged.
    fn limited(
        &self,
        args: &AccumulatorArgs<'_>,
        inner: Box<dyn Accumulator>,
    ) -> Box<dyn Accumulator> {
        match is_list(&self.stock) {
            true => Box::new(Limited::new(inner, Limit::of(self.stock.name(), args.is_distinct))),
            false => inner,
        }
    }

    /// Returns the accumulator of a sliding frame of floating-point numbers, bits or truth values,
    /// if it is not DataFusion's.
    fn sliding(&self, args: &AccumulatorArgs<'_>) -> Result<Option<Box<dyn Accumulator>>> {
        let merging = || Ok(Box::new(Sliding::new(Merging::new(&self.stock, args))?) as _);
        if self.kind == Kind::Logical {
            return merging().map(Some);
        }
        if args.is_distinct || !args.return_type().is_floating() {
            return Ok(None);
        }
        let is_average = self.kind == Kind::Average;
        Ok(match self.kind {
            Kind::Moving => Some(merging()?),
            Kind::Sum | Kind::Average => Some(Box::new(Sliding::new(Totals { is_average })?)),
            Kind::Min | Kind::Max | Kind::Distinct | Kind::Logical => None,
        })
    }

    /// Returns the type of the argument, if this is an average that is kept exactly.
    fn exact<'a>(&self, arguments: &'a [FieldRef]) -> Option<&'a DataType> {
        let argument = arguments.first()?.data_type();
        (self.kind == Kind::Average && average::is_exact(argument)).then_some(argument)
    }

    /// Returns the type of the result for arguments of `arg_types`, if it is not DataFusion's.
    fn result_type(&self, arg_types: &[DataType]) -> Option<DataType> {
        match arg_types {
            [argument] if self.kind == Kind::Average => average::result_type(argument),
            _ => None,
        }
    }

    /// Returns the type of the sum in the state, if it is not DataFusion's.
    fn sum_type(&self, result: &DataType) -> Option<DataType> {
        if self.kind == Kind::Sum { state_type(result) } else { None }
    }
}

// Everything except accumulators and statistics is delegated to the stock function: every method is
// here.
#[warn(clippy::missing_trait_methods)]
impl AggregateUDFImpl for SqlAggregate {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        self.stock.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match self.result_type(arg_types) {
            Some(own) => Ok(own),
            None => self.stock.return_type(arg_types),
        }
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let arg_types: Vec<_> = arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.result_type(&arg_types) {
            Some(own) => Ok(Arc::new(Field::new(self.name(), own, true))),
            None => self.stock.return_field(arg_fields),
        }
    }

    fn is_nullable(&self) -> bool {
        self.stock.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if self.sum_type(args.return_type()).is_some() {
            let stock = self.stock.accumulator(args.clone())?;
            return sum::accumulator(&args, stock);
        }
        if let Some(argument) = self.exact(args.expr_fields) {
            return average::accumulator(&args, argument);
        }
        // A reversed list reads its input backwards. A `DISTINCT` list sorts its values itself, and
        // so would be returned backwards.
        let mut order_bys = Vec::new();
        let is_turned = args.is_distinct && args.is_reversed && is_list(&self.stock);
        let args = match is_turned {
            true => {
                order_bys.extend(args.order_bys.iter().map(PhysicalSortExpr::reverse));
                AccumulatorArgs { order_bys: &order_bys, is_reversed: false, ..args }
            }
            false => args,
        };
        let stock = self.stock.accumulator(args.clone())?;
        Ok(self.limited(&args, self.over_floats(&args, stock)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if let Some(argument) = self.exact(args.input_fields) {
            return average::state_fields(args, argument);
        }
        match self.sum_type(args.return_type()).filter(|_| !args.is_distinct) {
            Some(sum) => {
                let name = format_state_name(args.name, "sum");
                Ok(vec![Arc::new(Field::new(name, sum, true))])
            }
            None => self.stock.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let has_own = matches!(self.kind, Kind::Min | Kind::Max);
        (has_own || !self.looks_at_floats(&args)) && self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let own = match self.kind {
            Kind::Sum => sum::groups(&args),
            Kind::Min => extreme::groups(args.return_type(), false),
            Kind::Max => extreme::groups(args.return_type(), true),
            Kind::Average => match self.exact(args.expr_fields) {
                Some(argument) => Some(average::groups(&args, argument)?),
                None => None,
            },
            Kind::Distinct | Kind::Moving | Kind::Logical => None,
        };
        match own {
            Some(own) => Ok(own),
            None => {
                let stock = self.stock.create_groups_accumulator(args)?;
                Ok(match is_list(&self.stock) {
                    true => {
                        // DISTINCT has no such accumulators.
                        let limit = Limit::of(self.stock.name(), false);
                        Box::new(LimitedGroups::new(stock, limit))
                    }
                    false => stock,
                })
            }
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if self.sum_type(args.return_type()).is_some() {
            return sum::sliding(&args);
        }
        if let Some(argument) = self.exact(args.expr_fields) {
            return average::sliding(&args, argument);
        }
        if let Some(sliding) = self.sliding(&args)? {
            return Ok(sliding);
        }
        let stock = self.stock.create_sliding_accumulator(args.clone())?;
        Ok(self.limited(&args, self.over_floats(&args, stock)))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let stock = self.stock.clone().with_beneficial_ordering(beneficial_ordering)?;
        // A function that is sensitive to order must return one here; `string_agg` returns none,
        // and sorts values that are in order again.
        let stock = stock.or_else(|| is_list(&self.stock).then(|| self.stock.clone()));
        let again = |stock| Arc::new(Self::new(stock, self.kind)) as Arc<dyn AggregateUDFImpl>;
        Ok(stock.map(again))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match is_list(&self.stock) {
            // It sorts values that do not come in order.
            true => AggregateOrderSensitivity::SoftRequirement,
            false => self.stock.order_sensitivity(),
        }
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.stock.simplify()
    }

    fn simplify_expr_op_literal(
        &self,
        agg_function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        lit: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.stock.simplify_expr_op_literal(agg_function, arg, op, lit, arg_is_left)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.stock.reverse_udf() {
            ReversedUDAF::Reversed(stock) => {
                ReversedUDAF::Reversed(Arc::new(Self::over(&stock, self.kind)))
            }
            other => other,
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = match (self.kind, arg_types) {
            // Their number of true values, as in DuckDB.
            (Kind::Sum | Kind::Average, [DataType::Boolean]) => Some(DataType::Int64),
            (Kind::Average, [argument]) => average::coerced(argument),
            (Kind::Sum | Kind::Average, _) => None,
            _ => return self.stock.coerce_types(arg_types),
        };
        if let Some(coerced) = coerced {
            return Ok(vec![coerced]);
        }
        let field = |it: &DataType| -> FieldRef { Arc::new(Field::new("", it.clone(), true)) };
        let fields: Vec<FieldRef> = arg_types.iter().map(field).collect();
        let fields = fields_with_udf(&fields, &self.stock)?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn is_descending(&self) -> Option<bool> {
        self.stock.is_descending()
    }

    /// Ignores statistics where they may be wrong: sums in them may have wrapped around, and bounds
    /// of floats leave out NaN in Parquet's and order it by its sign in ours.
    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        let knows = !matches!(self.kind, Kind::Sum | Kind::Min | Kind::Max)
            || (self.sum_type(args.return_type).is_none() && !has_floats(args.return_type));
        if knows { self.stock.value_from_stats(args) } else { None }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.stock.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.stock.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.stock.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }

    /// Returns that results are not monotonic. DataFusion takes the results of functions that grow
    /// with their frame for sorted. They are not if values are null: the minimum of no value is
    /// null and comes first, and a count over a sliding frame falls.
    fn set_monotonicity(&self, _: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}
