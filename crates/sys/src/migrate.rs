//! Where pages are, and moving them to another node.
//!
//! What the kernel says of a page is the truth: a move may leave pages where they were, because
//! somebody else holds them for a moment or the node wanted is full. Moving a page changes no byte
//! of it and no address; who uses it meanwhile waits in a page fault.
//!
//! `move_pages2` is no system call of Linux but of a patch that these sources carry. Its number is
//! read from the kernel that has it and never assumed: numbers are given out again.

use std::fs;
use std::io;

use crate::map::Mapping;
use crate::size::{PAGE_BYTES, to_u64};

/// Error numbers that a page's status may be the negative of.
pub mod errno {
    /// The page is under somebody's hands; try again.
    pub const EAGAIN: i32 = libc::EAGAIN;
    /// The page could not be taken off the kernel's lists; try again.
    pub const EBUSY: i32 = libc::EBUSY;
    /// The call was wrong.
    pub const EINVAL: i32 = libc::EINVAL;
    /// There is no page: it was never touched, or given back.
    pub const ENOENT: i32 = libc::ENOENT;
    /// The node wanted has no room.
    pub const ENOMEM: i32 = libc::ENOMEM;
}

/// The nodes that the pages at these offsets lie on; below zero an error number of the kernel, as
/// for a page that was never touched.
///
/// # Errors
/// When an offset is not one of a page of the mapping, or the kernel does not tell.
pub fn nodes_of(mapping: &Mapping, offsets: &[usize]) -> io::Result<Vec<i32>> {
    let addresses = addresses(mapping, offsets)?;
    let mut status = vec![UNSET; offsets.len()];
    call_move_pages(&addresses, None, &mut status)?;
    Ok(status)
}

/// The node that the page of an address lies on, of whatever mapping; below zero an error number of
/// the kernel, as for a page that was never touched.
///
/// # Errors
/// When the kernel does not tell.
pub fn node_of(address: *const u8) -> io::Result<i32> {
    let page = address.wrapping_sub(address.addr() % PAGE_BYTES).cast_mut();
    let mut status = [UNSET];
    call_move_pages(&[page], None, &mut status)?;
    Ok(status[0])
}

/// Moves pages to a node, in one call; where each one is afterwards, as [`nodes_of`] has it, or
/// why it was not tried, below zero. `-EAGAIN` and `-EBUSY` pass, and so may a page that stayed:
/// the kernel gives up the rest of the call after pages that it could not move. Whoever wants them
/// moved calls again.
///
/// # Errors
/// As [`nodes_of`], when there is no such node, and when the node has no room; pages may have moved
/// nevertheless.
pub fn move_pages(mapping: &Mapping, offsets: &[usize], node: u32) -> io::Result<Vec<i32>> {
    let addresses = addresses(mapping, offsets)?;
    let nodes = vec![number(node)?; offsets.len()];
    let mut status = vec![UNSET; offsets.len()];
    let not_moved = call_move_pages(&addresses, Some(&nodes), &mut status)?;
    if not_moved > 0 || status.contains(&UNSET) {
        complete(mapping, offsets, &mut status)?;
    }
    Ok(status)
}

/// What the status of a page is before the kernel sets it.
const UNSET: i32 = i32::MIN;
/// `MPOL_MF_MOVE` of `linux/mempolicy.h`: pages of this process alone.
const MPOL_MF_MOVE: libc::c_int = 2;

/// Asks where the pages are whose status the kernel has not set.
fn complete(mapping: &Mapping, offsets: &[usize], status: &mut [i32]) -> io::Result<()> {
    let unset: Vec<usize> = (0..status.len()).filter(|at| status[*at] == UNSET).collect();
    let asked: Vec<usize> = unset.iter().map(|at| offsets[*at]).collect();
    for (at, node) in unset.into_iter().zip(nodes_of(mapping, &asked)?) {
        status[at] = node;
    }
    Ok(())
}

