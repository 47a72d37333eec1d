//! Window functions over planned relations, and selections of columns by COLUMNS.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::sqlparser::ast::{
    ExcludeSelectItem, Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectName, UnaryOperator, Value, ValueWithSpan, WildcardAdditionalOptions,
};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition,
};
use regex::Regex;

/// A call of a window function over all rows of its partition.
///
/// # Errors
/// If there is no such function.
pub(super) fn window(
    function: &str,
    args: Vec<Expr>,
    partition_by: Vec<Expr>,
    order_by: Vec<Sort>,
    context: &dyn RelationPlannerContext,
) -> Result<Expr> {
    let provider = context.context_provider();
    let definition = match provider.get_window_meta(function) {
        Some(function) => WindowFunctionDefinition::WindowUDF(function),
        None => {
            let aggregate = provider.get_aggregate_meta(function);
            let missing = || plan_datafusion_err!("there is no window function {function}");
            WindowFunctionDefinition::AggregateUDF(aggregate.ok_or_else(missing)?)
        }
    };
    let mut call = WindowFunction::new(definition, args);
    call.params.window_frame = WindowFrame::new((!order_by.is_empty()).then_some(false));
    call.params.partition_by = partition_by;
    call.params.order_by = order_by;
    Ok(Expr::from(call))
}

/// A call of a window function over the rows up to the current one.
///
/// # Errors
/// If there is no such function.
pub(super) fn running(
    function: &str,
    args: Vec<Expr>,
    partition_by: Vec<Expr>,
    order_by: Vec<Sort>,
    context: &dyn RelationPlannerContext,
) -> Result<Expr> {
    let mut call = window(function, args, partition_by, order_by, context)?;
    if let Expr::WindowFunction(call) = &mut call {
        call.params.window_frame = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
    }
    Ok(call)
}

/// Adds the result of a window function, with its alias, to a relation.
///
/// # Errors
/// If the function cannot be planned.
pub(super) fn with_window(relation: LogicalPlan, call: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(relation).window(vec![call])?.build()
}

/// The types that pairs of expressions are compared as.
///
/// # Errors
/// For a pair that cannot be compared.
pub(super) fn common_types(
    left: &[Expr],
    left_schema: &DFSchema,
    right: &[Expr],
    right_schema: &DFSchema,
) -> Result<Vec<DataType>> {
    let pairs = left.iter().zip(right);
    pairs
        .map(|(one, other)| {
            let types = (one.get_type(left_schema)?, other.get_type(right_schema)?);
            comparison_coercion(&types.0, &types.1).ok_or_else(|| {
                plan_datafusion_err!(
                    "{one} and {other} cannot be compared: their types are {} and {}",
                    types.0,
                    types.1
                )
            })
        })
        .collect()
}

/// A choice among columns: `COLUMNS('regular expression')`, `COLUMNS(* EXCLUDE (a))`,
/// `COLUMNS(['a', 'b'])`.
#[derive(Debug)]
pub(in super::super) enum Chosen {
    /// The columns whose names match.
    Matching(Box<Pattern>),
    /// All columns except those of the names.
    AllBut(Vec<String>),
    /// The columns of the names.
    Named(Vec<String>),
}

/// A pattern of names.
#[derive(Debug)]
pub(in super::super) struct Pattern {
    expression: Regex,
    negated: bool,
}

impl Pattern {
    /// The pattern of a regular expression.
    ///
    /// # Errors
    /// If the expression is not valid.
    pub(in super::super) fn new(expression: &str, negated: bool) -> Result<Self> {
        let compiled = Regex::new(expression);
        match compiled {
            Ok(expression) => Ok(Self { expression, negated }),
            Err(error) => plan_err!("{expression} is not a regular expression: {error}"),
        }
    }

    fn matches(&self, name: &str) -> bool {
        self.expression.is_match(name) != self.negated
    }
}

