//! Queries the NUMA nodes of pages, and migrates pages between nodes.
//!
//! The status that the kernel returns for a page is authoritative: a migration may leave pages on
//! their node because they are pinned for a moment or the target node is full. It changes neither a
//! page's bytes nor its address; a thread that accesses the page meanwhile waits in a page fault.
//!
//! `move_pages2` is not a system call of Linux but of a patch that is part of these sources. Its
//! number is read from the running kernel and never assumed: Linux may assign it to another call.

use std::fs;
use std::io;

use crate::map::Mapping;
use crate::size::{PAGE_BYTES, to_u64};

/// Error numbers; a page's status may be the negative of one.
pub mod errno {
    /// The page is in use at the moment; retry.
    pub const EAGAIN: i32 = libc::EAGAIN;
    /// The page could not be isolated from the kernel's LRU lists; retry.
    pub const EBUSY: i32 = libc::EBUSY;
    /// An argument was invalid.
    pub const EINVAL: i32 = libc::EINVAL;
    /// The page is missing: it was never touched, or was decommitted.
    pub const ENOENT: i32 = libc::ENOENT;
    /// The target node has no free memory.
    pub const ENOMEM: i32 = libc::ENOMEM;
}

/// Returns the node of each page at these offsets; a negative value is an error number of the
/// kernel, as for a page that was never touched.
///
/// # Errors
/// Fails if an offset is not that of a page of the mapping, or the kernel refuses the query.
pub fn nodes_of(mapping: &Mapping, offsets: &[usize]) -> io::Result<Vec<i32>> {
    let addresses = addresses(mapping, offsets)?;
    let mut status = vec![UNSET; offsets.len()];
    call_move_pages(&addresses, None, &mut status)?;
    Ok(status)
}

/// Returns the node of the page at an address of any mapping; a negative value is an error number
/// of the kernel, as for a page that was never touched.
///
/// # Errors
/// Fails if the kernel refuses the query.
pub fn node_of(address: *const u8) -> io::Result<i32> {
    let page = address.wrapping_sub(address.addr() % PAGE_BYTES).cast_mut();
    let mut status = [UNSET];
    call_move_pages(&[page], None, &mut status)?;
    Ok(status[0])
}

/// Migrates pages to a node in one call. Returns the node of each page afterwards, as [`nodes_of`]
/// does, or a negative error number if it was not tried. `-EAGAIN` and `-EBUSY` are transient, and
/// a page that stayed may move at the next call: the kernel abandons the rest of a call after
/// pages that it could not move. The caller retries if the pages must move.
///
/// # Errors
/// As [`nodes_of`], and if the node does not exist or has no free memory; some pages may have
/// moved nevertheless.
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

/// Status of a page before the kernel sets it.
const UNSET: i32 = i32::MIN;
/// `MPOL_MF_MOVE` of `linux/mempolicy.h`: moves only pages that no other process maps.
const MPOL_MF_MOVE: libc::c_int = 2;

/// Queries the nodes of the pages whose status the kernel has not set.
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

/// Calls `move_pages`. Returns the number of pages that the kernel reports as not moved; their
/// status may be unset.
fn call_move_pages(
    addresses: &[*mut u8],
    nodes: Option<&[i32]>,
    status: &mut [i32],
) -> io::Result<i64> {
    debug_assert!(addresses.len() == status.len(), "a status for each page");
    debug_assert!(nodes.is_none_or(|nodes| nodes.len() == addresses.len()), "a node for each");
    // SAFETY: the arrays are borrowed for the call and have one element for each page; the
    // addresses are of pages of a mapping that the caller borrows, or no page is moved. Moving
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

/// Waiting behaviour of `move_pages2` for a page that is in use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MigrateMode {
    /// Does not wait.
    Async,
    /// Waits for locks.
    SyncLight,
    /// Waits for locks and for pages under write-back.
    Sync,
}

/// The system call `move_pages2` of a patched kernel; see `kernel/README.md` of the sources.
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

/// File in which a patched kernel reports the number and version of the call.
const ENTRY: &str = "/proc/sys/vm/move_pages2";
/// Version of the arguments above.
const ABI: i64 = 1;
/// Numbers below this one are assigned to calls of Linux.
const NUMBER_MIN: libc::c_long = 463;
const NUMBER_MAX: libc::c_long = 4095;

impl MovePages2 {
    /// Maximum number of pages that the kernel unmaps together.
    pub const BATCH_MAX: usize = 16_384;

    /// Finds the call in the running kernel and checks its version.
    ///
    /// # Errors
    /// A sentence that states why the call cannot be used.
    pub fn find() -> Result<MovePages2, String> {
        let entry = fs::read_to_string(ENTRY)
            .map_err(|_| "the kernel was built without the patch in kernel/".to_string())?;
        let call = MovePages2 { number: parse_entry(&entry)? };
        // Called without pages, it returns only its version.
        // SAFETY: the count is 0, so no array is accessed.
        match unsafe { call.call(&Args::default()) } {
            Ok(ABI) => Ok(call),
            Ok(other) => Err(format!("system call {} answers {other}, not {ABI}", call.number)),
            Err(error) => Err(format!("system call {}: {error}", call.number)),
        }
    }

    /// Migrates pages to a node, with one TLB flush for each `batch` of them (1 to
    /// [`MovePages2::BATCH_MAX`]). Returns the node of each page afterwards, or a negative error
    /// number if it has none. A page that cannot be moved does not keep others from moving.
    ///
    /// # Errors
    /// Fails if an offset is not that of a page of the mapping, `batch` is out of range, or the
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
        // SAFETY: the arrays have `count` elements and outlive the call; the addresses are of pages
        // of a mapping that the caller borrows. Moving changes no byte.
        unsafe { self.call(&args) }?;
        Ok(status)
    }

    /// # Safety
    /// The addresses point to arrays of `count` elements, that of the status writable; or `count`
    /// is 0.
    unsafe fn call(&self, args: &Args) -> io::Result<i64> {
        // SAFETY: the kernel itself reports this number for `move_pages2`; the caller guarantees
        // the arguments, and their size is passed.
        let result =
            unsafe { libc::syscall(self.number, std::ptr::from_ref(args), size_of::<Args>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }
}

/// Parses `NUMBER VERSION`. Returns the number if the version is [`ABI`].
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
