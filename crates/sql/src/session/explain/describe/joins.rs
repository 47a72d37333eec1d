//! Descriptions of joins in EXPLAIN.

use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec,
};
use terrace_exec::{PagedHashJoinExec, PagedLoopJoinExec};

use super::super::operator::Words;
use super::expressions::text;

/// The description of a join; `None` for any other operator.
pub(super) fn words(node: &dyn ExecutionPlan) -> Option<Words> {
    if let Some(paged) = node.downcast_ref::<PagedHashJoinExec>() {
        return Some(hash_join(paged.stock()));
    }
    if let Some(paged) = node.downcast_ref::<PagedLoopJoinExec>() {
        return words(paged.stock().as_ref());
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(hash_join(join));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let condition = join.filter().map(|filter| text(filter.expression()));
        let words = Words::new("LOOP JOIN", kind(*join.join_type()));
        return Some(words.with("Condition", condition.unwrap_or_default()));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let condition = join.filter().as_ref().map(|filter| text(filter.expression()));
        let words = Words::new("MERGE JOIN", kind(join.join_type()));
        let words = words.with("On", keys(join.on()));
        return Some(words.with("Condition", condition.unwrap_or_default()));
    }
    node.is::<CrossJoinExec>().then(|| Words::new("CROSS JOIN", ""))
}

fn hash_join(join: &HashJoinExec) -> Words {
    let condition = join.filter().map(|filter| text(filter.expression()));
    let build = match join.partition_mode() {
        PartitionMode::CollectLeft => "the first input, once for all partitions",
        _ => "the first input",
    };
    Words::new("HASH JOIN", kind(*join.join_type()))
        .with("On", keys(join.on()))
        .with("Condition", condition.unwrap_or_default())
        .with("Build side", build)
}

fn keys(on: &[(PhysicalExprRef, PhysicalExprRef)]) -> String {
    let keys = on.iter().map(|(left, right)| format!("{} = {}", text(left), text(right)));
    keys.collect::<Vec<_>>().join(" AND ")
}

fn kind(join: JoinType) -> &'static str {
    match join {
        JoinType::Inner => "inner",
        JoinType::Left => "left",
        JoinType::Right => "right",
        JoinType::Full => "full",
        JoinType::LeftSemi => "semi, of the first input",
        JoinType::RightSemi => "semi, of the second input",
        JoinType::LeftAnti => "anti, of the first input",
        JoinType::RightAnti => "anti, of the second input",
        JoinType::LeftMark => "mark, of the first input",
        JoinType::RightMark => "mark, of the second input",
    }
}
