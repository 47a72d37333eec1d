//! Spilled rows of groups, one collection per partition.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use terrace_pool::Space;
use terrace_sys::size::to_usize;

use crate::Grant;
use crate::rows::{Access, RowAddress, RowLayout, RowPages, Rows};

/// Maximum bytes of groups that are read back at once, unless one group is larger.
const READ_BYTES: u64 = 1 << 20;

/// Space for new pages, and the grant that they are charged to.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) space: Space,
    pub(super) grant: Arc<dyn Grant>,
}

impl Pages {
    pub(super) fn rows(&self, layout: &RowLayout) -> RowPages {
        RowPages::new(self.space.clone(), Arc::clone(&self.grant), layout.clone())
    }
}

/// Rows of the groups of one partition.
///
/// Row `n` of `beside` has the states outside of row `n` of `rows`. It is written when the groups
/// spill; until then accumulators have the states of newer rows.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) rows: RowPages,
    pub(super) beside: Option<RowPages>,
    /// Number of pages of `rows` whose states are written to `beside`.
    pub(super) pages_done: usize,
    pub(super) hashes: Hashes,
}

/// Summary of the hashes of a partition's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hashes {
    None,
    /// All rows have this hash, so they are rows of one group.
    One(u64),
    Many,
}

impl Part {
    pub(super) fn new(pages: &Pages, rows: &RowLayout, beside: Option<&RowLayout>) -> Self {
        let beside = beside.map(|layout| pages.rows(layout));
        Self { rows: pages.rows(rows), beside, pages_done: 0, hashes: Hashes::None }
    }

    /// Returns the partition with new pages limited to `bytes` each.
    pub(super) fn with_page_limit(self, bytes: usize) -> Self {
        let beside = self.beside.map(|beside| beside.with_page_limit(bytes));
        Self { rows: self.rows.with_page_limit(bytes), beside, ..self }
    }

    /// Records the hashes of new rows.
    pub(super) fn note(&mut self, hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            match self.hashes {
                Hashes::None => self.hashes = Hashes::One(hash),
                Hashes::One(other) if other == hash => {}
                Hashes::One(_) => self.hashes = Hashes::Many,
                Hashes::Many => return,
            }
        }
    }

    /// Returns true if there are rows and all have the same hash.
    pub(super) fn is_one_group(&self) -> bool {
        matches!(self.hashes, Hashes::One(_))
    }

    /// Returns the number of rows to read at once: at most `most`, and fewer if they are longer
    /// than `READ_BYTES` together.
    pub(super) fn rows_at_once(&self, most: usize) -> usize {
        let bytes = self.rows.bytes() + self.beside.as_ref().map_or(0, RowPages::bytes);
        let row = (bytes / self.rows.rows().max(1)).max(1);
        to_usize(READ_BYTES / row).clamp(1, most)
    }

    /// Unpins all pages; returns the bytes unpinned.
    pub(super) fn unpin(&mut self) -> u64 {
        self.pages_done = self.rows.pages();
        self.rows.unpin() + self.beside.as_mut().map_or(0, RowPages::unpin)
    }
}

/// Cursor over row pages that are read once, from the first row to the last. `page` and `row` are
/// the position of the next row; pages below `freed` are freed.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    page: usize,
    row: usize,
    freed: usize,
}

impl Cursor {
    /// Pins the next `count` rows, or as many as remain, and returns their addresses: none at the
    /// end. Frees the pages that earlier calls read to their end.
    ///
    /// # Errors
    /// As [`RowPages::pin_pages`].
    pub(super) async fn next(
        &mut self,
        pages: &mut RowPages,
        count: usize,
    ) -> Result<Vec<RowAddress>> {
        if self.freed < self.page {
            pages.free_pages(self.freed..self.page);
            self.freed = self.page;
        }
        let mut addresses: Vec<RowAddress> = Vec::with_capacity(count);
        while addresses.len() < count && self.page < pages.pages() {
            let before = addresses.len();
            addresses.extend(pages.addresses(self.page).skip(self.row).take(count - before));
            self.row += addresses.len() - before;
            if self.row == pages.rows_in(self.page) {
                (self.page, self.row) = (self.page + 1, 0);
            }
        }
        if let (Some(from), Some(to)) = (addresses.first(), addresses.last()) {
            pages.pin_pages(from.page()..to.page() + 1, Access::Read).await?;
        }
        Ok(addresses)
    }
}

/// Copies all columns of `rows` into arrays.
///
/// # Errors
/// As [`Rows::gather`].
pub(super) fn columns(rows: &Rows<'_>) -> Result<Vec<ArrayRef>> {
    let columns = (0..rows.columns()).map(|column| rows.gather(column));
    Ok(columns.collect::<crate::Result<_>>()?)
}
