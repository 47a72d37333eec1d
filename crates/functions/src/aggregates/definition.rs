//! Interface of the aggregate functions of this crate, and their adapter to DataFusion's.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::distinct;
use super::factory::{Factory, KEEPS_VALUES, list_of};
use super::frame::Frame;
use super::single::Single;

/// The meaning of DISTINCT for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Repeated values of the first argument are dropped.
    Dropped,
    /// The result is the same with and without them.
    Irrelevant,
    /// The function has no DISTINCT.
    Refused,
}

/// An aggregate function.
pub(super) trait Definition: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Returns other names.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the types that arguments are cast to.
    ///
    /// # Errors
    /// If the function does not take arguments of these types.
    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>>;

    /// Returns the type of the result, for coerced arguments.
    fn result(&self, arguments: &[DataType]) -> DataType;

    /// Returns the names and types of the columns of the state.
    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)>;

    /// Returns true if the state is a list of the values of its group, for a number of arguments.
    fn keeps_values(&self, _arguments: usize) -> bool {
        false
    }

    /// Returns the meaning of DISTINCT, for a number of arguments.
    fn repeats(&self, _arguments: usize) -> Repeats {
        Repeats::Dropped
    }

    /// Returns true if rows in another order may give another result.
    fn depends_on_order(&self) -> bool {
        false
    }

    /// Returns true if the function may be called with WITHIN GROUP.
    fn takes_within_group(&self) -> bool {
        false
    }

    /// Returns the factory of accumulators for a call; DISTINCT is applied by the adapter.
    ///
    /// # Errors
    /// If an argument that must be a constant is none, or is out of range.
    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory>;
}

/// A function of this crate as a function of DataFusion.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Function<D: Definition> {
    definition: D,
    signature: Signature,
    aliases: Vec<String>,
}

impl<D: Definition> Function<D> {
    /// Creates the function.
    pub(super) fn of(definition: D) -> Arc<AggregateUDF> {
        let aliases = definition.aliases().iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { definition, signature, aliases }))
    }

    /// Returns the factory of accumulators, and the types of their arguments.
    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<(Factory, Vec<DataType>)> {
        let name = self.definition.name();
        if self.definition.depends_on_order() && !args.order_bys.is_empty() {
            return plan_err!(
                "{name} has no ORDER BY of its own: its last argument orders the rows; leave \
                 ORDER BY out"
            );
        }
        let types = types(args.expr_fields);
        let factory = self.definition.factory(args)?;
        match self.definition.repeats(types.len()) {
            Repeats::Dropped if args.is_distinct => {
                let Some(first) = types.first() else {
                    return internal_err!("{name} without an argument");
                };
                let first = first.clone();
                Ok((Arc::new(move || distinct::groups(&first, &factory)), types))
            }
            Repeats::Refused if args.is_distinct => {
                plan_err!("{name} has no DISTINCT; select distinct rows in a subquery")
            }
            _ => Ok((factory, types)),
        }
    }
}

impl<D: Definition> AggregateUDFImpl for Function<D> {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.definition.coerce(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.definition.result(arg_types))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let arguments = types(args.input_fields);
        let repeats = self.definition.repeats(arguments.len());
        let drops = args.is_distinct && repeats == Repeats::Dropped;
        let keeps_values = drops || self.definition.keeps_values(arguments.len());
        let columns = match (drops, arguments.first()) {
            (true, Some(first)) => vec![("values", list_of(first.clone()))],
            _ => self.definition.state(&arguments),
        };
        let field = |(name, data_type): (&str, DataType)| -> FieldRef {
            let field = Field::new(format_state_name(args.name, name), data_type, true);
            let marks = keeps_values.then(|| (KEEPS_VALUES.to_owned(), String::new()));
            Arc::new(field.with_metadata(marks.into_iter().collect()))
        };
        Ok(columns.into_iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (factory, types) = self.factory(&args)?;
        Ok(Box::new(Single::new(factory, types)?))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.factory(&args)?.0()
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let (factory, types) = self.factory(&args)?;
        Ok(Box::new(Frame::new(factory, types)))
    }

    /// Returns `Beneficial` for ordered sets: of a function that is insensitive to order, operators
    /// do not see the direction of its WITHIN GROUP.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.definition.takes_within_group() {
            true => AggregateOrderSensitivity::Beneficial,
            false => AggregateOrderSensitivity::Insensitive,
        }
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn supports_within_group_clause(&self) -> bool {
        self.definition.takes_within_group()
    }
}

fn types(fields: &[FieldRef]) -> Vec<DataType> {
    fields.iter().map(|field| field.data_type().clone()).collect()
}
