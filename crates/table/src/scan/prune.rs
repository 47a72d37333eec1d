//! Chunk pruning in a scan, including by filters that change while the query runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use datafusion::physical_optimizer::pruning::PruningPredicate;
use terrace_sys::sync::lock;

use crate::statistics::{ChunkPruning, predicate, prune};
use crate::table::TableVersion;

/// The filters of a scan, applied to the statistics of its chunks. Clones share results.
///
/// Filters of joins and top-k operators become narrower while the query runs. Compiling such a
/// filter to a predicate over statistics can take longer than reading a chunk (a join's filter may
/// list thousands of values), so it is done once per change, for all partitions.
#[derive(Clone)]
pub(super) struct ChunkFilter {
    version: Arc<TableVersion>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Result per chunk of the filters as of the beginning of the scan.
    first_look: OnceLock<Vec<bool>>,
    latest: Mutex<Latest>,
}

/// The filters as of their last change since the beginning of the scan.
#[derive(Default)]
struct Latest {
    tracking: Option<DynamicFilterTracking>,
    predicate: Option<Arc<PruningPredicate>>,
}

impl ChunkFilter {
    pub(super) fn new(version: Arc<TableVersion>, filter: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self { version, filter, shared: Arc::default() }
    }

    /// Returns true if a chunk may hold a matching row according to the filters as of the beginning
    /// of the scan. All chunks are checked at once, on the first call.
    pub(super) fn kept_at_first(&self, chunk: usize) -> bool {
        let Some(filter) = &self.filter else { return true };
        let kept = self.shared.first_look.get_or_init(|| {
            // Change tracking starts before the check, so that no change is missed.
            self.latest().tracking = Some(DynamicFilterTracking::classify(filter));
            prune(filter, self.version.schema(), &self.version.chunks)
        });
        kept.get(chunk).copied().unwrap_or(true)
    }

    /// Returns true if a chunk may hold a matching row according to the current filters.
    pub(super) fn keeps(&self, chunk: usize) -> bool {
        let Some(filter) = &self.filter else { return true };
        if !self.kept_at_first(chunk) {
            return false;
        }
        let Some(predicate) = self.predicate_since(filter) else { return true };
        let one = ChunkPruning::new(self.version.schema(), &self.version.chunks[chunk..=chunk]);
        let kept = predicate.prune(&one).ok();
        kept.and_then(|kept| kept.first().copied()).unwrap_or(true)
    }

    /// Returns the predicate over statistics of filters that have changed since the scan began.
    /// `None` if they have not, or if statistics cannot decide them.
    fn predicate_since(&self, filter: &Arc<dyn PhysicalExpr>) -> Option<Arc<PruningPredicate>> {
        let mut latest = self.latest();
        let watcher = latest.tracking.as_mut().and_then(DynamicFilterTracking::watcher);
        if watcher.is_some_and(|watcher| watcher.changed()) {
            let predicate = predicate(filter, self.version.schema());
            latest.predicate = predicate.ok().filter(|p| !p.always_true()).map(Arc::new);
        }
        latest.predicate.clone()
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        lock(&self.shared.latest)
    }
}

impl fmt::Debug for ChunkFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.shared.first_look.get();
        let kept = kept.map(|kept| kept.iter().filter(|kept| **kept).count());
        f.debug_struct("ChunkFilter").field("kept", &kept).finish_non_exhaustive()
    }
}
