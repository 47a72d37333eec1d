//! Page migration between NUMA nodes, in batches, with one outcome for each page.
//!
//! A page of a pool is a run of kernel pages, which the kernel moves one by one. It counts as moved
//! when all of them are on the target node, because its bytes are charged to one tier. The kernel's
//! status is authoritative: whatever a call returns, a kernel page is on the node that its status
//! names.
//!
//! Pages that are busy are retried, at once and then with back-off, for about a millisecond in
//! total. If a part of a page has not moved by then, the part that has is moved back, so that the
//! page is whole on its origin; only if that fails too is the outcome [`Outcome::Split`], which
//! costs speed but not correctness.

use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2, errno, move_pages, nodes_of};
use terrace_sys::size::PAGE_BYTES;

mod choose;

pub use choose::{Choice, MoverCost};

/// System call used to migrate pages, and its parameters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mover {
    /// `move_pages(2)` of the unmodified kernel.
    MovePages {
        /// Kernel pages per call, at least 1; more than 512 gain nothing.
        batch: usize,
    },
    /// `move_pages2`, the call of a kernel with the patch of this source tree.
    MovePages2 {
        /// Handle of the call.
        call: MovePages2,
        /// Migration mode, which determines what the call waits for.
        mode: MigrateMode,
        /// Kernel pages per call, 1 to [`MovePages2::BATCH_MAX`].
        batch: usize,
    },
}

/// Outcome of the migration of one page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole page is on the target node.
    Moved,
    /// The whole page is still on this node: it was busy.
    Stayed(u32),
    /// A part of the page is on the target node and a part elsewhere: one part was busy, and the
    /// other could not be moved back. A later retry repairs it.
    Split,
    /// The page has not moved; this is the error number. Possible causes: the page has no memory,
    /// the node is full or does not exist, or the page is not part of the mapping.
    Failed(i32),
}

impl Mover {
    /// `move_pages(2)` with the batch size at which it is fastest.
    pub const PLAIN: Mover = Mover::MovePages { batch: 512 };

    /// Moves pages `(offset, length in bytes)` of a mapping to a node and returns the outcome of
    /// each, in order. Offsets are multiples of 4 KiB; the last kernel page of a page counts as a
    /// whole.
    ///
    /// Contents and addresses do not change, and other threads may read and write the pages
    /// meanwhile; a thread that touches a page during its migration waits for it.
    #[must_use]
    pub fn migrate(&self, mapping: &Mapping, pages: &[(usize, usize)], node: u32) -> Vec<Outcome> {
        migrate(&mut Calls { mover: *self, mapping }, pages, node)
    }

    /// Returns the number of kernel pages per call.
    #[must_use]
    pub fn batch(&self) -> usize {
        match self {
            Mover::MovePages { batch } | Mover::MovePages2 { batch, .. } => (*batch).max(1),
        }
    }

    fn call(&self, mapping: &Mapping, offsets: &[usize], node: u32) -> io::Result<Vec<i32>> {
        match self {
            Mover::MovePages { .. } => move_pages(mapping, offsets, node),
            Mover::MovePages2 { call, mode, .. } => {
                call.move_pages(mapping, offsets, node, *mode, self.batch())
            }
        }
    }
}

impl fmt::Display for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = self.batch();
        match self {
            Mover::MovePages { .. } => write!(f, "move_pages, {batch} pages a call"),
            Mover::MovePages2 { mode, .. } => {
                let mode = match mode {
                    MigrateMode::Async => "async",
                    MigrateMode::SyncLight => "sync-light",
                    MigrateMode::Sync => "sync",
                };
                write!(f, "move_pages2, {batch} pages a call, {mode}")
            }
        }
    }
}

/// Kernel interface for moving and locating kernel pages. A status is a node or, if negative, an
/// error number.
trait Kernel {
    /// Bytes of the mapping.
    fn len(&self) -> usize;
    fn move_to(&mut self, offsets: &[usize], node: u32) -> Vec<i32>;
    fn nodes_of(&mut self, offsets: &[usize]) -> Vec<i32>;
    fn wait(&mut self, time: Duration);
}

struct Calls<'a> {
    mover: Mover,
    mapping: &'a Mapping,
}

impl Kernel for Calls<'_> {
    fn len(&self) -> usize {
        self.mapping.len()
    }

    fn move_to(&mut self, offsets: &[usize], node: u32) -> Vec<i32> {
        let mut status = Vec::with_capacity(offsets.len());
        for batch in offsets.chunks(self.mover.batch()) {
            match self.mover.call(self.mapping, batch, node) {
                Ok(found) => status.extend(found),
                Err(error) => status.extend(self.after(batch, node, &error)),
            }
        }
        status
    }

    fn nodes_of(&mut self, offsets: &[usize]) -> Vec<i32> {
        nodes_of(self.mapping, offsets)
            .unwrap_or_else(|error| vec![-error_number(&error); offsets.len()])
    }

    fn wait(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

impl Calls<'_> {
    /// Status of a batch whose call failed: pages that the call has moved have their node, the
    /// others the error of the call.
    fn after(&mut self, offsets: &[usize], node: u32, error: &io::Error) -> Vec<i32> {
        let found = self.nodes_of(offsets);
        let failed = |status| match status {
            status if status < 0 || is_node(status, node) => status,
            _ => -error_number(error),
        };
        found.into_iter().map(failed).collect()
    }
}

