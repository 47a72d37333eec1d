//! The cache of files of other machines as a consumer of the market.

use std::sync::Arc;
use std::time::Duration;

use terrace_cloud::CacheObserver;
use terrace_governor::market::CacheClass;

/// The cached files of other machines, as a class of cached pages.
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
