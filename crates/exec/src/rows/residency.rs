//! Residency of a collection's pages: pinning, unpinning and freeing them; and access to the
//! operator's own bytes of single rows.

use std::ops::Range;

use terrace_pool::{PageRef, PoolError};
use terrace_sys::size::to_u64;

use super::address::RowAddress;
use super::collection::RowPages;
use super::pins::PinTable;
use crate::blocking::pin;
use crate::{ExecError, Result};

/// Maximum number of pages fetched at once: beyond it the device has nothing more to overlap.
const FETCH_PAGES: usize = 32;

/// Access that pages are pinned for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read.
    Read,
    /// To write the operator's own bytes of rows, too.
    Write,
}

/// Table that a page is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    Fixed,
    Variable,
}

impl RowPages {
    /// Unpins every page, and releases the reserve; returns the bytes unpinned. The pool decides
    /// how long the pages stay in memory. Rows appended later go to a new page.
    pub fn unpin(&mut self) -> u64 {
        self.release_reserve();
        self.begun = (self.fixed.len(), self.variable.len());
        let variable = 0..self.variable.len();
        let bytes: u64 = variable.map(|index| unpin_in(&mut self.variable, index)).sum();
        self.pinned_bytes -= bytes;
        self.grant.shrink(bytes);
        bytes + self.unpin_pages(0..self.pages())
    }

    /// Unpins the last pages, until `bytes` are unpinned.
    pub fn unpin_last(&mut self, bytes: u64) {
        self.release_reserve();
        let (mut unpinned, mut page) = (0, self.pages());
        while unpinned < bytes && page > 0 {
            page -= 1;
            unpinned += self.unpin_pages(page..page + 1);
        }
    }

    /// Unpins every page except the open ones (those being filled); returns the bytes unpinned.
    pub fn unpin_full(&mut self) -> u64 {
        let (fixed, variable) = self.swept;
        let last = (self.fixed.len().saturating_sub(1), self.variable.len().saturating_sub(1));
        let mut bytes = 0;
        for index in fixed..last.0 {
            bytes += unpin_in(&mut self.fixed, index);
        }
        for index in variable..last.1 {
            bytes += unpin_in(&mut self.variable, index);
        }
        self.swept = (last.0.max(fixed), last.1.max(variable));
        self.pinned_bytes -= bytes;
        self.grant.shrink(bytes);
        bytes
    }

    /// Unpins some fixed pages and the variable pages that their rows point into; returns the bytes
    /// unpinned.
    pub fn unpin_pages(&mut self, pages: Range<usize>) -> u64 {
        let mut bytes = 0;
        for index in self.variable_of(pages.clone()) {
            bytes += unpin_in(&mut self.variable, index);
        }
        for index in pages {
            bytes += unpin_in(&mut self.fixed, index);
        }
        self.pinned_bytes -= bytes;
        self.grant.shrink(bytes);
        bytes
    }

    /// Frees fixed pages `pages`, which must begin with the first that is not freed, and the
    /// variable pages that no later row points into.
    pub fn free_pages(&mut self, pages: Range<usize>) {
        // Variable pages that later rows point into as well stay pinned.
        let keep_from = match self.parts.get(pages.end) {
            Some(next) => next.variable.start,
            None => self.variable.len(),
        };
        for index in pages {
            self.rows -= to_u64(self.rows_in(index));
            self.bytes -= to_u64(self.fixed.bytes(index));
            let pinned = unpin_in(&mut self.fixed, index);
            self.pinned_bytes -= pinned;
            self.grant.shrink(pinned);
            Self::free(&self.space, self.fixed.remove(index));
        }
        for index in self.variable_freed..keep_from {
            self.bytes -= to_u64(self.variable.bytes(index));
            let pinned = unpin_in(&mut self.variable, index);
            self.pinned_bytes -= pinned;
            self.grant.shrink(pinned);
            Self::free(&self.space, self.variable.remove(index));
        }
        self.variable_freed = self.variable_freed.max(keep_from);
    }

    /// Returns the bytes that pinning `pages` would add to the pinned bytes.
    #[must_use]
    pub fn bytes_to_pin(&self, pages: Range<usize>) -> u64 {
        let lacking = |table: &PinTable, index: usize| {
            if table.is_pinned(index) { 0 } else { to_u64(table.bytes(index)) }
        };
        let variable = self.variable_of(pages.clone());
        let variable: u64 = variable.map(|index| lacking(&self.variable, index)).sum();
        variable + pages.map(|index| lacking(&self.fixed, index)).sum::<u64>()
    }

    /// Pins every page that is not freed.
    ///
    /// # Errors
    /// As [`RowPages::pin_pages`].
    pub async fn pin_all(&mut self, access: Access) -> Result<()> {
        self.pin_pages(0..self.pages(), access).await
    }

