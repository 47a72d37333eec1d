//! SUMMARIZE: a row of statistics for each column of a table or query, as DuckDB returns it.
//!
//! ```text
//! SUMMARIZE orders;  SUMMARIZE SELECT o_totalprice FROM orders;  SUMMARIZE 'orders.parquet';
//! ```
//!
//! The plan is one aggregation without groups over the query. A projection turns its row into lists
//! with an element for each column, which `unnest` turns into rows. Quantiles and numbers of
//! distinct values are approximations of bounded size, so the memory does not depend on the number
//! of rows.

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{
    approx_distinct, approx_percentile_cont, avg, count, max, min, stddev,
};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit, try_cast, when,
};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::error::SqlError;

use super::dialect::parsed_query;
use super::refusal::refused;
use super::sql_type;
use super::words::{is_word, refused as not_parsed};

/// Maximum number of columns: planning time grows faster than their number.
const COLUMNS_MAX: usize = 1000;
/// Percentiles of the columns q25, q50 and q75.
const PERCENTILES: [f64; 3] = [0.25, 0.5, 0.75];
/// Number of statistics of a column.
const STATISTICS: usize = 10;
const MICROS_OF_DAY: f64 = 86_400_000_000.0;

/// Returns true if a SUMMARIZE follows.
pub(super) fn is_next(parser: &DFParser<'_>) -> bool {
    is_word(&parser.parser.peek_nth_token_ref(0).token, "summarize")
}

/// Parses the statement that [`is_next`] has found, into the query that it summarizes.
///
/// # Errors
/// Parser errors.
pub(super) fn parse(parser: &mut DFParser<'_>) -> Result<Statement> {
    parser.parser.advance_token();
    let first = parser.parser.peek_token().token;
    let is_query = match &first {
        Token::LParen => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM | Keyword::TABLE
        ),
        _ => false,
    };
    let query = if is_query {
        *parser.parser.parse_query().map_err(not_parsed)?
    } else {
        let table = parser.parser.parse_table_factor().map_err(not_parsed)?;
        parsed_query(&format!("SELECT * FROM {table}"))?
    };
    Ok(Statement::Statement(Box::new(SqlStatement::Query(Box::new(query)))))
}

/// The columns of the result.
pub(super) fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let names = ["avg", "std", "q25", "q50", "q75"];
    let mut fields = vec![text("column_name"), text("column_type"), text("min"), text("max")];
    fields.push(Field::new("approx_unique", DataType::Int64, true));
    fields.extend(names.map(text));
    fields.push(Field::new("count", DataType::Int64, true));
    fields.push(Field::new("null_percentage", DataType::Decimal128(9, 2), true));
    Arc::new(Schema::new(fields))
}

/// The plan that summarizes the rows of `input`.
///
/// # Errors
/// [`SqlError::Refused`] for too many columns; errors of planning.
pub(super) fn plan(input: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let columns = input.schema().columns();
    let fields: Vec<_> = input.schema().fields().iter().cloned().collect();
    if columns.len() > COLUMNS_MAX {
        let what = format!("SUMMARIZE of {} columns", columns.len());
        return Err(refused(&what, &format!("name at most {COLUMNS_MAX} of them in a query")));
    }
    let named = columns.into_iter().enumerate();
    let named = named.map(|(at, column)| Expr::Column(column).alias(source(at).name));
    let statistics = fields.iter().enumerate().map(|(at, field)| Statistics::of(at, field));
    let statistics = statistics.collect::<Result<Vec<_>>>()?;
    let aggregates = statistics.iter().flat_map(|it| it.aggregates.iter().cloned());
    let rows = count(lit(1_i64)).alias("rows");
    let row = LogicalPlanBuilder::from(input)
        .project(named.collect::<Vec<_>>())?
        .aggregate(Vec::<Expr>::new(), aggregates.chain([rows]).collect::<Vec<_>>())?;
    Ok(unpivoted(row, &fields, statistics)?.build()?)
}

/// One row for each column, from the row of all aggregates.
fn unpivoted(
    row: LogicalPlanBuilder,
    fields: &[Arc<Field>],
    statistics: Vec<Statistics>,
) -> Result<LogicalPlanBuilder> {
    let schema = schema();
    let result = schema.fields();
    let text = |text: String| lit(ScalarValue::Utf8(Some(text)));
    let mut lists: Vec<Vec<Expr>> = vec![Vec::new(); result.len()];
    for (field, statistics) in fields.iter().zip(statistics) {
        lists[0].push(text(field.name().clone()));
        lists[1].push(text(sql_type::of(field)));
        for (list, value) in lists[2..].iter_mut().zip(statistics.values) {
            list.push(value);
        }
    }
    let list = |(values, field): (Vec<Expr>, &Arc<Field>)| {
        let typed = values.into_iter().map(|value| cast(value, field.data_type().clone()));
        datafusion::functions_nested::make_array::make_array(typed.collect())
            .alias(field.name().clone())
    };
    let lists: Vec<Expr> = lists.into_iter().zip(result).map(list).collect();
    let names = result.iter().map(|field| Column::new_unqualified(field.name().clone()));
    row.project(lists)?.unnest_columns_with_options(
        names.collect(),
        datafusion::common::UnnestOptions::new().with_preserve_nulls(false),
    )
}

/// The name of the input's column of index `at`.
fn source(at: usize) -> Column {
    Column::new_unqualified(format!("column {at}"))
}

