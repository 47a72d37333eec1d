//! The analyzer and optimizer rules of a session: those of DataFusion and of this crate, in the
//! order in which they run. All of them stop when their statement is cancelled.

use std::sync::Arc;

use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use terrace_exec::{AnyOrder, OrderedLists, PagedOperators};

use super::build_side::{self, BuildSide};
use super::canonical::CanonicalFloats;
use super::columns_first::ColumnsFirst;
use super::computed_keys::ComputedKeys;
use super::correlated_names::CorrelatedNames;
use super::filter_pushdown::FilterPushdown;
use super::floats::DoublePrecision;
use super::group_filters::PushDownFilter;
use super::group_keys::{self, GroupKeys};
use super::grouping_sets::{self, GroupingSetOrder};
use super::guards::guarded;
use super::interruptible_rules;
use super::lists::Simplify;
use super::missing_rows::MissingRows;
use super::not_in::{self, NotIn};
use super::null_equality::{CrossJoins, EquijoinKeys};
use super::order_keys::OrderKeys;
use super::outer_aggregates::OuterAggregates;
use super::selectivity::{self, Selectivity};
use super::semantics::PostgresSemantics;
use super::sequential_effects::SequentialEffects;
use super::side_effects::SideEffects;
use super::soft_limits::SoftLimits;
use super::subqueries::SubqueryComparisons;
use super::types::TypedValues;
use super::unnest::GeneralUnnesting;
use super::window_distances::WindowDistances;
use super::window_exclusion::WindowExclusion;

/// The optimizer rules: DataFusion's, of which those that confuse joins, groups or lists are
/// replaced; explicit conditions for NOT IN where a join cannot be null-aware; the keys of groups
/// corrected before each rule that uses them; and, at the end, keys of sorts computed and repeated
/// ORDER BY keys dropped.
pub(super) fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours: [Arc<dyn OptimizerRule + Send + Sync>; 4] = [
        Arc::new(CrossJoins::default()),
        Arc::new(EquijoinKeys::default()),
        Arc::new(PushDownFilter::default()),
        Arc::new(Simplify::default()),
    ];
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        let name = rule.name().to_owned();
        if group_keys::BEFORE.contains(&name.as_str()) {
            rules.push(Arc::new(GroupKeys));
        }
        let own = ours.iter().find(|own| own.name() == name);
        rules.push(own.cloned().unwrap_or_else(|| guarded(rule)));
        if name == not_in::AFTER {
            rules.push(Arc::new(NotIn));
        }
    }
    rules.push(Arc::new(ComputedKeys));
    rules.push(Arc::new(OrderKeys));
    interruptible_rules::logical(rules)
}

/// The analyzer rules. Before DataFusion coerces types, select lists with side effects are marked,
/// aggregates of outer queries refused, comparisons with subqueries expanded, the columns of
/// conditions on outer rows renamed, the subqueries unnested that DataFusion does not unnest, and
/// the semantics of column types applied. After type coercion follow PostgreSQL's arithmetic and
/// casts, one representation of zero and NaN, and frames with distances and with EXCLUDE.
pub(super) fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let first: [Arc<dyn AnalyzerRule + Send + Sync>; 9] = [
        Arc::new(SideEffects),
        Arc::new(OuterAggregates),
        Arc::new(SubqueryComparisons),
        Arc::new(CorrelatedNames),
        Arc::new(GeneralUnnesting),
        Arc::new(MissingRows),
        Arc::new(TypedValues),
        Arc::new(ColumnsFirst),
        Arc::new(DoublePrecision),
    ];
    rules.splice(0..0, first);
    rules.push(Arc::new(PostgresSemantics));
    rules.push(Arc::new(CanonicalFloats));
    rules.push(Arc::new(WindowDistances));
    rules.push(Arc::new(WindowExclusion));
    interruptible_rules::analyzer(rules)
}

/// The physical rules: DataFusion's, with filters pushed down by column index, the selectivity of
/// filters estimated before sides of joins are chosen, those sides reconsidered, the order of
/// values in grouping sets corrected, rows with side effects kept in their order, limits dropped
/// that aggregations cannot apply, and paged operators last.
pub(super) fn physical() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::default().rules;
    for rule in &mut rules {
        if let Some(ours) = FilterPushdown::replacing(rule.name()) {
            *rule = Arc::new(ours);
        }
    }
    let place = rules.iter().position(|rule| rule.name() == selectivity::BEFORE);
    rules.insert(place.unwrap_or(0), Arc::new(Selectivity));
    let place = rules.iter().position(|rule| rule.name() == grouping_sets::AFTER);
    rules.insert(place.map_or(rules.len(), |place| place + 1), Arc::new(GroupingSetOrder));
    let place = rules.iter().position(|rule| rule.name() == build_side::AFTER);
    rules.insert(place.map_or(rules.len(), |place| place + 1), Arc::new(BuildSide));
    rules.insert(0, Arc::new(AnyOrder));
    rules.insert(0, Arc::new(OrderedLists));
    rules.push(Arc::new(SequentialEffects));
    rules.push(Arc::new(SoftLimits));
    rules.push(Arc::new(PagedOperators));
    // Paged operators may have other orders than those that they replace.
    rules.push(Arc::new(SoftLimits));
    interruptible_rules::physical(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_at_their_places() {
        let (stock, ours) = (Optimizer::new().rules, logical());
        assert_eq!(ours.len(), stock.len() + 3 + group_keys::BEFORE.len());
        let at = ours.iter().position(|rule| rule.name() == "not_in").expect("it is there");
        assert_eq!(ours[at - 1].name(), not_in::AFTER);
        let replaced = ours.iter().filter(|own| {
            let own = format!("{own:?}");
            ["CrossJoins", "EquijoinKeys", "PushDownFilter { stock", "Simplify("]
                .iter()
                .any(|name| own.starts_with(name))
        });
        assert_eq!(replaced.count(), 4);
    }
}
