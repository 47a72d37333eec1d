//! DuckDB's aggregates of the elements of a list: `list_aggregate(l, 'sum')`, `list_sum(l)`.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};

use super::elements::{Lists, element_field, list_type};

/// The aggregates with a function of their own: the name behind `list_`, and the aggregate's name.
const NAMED: [(&str, &str); 30] = [
    ("any_value", "any_value"),
    ("approx_count_distinct", "approx_distinct"),
    ("avg", "avg"),
    ("bit_and", "bit_and"),
    ("bit_or", "bit_or"),
    ("bit_xor", "bit_xor"),
    ("bool_and", "bool_and"),
    ("bool_or", "bool_or"),
    ("count", "count"),
    ("entropy", "entropy"),
    ("first", "first_value"),
    ("histogram", "histogram"),
    ("kurtosis", "kurtosis"),
    ("kurtosis_pop", "kurtosis_pop"),
    ("last", "last_value"),
    ("mad", "mad"),
    ("max", "max"),
    ("median", "median"),
    ("min", "min"),
    ("mode", "mode"),
    ("product", "product"),
    ("sem", "sem"),
    ("skewness", "skewness"),
    ("stddev", "stddev"),
    ("stddev_pop", "stddev_pop"),
    ("stddev_samp", "stddev_samp"),
    ("string_agg", "string_agg"),
    ("sum", "sum"),
    ("var_pop", "var_pop"),
    ("var_samp", "var_samp"),
];

/// The aggregate with a separator, which is a comma if it is left out.
const SEPARATED: &str = "string_agg";

type Aggregates = HashMap<String, Arc<AggregateUDF>>;

/// Returns the functions that apply these aggregates to lists.
pub(super) fn functions(aggregates: &Aggregates) -> Vec<Arc<ScalarUDF>> {
    let all = Arc::new(aggregates.clone());
    let by_name =
        ListAggregate::new("list_aggregate", &["list_aggr", "array_aggregate"], all, None);
    let mut functions = vec![Arc::new(ScalarUDF::new_from_impl(by_name))];
    for (name, aggregate) in NAMED {
        let Some(aggregate) = aggregates.get(aggregate) else { continue };
        let (name, alias) = (format!("list_{name}"), format!("array_{name}"));
        // The parser and DataFusion have other functions of these names.
        let aliases = if name == "list_first" { vec![] } else { vec![alias.as_str()] };
        let function =
            ListAggregate::new(&name, &aliases, Arc::default(), Some(Arc::clone(aggregate)));
        functions.push(Arc::new(ScalarUDF::new_from_impl(function)));
    }
    functions
}

#[derive(Debug)]
struct ListAggregate {
    name: String,
    aliases: Vec<String>,
    signature: Signature,
    /// All aggregates by name, for `list_aggregate`, whose second argument is a name.
    all: Arc<Aggregates>,
    /// The aggregate of a function such as `list_sum`; `None` for `list_aggregate`.
    one: Option<Arc<AggregateUDF>>,
}

impl PartialEq for ListAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ListAggregate {}

impl Hash for ListAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// An aggregate of elements, and its types.
struct Bound {
    aggregate: Arc<AggregateUDF>,
    /// The types that the elements and the further arguments are cast to.
    fields: Vec<FieldRef>,
    result: FieldRef,
}

impl ListAggregate {
    fn new(
        name: &str,
        aliases: &[&str],
        all: Arc<Aggregates>,
        one: Option<Arc<AggregateUDF>>,
    ) -> Self {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { name: name.to_owned(), aliases, signature, all, one }
    }

    /// Number of arguments before the further arguments of the aggregate: the list, and for
    /// `list_aggregate` the name.
    fn own_arguments(&self) -> usize {
        if self.one.is_some() { 1 } else { 2 }
    }

    fn aggregate(&self, name: Option<&ScalarValue>) -> Result<Arc<AggregateUDF>> {
        if let Some(one) = &self.one {
            return Ok(Arc::clone(one));
        }
        let Some(name) = name.and_then(|name| name.try_as_str()).flatten() else {
            return plan_err!("{}: the name of the aggregate has to be a constant", self.name);
        };
        let name = name.to_ascii_lowercase();
        let named = NAMED.iter().find(|(own, _)| *own == name).map(|(_, name)| *name);
        match self.all.get(named.unwrap_or(name.as_str())) {
            Some(aggregate) => Ok(Arc::clone(aggregate)),
            None => plan_err!("{}: there is no aggregate {name:?}", self.name),
        }
    }