impl Chosen {
    /// The choice of a call of COLUMNS; `None` for any other expression.
    ///
    /// # Errors
    /// If its argument is none of the forms above.
    pub(in super::super) fn of(expr: &SqlExpr) -> Result<Option<Self>> {
        let SqlExpr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr
        else {
            return Ok(None);
        };
        let is_columns = matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(
            |name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("columns")));
        if !is_columns {
            return Ok(None);
        }
        let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else {
            return plan_err!("COLUMNS takes one argument, such as COLUMNS('s.*') or COLUMNS(*)");
        };
        Ok(Some(match argument {
            FunctionArgExpr::Wildcard => Self::AllBut(Vec::new()),
            FunctionArgExpr::WildcardWithOptions(options) => Self::AllBut(excluded(options)?),
            FunctionArgExpr::Expr(SqlExpr::Array(list)) => {
                let names = list.elem.iter().map(text).collect::<Option<_>>();
                match names {
                    Some(names) => Self::Named(names),
                    None => return plan_err!("COLUMNS([...]) takes names between quotes"),
                }
            }
            FunctionArgExpr::Expr(expr) if text(expr).is_some() => {
                let expression = text(expr).unwrap_or_default();
                Self::Matching(Box::new(Pattern::new(&expression, false)?))
            }
            FunctionArgExpr::Expr(SqlExpr::UnaryOp { op: UnaryOperator::Not, expr })
                if text(expr).is_some() =>
            {
                let expression = text(expr).unwrap_or_default();
                Self::Matching(Box::new(Pattern::new(&expression, true)?))
            }
            other => {
                return plan_err!(
                    "COLUMNS({other}): say COLUMNS(*), COLUMNS(* EXCLUDE (a)), COLUMNS(['a', \
                     'b']) or a regular expression between quotes"
                );
            }
        }))
    }

    /// True for a column of the name.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Matching(pattern) => pattern.matches(name),
            Self::AllBut(names) => !names.iter().any(|it| it == name),
            Self::Named(names) => names.iter().any(|it| it.eq_ignore_ascii_case(name)),
        }
    }
}

impl Chosen {
    /// The name of a chosen column under an alias, in which `\\0` stands for its own name and
    /// `\\1` for the first group of the regular expression.
    pub(in super::super) fn name(&self, column: &str, alias: &str) -> String {
        let groups = match self {
            Self::Matching(pattern) => pattern.expression.captures(column),
            _ => None,
        };
        let mut name = String::new();
        let mut rest = alias.chars();
        while let Some(character) = rest.next() {
            let digit = rest.clone().next().and_then(|digit| digit.to_digit(10));
            match digit.filter(|_| character == '\\') {
                Some(0) => name.push_str(column),
                Some(digit) => {
                    let group = usize::try_from(digit).ok();
                    let group = groups.as_ref().zip(group).and_then(|(all, at)| all.get(at));
                    name.push_str(group.map_or("", |group| group.as_str()));
                }
                None => {
                    name.push(character);
                    continue;
                }
            }
            rest.next();
        }
        name
    }
}

/// The text of a literal.
fn text(expr: &SqlExpr) -> Option<String> {
    match expr {
        SqlExpr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Some(text.clone())
        }
        _ => None,
    }
}

/// The columns that `* EXCLUDE` leaves out.
fn excluded(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    let is_plain = options.opt_ilike.is_none()
        && options.opt_rename.is_none()
        && options.opt_replace.is_none()
        && options.opt_except.is_none();
    if !is_plain {
        return plan_err!("COLUMNS(*) takes EXCLUDE and no other option");
    }
    let name = |name: &ObjectName| {
        name.0.last().and_then(|part| part.as_ident()).map(|ident| match ident.quote_style {
            None => ident.value.to_lowercase(),
            Some(_) => ident.value.clone(),
        })
    };
    Ok(match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(one)) => name(one).into_iter().collect(),
        Some(ExcludeSelectItem::Multiple(all)) => all.iter().filter_map(name).collect(),
        None => Vec::new(),
    })
}
