//! How pages get to another node: in batches, with one outcome for each page.
//!
//! A page of a pool is a run of pages of the kernel, which move one by one. It counts as moved when
//! all of them are on the node, because its bytes count against one tier. The kernel's word is the
//! truth: whatever a call returns, a page is where its status says.
//!
//! Pages that somebody holds for a moment are tried again, at once and then after short waits,
//! together about a millisecond. A page that has moved by halves after that is moved back, so that
//! it is whole where it was; only when that fails too is it [`Outcome::Split`], which costs speed
//! and no correctness.

use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2, errno, move_pages, nodes_of};
use terrace_sys::size::PAGE_BYTES;

mod choose;
pub mod survey;

pub use choose::{Choice, MoverCost};

/// A way to move pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mover {
    /// The kernel's own call.
    MovePages {
        /// Pages of the kernel in a call, at least 1; more than 512 gain nothing.
        batch: usize,
    },
    /// The call of a kernel with the patch of these sources.
    MovePages2 {
        /// The call, as it was found.
        call: MovePages2,
        /// What it waits for.
        mode: MigrateMode,
        /// Pages of the kernel in a call, 1 to [`MovePages2::BATCH_MAX`].
        batch: usize,
    },
}

/// What became of a page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is on the node wanted.
    Moved,
    /// It is on this node still: somebody holds it.
    Stayed(u32),
    /// A part of it is on the node wanted and a part elsewhere: somebody holds the one, and the
    /// other could not be moved back. Trying again later mends it.
    Split,
    /// It has not moved, for this error number: it has no memory, the node has no room or does not
    /// exist, or it is no page of the mapping.
    Failed(i32),
}

impl Mover {
    /// The kernel's own call in batches that it moves best.
    pub const PLAIN: Mover = Mover::MovePages { batch: 512 };

    /// Moves pages `(offset, length in bytes)` of a mapping to a node; what became of each, in
    /// order. Offsets are multiples of 4 KiB; the last page of the kernel counts with all of it.
    ///
    /// Contents and addresses stay as they are, and others may read and write meanwhile; who
    /// touches a page while it moves waits for it.
    #[must_use]
    pub fn migrate(&self, mapping: &Mapping, pages: &[(usize, usize)], node: u32) -> Vec<Outcome> {
        migrate(&mut Calls { mover: *self, mapping }, pages, node)
    }

    /// Pages of the kernel in a call.
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

/// What moves pages of the kernel, and tells where they are; a status is a node, or below zero an
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
    /// A call that failed may have moved some pages; the others have its error.
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

/// Times that pages are tried again without any that moves, and in all.
const FRUITLESS_MAX: u32 = 4;
const PASSES_MAX: u32 = 16;
/// The wait before the second fruitless try; it doubles.
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

/// The offsets of the kernel's pages of a page; none if it is not one of the mapping.
fn kernel_pages(mapping_len: usize, offset: usize, len: usize) -> Option<Vec<usize>> {
    let end = offset.checked_add(len).filter(|end| *end <= mapping_len)?;
    let right = len > 0 && offset.is_multiple_of(PAGE_BYTES);
    right.then(|| (offset..end).step_by(PAGE_BYTES).collect())
}

/// Moves the kernel's pages, again while that may help; the status of each.
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

/// Whether a page may move when it is tried again.
fn may_move(status: i32, node: u32) -> bool {
    is_busy(status) || (status >= 0 && !is_node(status, node))
}

fn is_busy(status: i32) -> bool {
    status == -errno::EAGAIN || status == -errno::EBUSY
}

/// Asks for the nodes of pages of which the kernel has said only that they are busy.
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

/// The outcome of a page whose kernel pages have these statuses. Those without memory count for
/// nothing, unless all are.
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

/// Moves back what has moved of a page that has not moved as a whole.
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
