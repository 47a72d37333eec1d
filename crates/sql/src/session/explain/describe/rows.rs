//! Descriptions of operators that transform rows in EXPLAIN.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::WindowFrameBound;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use terrace_exec::merge::PagedMergeExec;
use terrace_exec::sort::PagedSortExec;
use terrace_exec::window::PagedWindowExec;
use terrace_exec::{PagedAggregateExec, PagedRepartitionExec};
use terrace_sys::size::to_u64;
use terrace_table::write::CountExec;

use super::super::operator::{Operator, Words};
use super::expressions::{conditions, listed, named, order, text};

/// Estimated rows of an operator that returns as many rows as its input, or up to its limit;
/// `None` for any other operator, and if the input has no estimate.
pub(super) fn preserved(node: &dyn ExecutionPlan, inputs: &[Operator]) -> Option<u64> {
    let [input] = inputs else { return None };
    let is_same = node.is::<ProjectionExec>()
        || node.is::<PagedSortExec>()
        || node.is::<SortExec>()
        || node.is::<PagedMergeExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<PagedWindowExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<PagedRepartitionExec>()
        || node.is::<RepartitionExec>();
    let rows = input.estimated_rows.filter(|_| is_same)?;
    Some(node.fetch().map_or(rows, |limit| rows.min(to_u64(limit))))
}

/// The description of an operator that transforms rows; `None` for any other operator.
pub(super) fn words(node: &dyn ExecutionPlan) -> Option<Words> {
    ordering(node).or_else(|| grouping(node)).or_else(|| windowing(node)).or_else(|| moving(node))
}

fn ordering(node: &dyn ExecutionPlan) -> Option<Words> {
    let paged = node.downcast_ref::<PagedSortExec>().map(PagedSortExec::stock);
    if let Some(sort) = paged.or_else(|| node.downcast_ref::<SortExec>()) {
        return Some(sorted("SORT", order(sort.expr()), sort.fetch()));
    }
    let paged = node.downcast_ref::<PagedMergeExec>().map(PagedMergeExec::stock);
    let merge = paged.or_else(|| node.downcast_ref::<SortPreservingMergeExec>())?;
    Some(sorted("MERGE", order(merge.expr()), merge.fetch()))
}

fn sorted(name: &str, by: String, limit: Option<usize>) -> Words {
    let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
    Words::new(name, "").with("By", by).with("Limit", limit)
}

fn grouping(node: &dyn ExecutionPlan) -> Option<Words> {
    let paged = node.downcast_ref::<PagedAggregateExec>().map(|it| it.stock().as_ref());
    let aggregate = paged.or_else(|| node.downcast_ref::<AggregateExec>())?;
    let stage = match aggregate.mode() {
        AggregateMode::Partial => "partial, before the exchange",
        AggregateMode::PartialReduce => "partial, of partial results",
        AggregateMode::Final | AggregateMode::FinalPartitioned => "final, of partial results",
        AggregateMode::Single | AggregateMode::SinglePartitioned => "",
    };
    let groups = aggregate.group_expr();
    let computed = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
    let computed = computed.map(|(function, filter)| {
        let filter = filter.as_ref().map(|it| format!(" FILTER (WHERE {})", text(it)));
        format!("{}{}", function.name(), filter.unwrap_or_default())
    });
    let limit = aggregate.limit_options().map(|it| it.limit().to_string());
    Some(
        Words::new("AGGREGATE", stage)
            .with("Group by", listed(groups.expr().iter().map(|(expr, _)| expr)))
            .with("Grouping sets", sets(groups))
            .with("Computes", computed.collect::<Vec<_>>().join(", "))
            .with("Limit", limit.unwrap_or_default()),
    )
}

/// The grouping sets; empty if there is one.
fn sets(groups: &PhysicalGroupBy) -> String {
    if groups.is_single() {
        return String::new();
    }
    let set = |nulls: &Vec<bool>| {
        let grouped = groups.expr().iter().zip(nulls).filter(|(_, is_null)| !**is_null);
        format!("({})", listed(grouped.map(|((expr, _), _)| expr)))
    };
    groups.groups().iter().map(set).collect::<Vec<_>>().join(", ")
}