    /// Pins fixed pages and the variable pages that their rows point into, in batches that the
    /// pool's loaders read. Only fixed pages are pinned for writing.
    ///
    /// # Errors
    /// [`ExecError::Pool`] if a page cannot be read or there is no frame for it.
    pub async fn pin_pages(&mut self, pages: Range<usize>, access: Access) -> Result<()> {
        self.swept = (0, 0);
        let mut wanted = Vec::new();
        for index in self.variable_of(pages.clone()) {
            if !self.variable.is_pinned(index) {
                wanted.extend(self.variable.page(index).map(|page| (Table::Variable, index, page)));
            }
        }
        for index in pages {
            let is_there = match access {
                Access::Read => self.fixed.is_pinned(index),
                Access::Write => self.fixed.is_writable(index),
            };
            if !is_there {
                wanted.extend(self.fixed.page(index).map(|page| (Table::Fixed, index, page)));
            }
        }
        for group in wanted.chunks(FETCH_PAGES) {
            self.pin_group(group, access).await?;
        }
        Ok(())
    }

    async fn pin_group(&mut self, group: &[(Table, usize, PageRef)], access: Access) -> Result<()> {
        let pages: Vec<_> = group.iter().map(|(_, _, page)| *page).collect();
        match self.space.fetch(&pages).await {
            Ok(pins) => {
                for ((table, index, page), pin) in group.iter().zip(pins) {
                    self.hold_shared(*table, *index, *page, pin, access)?;
                }
            }
            // Frames for all of them did not come free at once; one by one they may.
            Err(PoolError::Exhausted { .. }) => {
                for (table, index, page) in group {
                    let page_alone = std::slice::from_ref(page);
                    let pins = pin(&self.space, page_alone, self.space.fetch(page_alone)).await?;
                    for pin in pins {
                        self.hold_shared(*table, *index, *page, pin, access)?;
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn hold_shared(
        &mut self,
        table: Table,
        index: usize,
        page: PageRef,
        pin: terrace_pool::Pinned,
        access: Access,
    ) -> Result<()> {
        let bytes = to_u64(pin.len());
        let write = access == Access::Write && table == Table::Fixed;
        let pins = match table {
            Table::Fixed => &mut self.fixed,
            Table::Variable => &mut self.variable,
        };
        let was_pinned = pins.is_pinned(index);
        if write {
            // The page is in memory and warm; at worst it is read again.
            drop(pin);
            pins.unpin(index);
            let mut page = page;
            let pin = match self.space.write(&mut page) {
                Ok(pin) => pin.pin(),
                Err(error) => {
                    if was_pinned {
                        self.pinned_bytes -= bytes;
                        self.grant.shrink(bytes);
                    }
                    return Err(error.into());
                }
            };
            pins.set_page(index, page);
            pins.pin_exclusive(index, pin);
        } else {
            pins.pin_shared(index, pin);
        }
        if !was_pinned {
            self.count_pin(bytes);
        }
        Ok(())
    }

    /// Starts to read pages into memory, without pinning them.
    pub fn prefetch(&self, pages: Range<usize>) {
        let variable = self.variable_of(pages.clone()).filter_map(|n| self.variable.page(n));
        let pages: Vec<_> = pages.filter_map(|n| self.fixed.page(n)).chain(variable).collect();
        self.space.prefetch(&pages);
    }

    /// Sets the flag at `offset` of the operator's own bytes of a row; safe while other threads
    /// read the row or set the same flag.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if the page is not pinned for writing.
    #[inline]
    pub fn set_flag(&self, address: RowAddress, offset: usize) -> Result<()> {
        let (page, row) = (address.page(), address.row());
        let parts = self.layout.parts();
        if self.fixed.set_flag(page, row, parts.width, parts.extra_offset + offset) {
            return Ok(());
        }
        Err(ExecError::NotPinned { page, row, how: " for writing" })
    }

    /// Returns the operator's own bytes of a row.
    ///
    /// # Errors
    /// [`ExecError::NotPinned`] if the page is not pinned for writing.
    #[inline]
    pub fn extra_mut(&mut self, address: RowAddress) -> Result<&mut [u8]> {
        let (page, row) = (address.page(), address.row());
        let not_pinned = ExecError::NotPinned { page, row, how: " for writing" };
        if row >= self.fixed.used(page) {
            return Err(not_pinned);
        }
        let parts = self.layout.parts();
        let (width, from) = (parts.width, parts.extra_offset);
        self.fixed.slice_mut(page, row * width + from, width - from).ok_or(not_pinned)
    }

    /// Returns the variable pages that the rows of fixed pages point into.
    fn variable_of(&self, pages: Range<usize>) -> Range<usize> {
        let parts = self.parts.get(pages).unwrap_or_default();
        match (parts.first(), parts.last()) {
            (Some(first), Some(last)) => first.variable.start..last.variable.end,
            _ => 0..0,
        }
    }
}

fn unpin_in(table: &mut PinTable, index: usize) -> u64 {
    if table.unpin(index) { to_u64(table.bytes(index)) } else { 0 }
}
