//! Which operators a session replaces.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;

extensions_options! {
    /// Settings of a session: `SET terrace.paged_hash_join = true`.
    pub struct PagedOptions {
        /// Sorts, first rows and merges of sorted streams.
        pub paged_sort: bool, default = true

        /// Window functions over whole partitions.
        pub paged_window: bool, default = true

        /// Hash joins, which then need not fit in memory.
        pub paged_hash_join: bool, default = true

        /// Joins without equal keys and cross joins, whose left side then need not fit in memory.
        pub paged_loop_join: bool, default = true

        /// Aggregates with groups, and those whose states grow with their group.
        pub paged_aggregate: bool, default = true
    }
}

impl ConfigExtension for PagedOptions {
    const PREFIX: &'static str = "terrace";
}

impl PagedOptions {
    /// Every operator there is, as a session without these settings has it.
    pub(crate) fn all() -> Self {
        Self {
            paged_sort: true,
            paged_window: true,
            paged_hash_join: true,
            paged_loop_join: true,
            paged_aggregate: true,
        }
    }
}