fn error_number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(errno::EINVAL)
}

fn is_node(status: i32, node: u32) -> bool {
    u32::try_from(status) == Ok(node)
}

/// Maximum number of consecutive retries in which no page moves, and of all retries.
const FRUITLESS_MAX: u32 = 4;
const PASSES_MAX: u32 = 16;
/// Back-off before the second retry without progress; it doubles each time.
const WAIT_FIRST: Duration = Duration::from_micros(100);

fn migrate(kernel: &mut impl Kernel, pages: &[(usize, usize)], node: u32) -> Vec<Outcome> {
    let runs: Vec<Option<Vec<usize>>> =
        pages.iter().map(|(offset, len)| kernel_pages(kernel.len(), *offset, *len)).collect();
    let offsets: Vec<usize> = runs.iter().flatten().flatten().copied().collect();
    let status = settle(kernel, &offsets, node);
    let mut rest = status.as_slice();
    let mut outcomes = Vec::with_capacity(pages.len());
    for run in runs {
        let Some(run) = run else {
            outcomes.push(Outcome::Failed(errno::EINVAL));
            continue;
        };
        let (of_run, after) = rest.split_at(run.len());
        rest = after;
        outcomes.push(match outcome(of_run, node) {
            Outcome::Split => mend(kernel, &run, of_run, node),
            whole => whole,
        });
    }
    outcomes
}

/// Returns the offsets of the kernel pages of a page; `None` if the page is not in the mapping.
fn kernel_pages(mapping_len: usize, offset: usize, len: usize) -> Option<Vec<usize>> {
    let end = offset.checked_add(len).filter(|end| *end <= mapping_len)?;
    let right = len > 0 && offset.is_multiple_of(PAGE_BYTES);
    right.then(|| (offset..end).step_by(PAGE_BYTES).collect())
}

/// Moves the kernel pages, with retries while they can help, and returns the status of each.
fn settle(kernel: &mut impl Kernel, offsets: &[usize], node: u32) -> Vec<i32> {
    let mut status = kernel.move_to(offsets, node);
    let mut fruitless = 0;
    for _ in 0..PASSES_MAX {
        let pending: Vec<usize> =
            (0..status.len()).filter(|at| may_move(status[*at], node)).collect();
        if pending.is_empty() || fruitless == FRUITLESS_MAX {
            break;
        }
        if fruitless > 0 {
            kernel.wait(WAIT_FIRST * 2u32.pow(fruitless - 1));
        }
        let again: Vec<usize> = pending.iter().map(|at| offsets[*at]).collect();
        let found = kernel.move_to(&again, node);
        let moved = found.iter().any(|status| is_node(*status, node));
        fruitless = if moved { 0 } else { fruitless + 1 };
        for (at, found) in pending.into_iter().zip(found) {
            status[at] = found;
        }
    }
    locate(kernel, offsets, &mut status);
    status
}

/// True if a retry may move the page.
fn may_move(status: i32, node: u32) -> bool {
    is_busy(status) || (status >= 0 && !is_node(status, node))
}

fn is_busy(status: i32) -> bool {
    status == -errno::EAGAIN || status == -errno::EBUSY
}

/// Looks up the nodes of the pages that the kernel has only reported as busy.
fn locate(kernel: &mut impl Kernel, offsets: &[usize], status: &mut [i32]) {
    let busy: Vec<usize> = (0..status.len()).filter(|at| is_busy(status[*at])).collect();
    if busy.is_empty() {
        return;
    }
    let asked: Vec<usize> = busy.iter().map(|at| offsets[*at]).collect();
    for (at, found) in busy.into_iter().zip(kernel.nodes_of(&asked)) {
        status[at] = found;
    }
}

/// Returns the outcome of a page from the statuses of its kernel pages. Kernel pages without memory
/// are ignored, unless none has memory.
fn outcome(status: &[i32], node: u32) -> Outcome {
    let mut present = status.iter().copied().filter(|status| *status != -errno::ENOENT).peekable();
    let Some(first) = present.peek().copied() else {
        return Outcome::Failed(errno::ENOENT);
    };
    let there = present.clone().filter(|status| is_node(*status, node)).count();
    match there {
        0 => match present.find(|status| *status < 0) {
            Some(error) => Outcome::Failed(-error),
            None => u32::try_from(first).map_or(Outcome::Failed(-first), Outcome::Stayed),
        },
        all if all == present.count() => Outcome::Moved,
        _ => Outcome::Split,
    }
}

/// Moves the migrated part of a split page back to its origin.
fn mend(kernel: &mut impl Kernel, run: &[usize], status: &[i32], node: u32) -> Outcome {
    let found = kernel.nodes_of(run);
    let origin = found.iter().filter_map(|status| u32::try_from(*status).ok());
    let Some(origin) = origin.into_iter().find(|origin| *origin != node) else {
        return outcome(&found, node);
    };
    let strayed = |at: &usize| is_node(found[*at], node);
    let back: Vec<usize> = (0..run.len()).filter(strayed).map(|at| run[at]).collect();
    let returned = settle(kernel, &back, origin);
    if !returned.iter().all(|status| is_node(*status, origin)) {
        return Outcome::Split;
    }
    let error = status.iter().find(|status| **status < 0 && **status != -errno::ENOENT);
    error.map_or(Outcome::Stayed(origin), |error| Outcome::Failed(-error))
}

#[cfg(all(test, not(miri)))]
mod tests;