fn addresses(mapping: &Mapping, offsets: &[usize]) -> io::Result<Vec<*mut u8>> {
    let len = mapping.len();
    let wrong = |offset: &&usize| !offset.is_multiple_of(PAGE_BYTES) || **offset >= len;
    if let Some(offset) = offsets.iter().find(wrong) {
        let text = format!("there is no page at {offset} of a mapping of {len} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(offsets.iter().map(|offset| mapping.as_ptr().wrapping_add(*offset)).collect())
}

fn number(node: u32) -> io::Result<i32> {
    i32::try_from(node).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// How many pages the kernel says it did not move; their status may be unset.
fn call_move_pages(
    addresses: &[*mut u8],
    nodes: Option<&[i32]>,
    status: &mut [i32],
) -> io::Result<i64> {
    debug_assert!(addresses.len() == status.len(), "a status for each page");
    debug_assert!(nodes.is_none_or(|nodes| nodes.len() == addresses.len()), "a node for each");
    // SAFETY: the arrays are borrowed for the call and have one element for each page; the
    // addresses are of pages of a mapping that the caller borrows, or nothing is moved. Moving
    // changes no byte.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            nodes.map_or(std::ptr::null(), <[i32]>::as_ptr),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// How long `move_pages2` waits for a page that others use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MigrateMode {
    /// Not at all.
    Async,
    /// For locks.
    SyncLight,
    /// For locks and for pages that are being written.
    Sync,
}

/// The system call `move_pages2` of a kernel that has it; see `kernel/README.md` of the sources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MovePages2 {
    number: libc::c_long,
}

/// `struct move_pages2_args` of the patch.
#[repr(C)]
#[derive(Default)]
struct Args {
    pages: u64,
    nodes: u64,
    status: u64,
    count: u64,
    mode: u32,
    batch: u32,
    flags: u64,
}

/// Where a kernel that has the call tells its number and version.
const ENTRY: &str = "/proc/sys/vm/move_pages2";
/// The version of the arguments above.
const ABI: i64 = 1;
/// Numbers below this one are given to calls of Linux.
const NUMBER_MIN: libc::c_long = 463;
const NUMBER_MAX: libc::c_long = 4095;

impl MovePages2 {
    /// The most pages that the kernel takes off its users together.
    pub const BATCH_MAX: usize = 16_384;

    /// Finds the call.
    ///
    /// # Errors
    /// A sentence that says why it cannot be used.
    pub fn find() -> Result<MovePages2, String> {
        let entry = fs::read_to_string(ENTRY)
            .map_err(|_| "the kernel was built without the patch in kernel/".to_string())?;
        let call = MovePages2 { number: parse_entry(&entry)? };
        // The call is made with no page, whose answer is the version and nothing else.
        // SAFETY: no page, so no array.
        match unsafe { call.call(&Args::default()) } {
            Ok(ABI) => Ok(call),
            Ok(other) => Err(format!("system call {} answers {other}, not {ABI}", call.number)),
            Err(error) => Err(format!("system call {}: {error}", call.number)),
        }
    }

    /// Moves pages to a node, `batch` of them (1 to [`MovePages2::BATCH_MAX`]) for one flush of the
    /// translation caches; where each one is afterwards, or why it has no node, below zero. A page
    /// that cannot be moved keeps no other from it.
    ///
    /// # Errors
    /// When an offset is not one of a page of the mapping, the batch is out of its range, or the
    /// kernel has no memory for the call itself.
    pub fn move_pages(
        &self,
        mapping: &Mapping,
        offsets: &[usize],
        node: u32,
        mode: MigrateMode,
        batch: usize,
    ) -> io::Result<Vec<i32>> {
        let batch = u32::try_from(batch).ok().filter(|batch| *batch > 0);
        let batch = batch.ok_or(io::ErrorKind::InvalidInput)?;
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let addresses = addresses(mapping, offsets)?;
        let nodes = vec![number(node)?; offsets.len()];
        let mut status = vec![UNSET; offsets.len()];
        let args = Args {
            pages: to_u64(addresses.as_ptr().expose_provenance()),
            nodes: to_u64(nodes.as_ptr().expose_provenance()),
            status: to_u64(status.as_mut_ptr().expose_provenance()),
            count: to_u64(offsets.len()),
            mode: match mode {
                MigrateMode::Async => 0,
                MigrateMode::SyncLight => 1,
                MigrateMode::Sync => 2,
            },
            batch,
            flags: 0,
        };
        // SAFETY: the arrays have `count` elements and live beyond the call; the addresses are of
        // pages of a mapping that the caller borrows. Moving changes no byte.
        unsafe { self.call(&args) }?;
        Ok(status)
    }

    /// # Safety
    /// The addresses are of arrays of `count` elements, that of the status for writing; or the
    /// count is 0.
    unsafe fn call(&self, args: &Args) -> io::Result<i64> {
        // SAFETY: the number is one that the kernel itself calls `move_pages2`; its arguments are
        // what the caller answers for, of the size told.
        let result =
            unsafe { libc::syscall(self.number, std::ptr::from_ref(args), size_of::<Args>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }
}

/// The number in `NUMBER VERSION`, if the version is the one known.
fn parse_entry(text: &str) -> Result<libc::c_long, String> {
    let numbers: Vec<i64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [number @ NUMBER_MIN..=NUMBER_MAX, ABI, ..] => Ok(*number),
        [_, ABI, ..] => Err(format!("{ENTRY} has no number of a system call: {}", text.trim())),
        [_, version, ..] => Err(format!("it has version {version}, and {ABI} is the one known")),
        _ => Err(format!("{ENTRY} has no number and version: {}", text.trim())),
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
