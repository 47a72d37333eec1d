//! Session settings below `terrace.`: paged operators, SLA and tenant, memory market, waits for
//! locks.

use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::common::extensions_options;

extensions_options! {
    /// Settings of a session: `SET terrace.paged_hash_join = true`.
    pub struct PagedOptions {
        /// True to use paged sorts, top-k and merges of sorted streams.
        pub paged_sort: bool, default = true

        /// True to use paged window functions over whole partitions.
        pub paged_window: bool, default = true

        /// True to use paged hash joins, which need not fit in memory.
        pub paged_hash_join: bool, default = true

        /// True to use paged nested-loop and cross joins, whose left side need not fit in memory.
        pub paged_loop_join: bool, default = true

        /// True to use paged aggregation, with GROUP BY or with states that grow with their group.
        pub paged_aggregate: bool, default = true

        /// True to use paged repartitioning, whose queued batches need not fit in memory.
        pub paged_repartition: bool, default = true

        /// True to use paged recursion by UNION ALL, whose working table need not fit in memory.
        pub paged_recursion: bool, default = true

        /// The cost of slow queries of this session, such as `latency 50ms penalty 10`; empty for
        /// that of its tenant.
        pub sla: String, default = String::new()

        /// The tenant that this session belongs to; empty for none.
        pub tenant: String, default = String::new()

        /// Mechanism by which the engine shares memory among queries of all sessions: fair,
        /// exchange, price or auction.
        pub market: String, default = "auction".to_owned()

        /// Maximum time that a statement waits for each lock of a table: milliseconds, or a number
        /// with a unit, such as `5s`; 0 for no limit.
        pub lock_timeout: String, default = "0".to_owned()
    }
}

impl ConfigExtension for PagedOptions {
    const PREFIX: &'static str = "terrace";
}

/// Returns the settings by their names below `terrace.`, with their values.
#[must_use]
pub fn options_of(options: &PagedOptions) -> Vec<(String, String)> {
    let named = options.entries().into_iter();
    let bare = |key: &str| key.trim_start_matches('.').to_owned();
    named.map(|entry| (bare(&entry.key), entry.value.unwrap_or_default())).collect()
}
