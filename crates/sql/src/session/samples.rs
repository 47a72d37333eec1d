//! Samples of tables and of queries.
//!
//! `t TABLESAMPLE BERNOULLI (p)` becomes a filter by a random number, `(n ROWS)` a random order
//! with a limit: DataFusion's planner drops the clause. A sample of `USING SAMPLE` is that of the
//! only table of a FROM, or of the rows of its joins.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ObjectName, Select, SetExpr, TableAlias, TableFactor, TableSample,
    TableSampleKind, TableSampleMethod, TableSampleUnit, Value, ValueWithSpan,
};
use terrace_table::error::SqlError;

use super::dialect::{parsed_expr, parsed_query};
use super::refusal::refused;
use super::spelling::SAMPLE;

/// Rewrites a sampled table as a subquery that samples its rows.
pub(super) fn write_out(table: &mut TableFactor) -> Result<(), SqlError> {
    let (sample, alias) = match table {
        TableFactor::Table { name, alias, sample, .. } => {
            let Some(sample) = sample.take() else { return Ok(()) };
            let own = alias.take().or_else(|| alias_of(name));
            (sample, own)
        }
        TableFactor::Derived { sample, alias, .. } => {
            let Some(sample) = sample.take() else { return Ok(()) };
            (sample, alias.take())
        }
        _ => return Ok(()),
    };
    let rows = match Rows::of(inner(&sample))? {
        Rows::Chance(percent) => format!("SELECT * FROM t WHERE {}", chance(percent)),
        Rows::Share(percent) => {
            format!("SELECT * FROM t ORDER BY random() FETCH FIRST {percent} PERCENT ROWS ONLY")
        }
        Rows::Number(rows) => format!("SELECT * FROM t ORDER BY random() LIMIT {rows}"),
    };
    let mut query = parsed_query(&rows)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(from) = select.from.first_mut() else { return Ok(()) };
    // The subquery takes the place of the table, and contains it.
    mem::swap(&mut from.relation, table);
    let (subquery, sample) = (Box::new(query), None);
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample };
    Ok(())
}

/// Applies USING SAMPLE, which the parser's form states as a first table of FROM, to the only other
/// table, or to the rows of the joins.
pub(super) fn share_out(select: &mut Select) -> Result<(), SqlError> {
    let Some(TableFactor::Table { name, sample, .. }) =
        select.from.first_mut().map(|first| &mut first.relation)
    else {
        return Ok(());
    };
    let is_marker = name.0.first().and_then(|part| part.as_ident()).map(|it| it.value.as_str());
    let Some(given) = sample.take_if(|_| is_marker == Some(SAMPLE)) else { return Ok(()) };
    select.from.remove(0);
    if let [table] = select.from.as_mut_slice()
        && table.joins.is_empty()
        && let TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } =
            &mut table.relation
    {
        if sample.is_some() {
            return Err(refused("two samples of one table", "say TABLESAMPLE or USING SAMPLE"));
        }
        *sample = Some(given);
        return Ok(());
    }
    let Rows::Chance(percent) = Rows::of(inner(&given))? else {
        return Err(refused(
            "a number of rows as the sample of a join",
            "say a percentage, or sample a subquery: FROM (SELECT ... FROM ... JOIN ...) t USING \
             SAMPLE ...",
        ));
    };
    let chance = parsed_expr(&chance(percent))?;
    select.selection = Some(match select.selection.take() {
        None => chance,
        Some(condition) => Expr::BinaryOp {
            left: Box::new(chance),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(condition))),
        },
    });
    Ok(())
}

fn inner(sample: &TableSampleKind) -> &TableSample {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        sample;
    sample
}

/// The condition under which a row is drawn with a chance of `percent`.
fn chance(percent: f64) -> String {
    format!("random() < CAST({percent} AS DOUBLE) / 100")
}

/// The last part of a table's name, which qualifies its columns.
fn alias_of(name: &ObjectName) -> Option<TableAlias> {
    let name = name.0.last()?.as_ident()?.clone();
    Some(TableAlias { explicit: true, name, columns: vec![], at: None })
}

/// Size of a sample, and its method.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// Each row is drawn independently, with this probability in percent.
    Chance(f64),
    /// This share of the rows in percent, drawn at random.
    Share(f64),
    /// This number of rows, drawn at random.
    Number(f64),
}

impl Rows {
    fn of(sample: &TableSample) -> Result<Self, SqlError> {
        let what = || format!("{sample}");
        let refuse = |instead: &str| Err(refused(what().trim(), instead));
        if sample.seed.is_some() {
            return refuse("leave REPEATABLE and SEED out: the rows are drawn anew each time");
        }
        if sample.bucket.is_some() || sample.offset.is_some() {
            return refuse("say TABLESAMPLE BERNOULLI (percent) or TABLESAMPLE (n ROWS)");
        }
        let Some(quantity) = &sample.quantity else {
            return refuse("say how much: TABLESAMPLE BERNOULLI (percent) or TABLESAMPLE (n ROWS)");
        };
        let Some(number) = number(&quantity.value) else {
            return refuse("say how much by a number");
        };
        let is_reservoir = matches!(sample.name, Some(TableSampleMethod::Row));
        let is_chance =
            matches!(sample.name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System));
        let rows = match &quantity.unit {
            Some(TableSampleUnit::Percent) if is_reservoir => Self::Share(number),
            Some(TableSampleUnit::Percent) => Self::Chance(number),
            None if is_chance => Self::Chance(number),
            Some(TableSampleUnit::Rows) if is_chance => {
                return refuse("say a percentage, or reservoir for a number of rows");
            }
            None if !is_reservoir => return refuse("say PERCENT or ROWS behind the number"),
            _ => Self::Number(number),
        };
        match rows {
            Self::Number(rows) if rows < 0.0 || rows.fract() != 0.0 => {
                refuse("a number of rows is whole and not negative")
            }
            Self::Chance(percent) | Self::Share(percent) if !(0.0..=100.0).contains(&percent) => {
                refuse("a sample is between 0 and 100 percent")
            }
            rows => Ok(rows),
        }
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}
