//! The list of chunks of a version of a table.

use std::fmt;
use std::ops::Deref;
use std::slice::Iter;
use std::sync::{Arc, LazyLock};

use crate::chunk::Chunk;

type List = Vec<Arc<Chunk>>;

/// The chunks of a version, in row order. The list may be built when it is first read: statements
/// of a transaction that only add rows make versions whose chunks no statement reads.
pub struct Chunks(LazyLock<List, Box<dyn FnOnce() -> List + Send>>);

impl Chunks {
    /// Returns a list of chunks that is built by `build` when it is first read.
    pub(crate) fn later(build: impl FnOnce() -> List + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(build)))
    }
}

impl From<List> for Chunks {
    fn from(list: List) -> Self {
        let chunks = Self::later(|| list);
        LazyLock::force(&chunks.0);
        chunks
    }
}

impl Deref for Chunks {
    type Target = List;

    fn deref(&self) -> &List {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Chunks {
    type Item = &'a Arc<Chunk>;
    type IntoIter = Iter<'a, Arc<Chunk>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_list_is_built_when_it_is_first_read() {
        let built = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&built);
        let chunks = Chunks::later(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            vec![]
        });
        assert_eq!(built.load(Ordering::Relaxed), 0);
        assert!(chunks.is_empty() && chunks.iter().next().is_none());
        assert_eq!(built.load(Ordering::Relaxed), 1);
    }
}