fn windowing(node: &dyn ExecutionPlan) -> Option<Words> {
    let paged = node.downcast_ref::<PagedWindowExec>().map(PagedWindowExec::stock);
    let functions = match paged.or_else(|| node.downcast_ref::<WindowAggExec>()) {
        Some(window) => window.window_expr(),
        None => node.downcast_ref::<BoundedWindowAggExec>()?.window_expr(),
    };
    let computed: Vec<_> = functions.iter().map(call_with_frame).collect();
    let first: Option<&Arc<dyn WindowExpr>> = functions.first();
    Some(
        Words::new("WINDOW", "")
            .with("Computes", computed.join(", "))
            .with("Partition by", first.map(|it| listed(it.partition_by())).unwrap_or_default())
            .with("Order by", first.map(|it| order(it.order_by())).unwrap_or_default()),
    )
}

/// Text behind the call in the name of a window function whose frame was planned as a function
/// among its PARTITION BY keys (`window_distances`).
const MARKED: &str = " PARTITION BY [window frame ";

/// The name of a window function. If the name contains [`MARKED`], its call and its frame instead.
fn call_with_frame(function: &Arc<dyn WindowExpr>) -> String {
    match function.name().split_once(MARKED) {
        None => function.name().to_owned(),
        Some((call, _)) => {
            let frame = function.get_window_frame();
            let (start, end) = (bound(&frame.start_bound), bound(&frame.end_bound));
            format!("{call} {} BETWEEN {start} AND {end}", frame.units)
        }
    }
}

fn bound(bound: &WindowFrameBound) -> String {
    let (distance, side) = match bound {
        WindowFrameBound::CurrentRow => return "CURRENT ROW".to_owned(),
        WindowFrameBound::Preceding(distance) => (distance, "PRECEDING"),
        WindowFrameBound::Following(distance) => (distance, "FOLLOWING"),
    };
    let text = distance.cast_to(&DataType::Utf8).ok();
    match text.as_ref().and_then(|text| text.try_as_str().flatten()) {
        Some(text) => format!("{text} {side}"),
        None => format!("UNBOUNDED {side}"),
    }
}

fn moving(node: &dyn ExecutionPlan) -> Option<Words> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let (fixed, dynamic) = conditions(filter.predicate());
        let words = Words::new("FILTER", "").with("Condition", fixed);
        return Some(words.with("Condition of a join or sort", dynamic));
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let computed = projection.expr().iter().map(|it| {
            let computed = named(&it.expr, &it.alias);
            match computed.split_once(MARKED) {
                Some((call, _)) => format!("{call} ..."),
                None => computed,
            }
        });
        let computed = computed.collect::<Vec<_>>().join(", ");
        return Some(Words::new("PROJECTION", "").with("Computes", computed));
    }
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        let most = limit.fetch().map(|most| most.to_string()).unwrap_or_default();
        let skip = Some(limit.skip()).filter(|skip| *skip > 0).map(|skip| skip.to_string());
        let words = Words::new("LIMIT", most);
        return Some(words.with("Offset", skip.unwrap_or_default()));
    }
    if let Some(limit) = node.downcast_ref::<LocalLimitExec>() {
        return Some(Words::new("LIMIT", format!("{} in each partition", limit.fetch())));
    }
    if node.is::<UnionExec>() {
        return Some(Words::new("UNION ALL", ""));
    }
    if node.is::<CoalescePartitionsExec>() {
        let limit = node.fetch().map(|limit| limit.to_string()).unwrap_or_default();
        return Some(Words::new("GATHER", "the rows of all partitions").with("Limit", limit));
    }
    let paged = node.downcast_ref::<PagedRepartitionExec>().map(PagedRepartitionExec::stock);
    if let Some(exchange) = paged.or_else(|| node.downcast_ref::<RepartitionExec>()) {
        return Some(exchanged(exchange.partitioning()));
    }
    node.downcast_ref::<CountExec>().map(changed)
}

fn exchanged(partitioning: &Partitioning) -> Words {
    let partitions = partitioning.partition_count();
    let words = Words::new("EXCHANGE", format!("between {partitions} partitions"));
    match partitioning {
        Partitioning::Hash(keys, _) => words.with("By hash of", listed(keys)),
        Partitioning::RoundRobinBatch(_) => words.with("By", "turns"),
        _ => words,
    }
}

/// The description of a change of rows or of a definition: `UPDATE s.t`.
fn changed(change: &CountExec) -> Words {
    let what = format!("{change:?}");
    let (name, properties) = what.split_once(": ").unwrap_or((&what, ""));
    let (table, rest) = properties.split_once(", ").unwrap_or((properties, ""));
    let table = table.strip_prefix("table=").unwrap_or(table);
    let name = name.strip_suffix("Exec").unwrap_or(name).to_uppercase();
    Words::new(&name, table).with("Details", rest)
}