    fn bind(&self, fields: &[FieldRef], name: Option<&ScalarValue>) -> Result<Bound> {
        let aggregate = self.aggregate(name)?;
        let Some(element) = fields.first().and_then(|list| element_field(list.data_type())) else {
            return plan_err!("{} takes a list as its first argument", self.name);
        };
        // A list without elements or with nulls alone has no type of elements: one of numbers.
        let element = match element.data_type() {
            DataType::Null => DataType::Int64,
            other => other.clone(),
        };
        let element = Field::new("element", element, true);
        let further = fields.iter().skip(self.own_arguments()).cloned();
        let mut fields: Vec<_> = std::iter::once(Arc::new(element)).chain(further).collect();
        if aggregate.name() == SEPARATED && fields.len() == 1 {
            fields.push(Arc::new(Field::new("separator", DataType::Utf8, false)));
        }
        let fields = fields_with_udf(&fields, aggregate.as_ref())?;
        let result = aggregate.return_field(&fields)?;
        Ok(Bound { aggregate, fields, result })
    }
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // Wrong types are refused with the result's type, whose errors the planner keeps.
        let Some(list) = given.first().and_then(list_type) else { return Ok(given.to_vec()) };
        Ok(std::iter::once(list).chain(given.iter().skip(1).cloned()).collect())
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        exec_err!("the type of {} depends on its arguments", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = args.scalar_arguments.get(1).copied().flatten();
        let bound = self.bind(args.arg_fields, name)?;
        Ok(Arc::new(Field::new(&self.name, bound.result.data_type().clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalars = args.args.iter().map(|arg| match arg {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(_) => None,
        });
        let scalars: Vec<_> = scalars.collect();
        let bound = self.bind(&args.arg_fields, scalars.get(1).copied().flatten())?;
        let constants = scalars.iter().skip(self.own_arguments());
        let mut literals = Vec::new();
        for (value, field) in constants.zip(bound.fields.iter().skip(1)) {
            let Some(value) = value else {
                return exec_err!("{}: the arguments of an aggregate are constants", self.name);
            };
            literals.push(value.cast_to(field.data_type())?);
        }
        if literals.is_empty() && bound.fields.len() == 2 {
            literals.push(ScalarValue::from(",").cast_to(bound.fields[1].data_type())?);
        }
        let is_scalar = scalars.first().is_some_and(Option::is_some);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let Some(list) = args.args.first() else {
            return exec_err!("{} takes a list", self.name);
        };
        let lists = Lists::new(&list.to_array(rows)?)?;
        let result = bound.results(&lists, &literals)?;
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

impl Bound {
    /// The aggregate of each list; null for null.
    fn results(&self, lists: &Lists, literals: &[ScalarValue]) -> Result<ArrayRef> {
        let Some(element) = self.fields.first() else {
            return exec_err!("an aggregate of a list takes its elements");
        };
        let values = cast(lists.values(), element.data_type())?;
        let schema = Schema::new(vec![Arc::clone(element)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(element.name(), 0));
        let constants = literals.iter().map(|value| Arc::new(Literal::new(value.clone())) as _);
        let exprs: Vec<_> = std::iter::once(column).chain(constants).collect();
        let mut results = Vec::with_capacity(lists.rows());
        for row in 0..lists.rows() {
            let Some(range) = lists.range(row) else {
                results.push(ScalarValue::try_new_null(self.result.data_type())?);
                continue;
            };
            let mut accumulator = self.aggregate.accumulator(AccumulatorArgs {
                return_field: Arc::clone(&self.result),
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: self.aggregate.name(),
                is_distinct: false,
                exprs: &exprs,
                expr_fields: &self.fields,
            })?;
            let mut arguments = vec![values.slice(range.start, range.len())];
            for value in literals {
                arguments.push(value.to_array_of_size(range.len())?);
            }
            accumulator.update_batch(&arguments)?;
            results.push(accumulator.evaluate()?);
        }
        let results = ScalarValue::iter_to_array(results)?;
        Ok(cast(&results, self.result.data_type())?)
    }
}
