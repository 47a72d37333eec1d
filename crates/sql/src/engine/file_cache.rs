//! Adapter that reports hits and misses of the cache of remote files to the market.

use std::sync::Arc;
use std::time::Duration;

use terrace_cloud::CacheObserver;
use terrace_governor::market::CacheClass;

/// Reports accesses to cached blocks of remote files to their class of cached pages.
#[derive(Debug)]
pub(super) struct FileCache(Arc<CacheClass>);

impl FileCache {
    pub(super) fn new(class: Arc<CacheClass>) -> Self {
        Self(class)
    }
}

impl CacheObserver for FileCache {
    fn touched(&self, block: u64, bytes: u64) {
        self.0.touch(block, bytes);
    }

    fn read(&self, took: Duration, fetched_blocks: u64, fetching: Duration) {
        self.0.read(took.as_secs_f64(), fetched_blocks, fetching.as_secs_f64());
    }
}
