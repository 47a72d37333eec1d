//! The rules over logical plans of a session: DataFusion's, with ours among them.

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};

use super::group_filters::PushDownFilter;
use super::lists::Simplify;
use super::not_in::{self, NotIn};
use super::null_equality::{CrossJoins, EquijoinKeys};
use super::order_keys::OrderKeys;

/// DataFusion's rules, with NOT IN spelled out where a join cannot be null-aware, with those that
/// mix joins, groups or lists up replaced by those that do not, and with keys that come again left
/// out at the end.
pub(super) fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours: [Arc<dyn OptimizerRule + Send + Sync>; 4] = [
        Arc::new(CrossJoins::default()),
        Arc::new(EquijoinKeys::default()),
        Arc::new(PushDownFilter::default()),
        Arc::new(Simplify::default()),
    ];
    let mut rules = Vec::new();
    for rule in Optimizer::new().rules {
        let name = rule.name().to_owned();
        let own = ours.iter().find(|own| own.name() == name);
        rules.push(own.cloned().unwrap_or(rule));
        if name == not_in::AFTER {
            rules.push(Arc::new(NotIn));
        }
    }
    rules.push(Arc::new(OrderKeys));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_at_their_places() {
        let (stock, ours) = (Optimizer::new().rules, logical());
        assert_eq!(ours.len(), stock.len() + 2);
        let at = ours.iter().position(|rule| rule.name() == "not_in").expect("it is there");
        assert_eq!(ours[at - 1].name(), not_in::AFTER);
        let replaced = ours.iter().filter(|own| {
            let own = format!("{own:?}");
            ["CrossJoins", "EquijoinKeys", "PushDownFilter { stock", "Simplify("]
                .iter()
                .any(|name| own.starts_with(name))
        });
        // Simplify stands twice in the list.
        assert_eq!(replaced.count(), 5);
    }
}