/// The aggregates of a column, and the statistics that are calculated from them.
struct Statistics {
    aggregates: Vec<Expr>,
    /// Values of the columns of the result from `min` on.
    values: [Expr; STATISTICS],
}

impl Statistics {
    fn of(at: usize, field: &Field) -> Result<Self> {
        let mut builder = Builder { at, aggregates: Vec::new() };
        let (column, data_type) = (Expr::Column(source(at)), field.data_type());
        let mut values = vec![];
        for extreme in [min, max] {
            values.push(match is_ordered(data_type) {
                true => shown(builder.add(extreme(column.clone())), data_type),
                false => null(),
            });
        }
        values.push(match comparable(column.clone(), data_type) {
            Some(value) => builder.add(approx_distinct(value)),
            None => null(),
        });
        let number = number(column.clone(), data_type);
        values.push(match &number {
            Some(number) => mean(builder.add(avg(number.clone())), data_type)?,
            None => null(),
        });
        values.push(match &number {
            Some(number) if data_type.is_numeric() => {
                shown(builder.add(stddev(number.clone())), &DataType::Float64)
            }
            _ => null(),
        });
        for percentile in PERCENTILES {
            values.push(match &number {
                Some(number) => {
                    let ordered = finite(number.clone())?.sort(true, false);
                    let quantile = approx_percentile_cont(ordered, lit(percentile), None);
                    of_number(builder.add(quantile), data_type)?
                }
                None => null(),
            });
        }
        let (rows, known) = (col("rows"), builder.add(count(column)));
        values.push(rows.clone());
        let nulls = cast(rows.clone() - known, DataType::Float64) * lit(100.0_f64);
        let share = nulls / cast(rows.clone(), DataType::Float64);
        let percentage = cast(share, DataType::Decimal128(9, 2));
        values.push(when(rows.gt(lit(0_i64)), percentage).end()?);
        let count = values.len();
        let values = values.try_into().map_err(|_| {
            datafusion::common::internal_datafusion_err!("{count} statistics of a column")
        })?;
        Ok(Self { aggregates: builder.aggregates, values })
    }
}

/// Collects the aggregates of a column.
struct Builder {
    at: usize,
    aggregates: Vec<Expr>,
}

impl Builder {
    /// Adds an aggregate; returns its value.
    fn add(&mut self, aggregate: Expr) -> Expr {
        let name = format!("{} of {}", self.aggregates.len(), self.at);
        self.aggregates.push(aggregate.alias(name.clone()));
        Expr::Column(Column::new_unqualified(name))
    }
}

fn null() -> Expr {
    lit(ScalarValue::Utf8(None))
}

/// True for types whose values have a least and a greatest one that can be shown as a text.
fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_string()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        )
}

/// The text of a value.
fn shown(value: Expr, data_type: &DataType) -> Expr {
    let text = cast(value, DataType::Utf8);
    match data_type {
        // Arrow writes a T between date and time.
        DataType::Timestamp(..) => {
            datafusion::functions::string::expr_fn::replace(text, lit("T"), lit(" "))
        }
        _ => text,
    }
}

/// Converts a value to a type whose distinct values can be counted; `None` if there is no such
/// type.
fn comparable(value: Expr, data_type: &DataType) -> Option<Expr> {
    let is_counted = data_type.is_integer()
        || data_type.is_string()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_));
    match is_counted {
        true => Some(value),
        false if can_cast_types(data_type, &DataType::Utf8) => {
            Some(try_cast(value, DataType::Utf8))
        }
        false => None,
    }
}

/// A value as a number, whose mean and quantiles are defined; `None` for other types. Times are
/// microseconds, dates are days.
fn number(value: Expr, data_type: &DataType) -> Option<Expr> {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let whole = match data_type {
        data_type if data_type.is_numeric() => value,
        DataType::Date32 => cast(cast(value, DataType::Int32), DataType::Int64),
        DataType::Timestamp(..) => cast(cast(value, micros), DataType::Int64),
        DataType::Time64(_) => {
            cast(cast(value, DataType::Time64(TimeUnit::Microsecond)), DataType::Int64)
        }
        _ => return None,
    };
    Some(cast(whole, DataType::Float64))
}

/// A number, or null for NaN and infinities, which quantiles leave out.
fn finite(number: Expr) -> Result<Expr> {
    let is_finite =
        number.clone().gt(lit(f64::NEG_INFINITY)).and(number.clone().lt(lit(f64::INFINITY)));
    when(is_finite, number).end()
}

/// The text of a mean. That of dates is a timestamp.
fn mean(number: Expr, data_type: &DataType) -> Result<Expr> {
    match data_type {
        DataType::Date32 => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
            of_number(number * lit(MICROS_OF_DAY), &micros)
        }
        data_type if data_type.is_numeric() => Ok(cast(number, DataType::Utf8)),
        data_type => of_number(number, data_type),
    }
}

/// The text of a quantile, as a value of the column's type.
fn of_number(number: Expr, data_type: &DataType) -> Result<Expr> {
    let whole =
        || cast(datafusion::functions::math::expr_fn::round(vec![number.clone()]), DataType::Int64);
    let value = match data_type {
        data_type if data_type.is_integer() => whole(),
        DataType::Date32 => cast(cast(whole(), DataType::Int32), DataType::Date32),
        DataType::Timestamp(_, zone) => {
            cast(whole(), DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        DataType::Time64(_) => cast(whole(), DataType::Time64(TimeUnit::Microsecond)),
        data_type => try_cast(number, data_type.clone()),
    };
    Ok(shown(value, data_type))
}
