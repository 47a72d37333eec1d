//! Opening and closing regions.

use std::ffi::{c_char, c_void};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_region::{Contents, Method, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_u64;

use crate::arguments::{self, or, path, place, shared, take_handle};
use crate::ledger::Ledger;
use crate::status::{Failure, Status, attempt, status};

/// Memory whose blocks are stored in a file or a device, larger than the DRAM it takes: a block is
/// read into memory on access, and evicted when the cap is reached.
///
/// An access to a block that cannot be read raises SIGBUS. A child process (fork) does not have the
/// memory. Several heaps and stores of objects may use parts of one region.
///
/// All functions may be called from any thread, except terrace_region_close during another call
/// with the same handle.
pub struct Region {
    pub(crate) region: Arc<terrace_region::Region>,
    lasts: bool,
}

/// Value of terrace_region_options.ahead_bytes: nothing is read ahead.
pub const AHEAD_OFF: u64 = u64::MAX;

/// Method that brings blocks into memory, for terrace_region_options.method.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum MethodChoice {
    /// Moving if the kernel supports it (Linux 6.8), copying otherwise.
    Auto = 0,
    /// Pages are moved into place.
    Move = 1,
    /// Bytes are copied in. Memory that direct I/O or registered buffers write to must then be
    /// pinned.
    Copy = 2,
}

/// Options of a region. Zero, or NULL, selects the default of every field but the cap, which has
/// none without a ledger: begin with terrace_region_options_default or zeroed memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionOptions {
    /// Name in errors and statistics. NULL: "region".
    pub name: *const c_char,
    /// Budget that blocks in memory count against, in addition to the cap. NULL: the cap alone.
    pub ledger: *const Ledger,
    /// Maximum bytes in memory, at least two blocks for each pager. 0: the whole budget of the
    /// ledger; an error without one.
    pub cap_bytes: u64,
    /// Block size, the unit of paging: a power of two from 4096 to 4194304. 0: 262144.
    pub block_bytes: u64,
    /// Maximum bytes that are read ahead of sequential access. 0: 2097152; TERRACE_AHEAD_OFF: none.
    pub ahead_bytes: u64,
    /// Time that pin, evict, flush and close wait for a block, or for the next one of many, in
    /// milliseconds. 0: 30000.
    pub patience_ms: u64,
    /// Threads that handle page faults, 1 to 64, each for a part of the blocks. 0: 1.
    pub pagers: u32,
    /// Blocks that a pager reads concurrently, 1 to 16. 0: 16.
    pub depth: u32,
    /// Method that brings blocks into memory, a terrace_method.
    pub method: u32,
}

impl RegionOptions {
    const USUAL: Self = Self {
        name: std::ptr::null(),
        ledger: std::ptr::null(),
        cap_bytes: 0,
        block_bytes: 0,
        ahead_bytes: 0,
        patience_ms: 0,
        pagers: 0,
        depth: 0,
        method: MethodChoice::Auto as u32,
    };

    /// # Safety
    /// Each pointer of the options is NULL or valid for its type, and its target does not change
    /// during the call.
    unsafe fn config(&self) -> Result<RegionConfig, Failure> {
        // SAFETY: the caller's promise, for both.
        let (name, ledger) =
            unsafe { (arguments::name(self.name, "region"), arguments::ledger(self.ledger)) };
        let cap_bytes = match (self.cap_bytes, &ledger) {
            (0, Some(ledger)) => ledger.budget(),
            (0, None) => {
                let text = format!("region {name}: a region takes a cap_bytes or a ledger");
                return Err(Failure::invalid(text));
            }
            (bytes, _) => bytes,
        };
        let ledger = ledger.unwrap_or_else(|| terrace_ledger::Ledger::new(cap_bytes));
        let usual = RegionConfig::new(name, ledger);
        let method = match self.method {
            0 => None,
            1 => Some(Method::Move),
            2 => Some(Method::Copy),
            other => {
                let text = format!("region {}: {other} is no terrace_method", usual.name);
                return Err(Failure::invalid(text));
            }
        };
        Ok(RegionConfig {
            cap_bytes,
            block_bytes: or(self.block_bytes, usual.block_bytes),
            ahead_bytes: match self.ahead_bytes {
                AHEAD_OFF => 0,
                bytes => or(bytes, usual.ahead_bytes),
            },
            patience: match self.patience_ms {
                0 => usual.patience,
                ms => Duration::from_millis(ms),
            },
            pagers: or(self.pagers.into(), usual.pagers),
            depth: or(self.depth.into(), usual.depth),
            method,
            ..usual
        })
    }
}

/// Returns the default options of a region: all zero.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_region_options_default() -> RegionOptions {
    RegionOptions::USUAL
}

/// Returns the configuration that `options` describe; NULL selects the defaults.
///
/// # Safety
/// `options` is NULL, or leads to options whose pointers are valid.
unsafe fn config(options: *const RegionOptions) -> Result<RegionConfig, Failure> {
    // SAFETY: the caller's promise.
    unsafe { options.as_ref().unwrap_or(&RegionOptions::USUAL).config() }
}

fn start(config: RegionConfig, file: DirectFile, source: Range) -> Result<Region, Failure> {
    let Range { offset, len, contents } = source;
    let Some(end) = offset.checked_add(len) else {
        let text = format!("region {}: {len} bytes from {offset} on cannot be", config.name);
        return Err(Failure::invalid(text));
    };
    let blocks = FileBlocks::open(file, end, EngineChoice::Auto)
        .map_err(|error| Failure::io(format_args!("region {}: its file", config.name), &error))?;
    let source = Source { blocks: Arc::new(blocks), offset, len, contents };
    let region = Arc::new(terrace_region::Region::new(config, source)?);
    Ok(Region { region, lasts: contents == Contents::Stored })
}

/// Range of a file that a region covers, and the meaning of the bytes in it.
struct Range {
    offset: u64,
    len: u64,
    contents: Contents,
}

fn open_file(path: &Path) -> std::io::Result<DirectFile> {
    if std::fs::metadata(path)?.file_type().is_block_device() {
        return DirectFile::device(path);
    }
    DirectFile::open(path)
}

/// Maps an existing file or block device, from an offset on (a multiple of 4096), and stores the
/// region in *out. Its bytes are those of the file; writes to them go to the file.
///
/// len 0 means all from the offset to the end of the file. A region may be longer than its file:
/// bytes beyond the end read as zero, and the file grows when they are written. A device must not
/// be in use otherwise, and the region has exclusive use of its bytes of a file: they are locked
/// (F_OFD_SETLK) until it ends. Several regions may have different pages of one file.
///
/// TERRACE_STATUS_INVALID for invalid options, TERRACE_STATUS_IO if the file cannot be opened or
/// another region has bytes of it (the text names the process, if that is known),
/// TERRACE_STATUS_UNSUPPORTED if this process has no userfaultfd, TERRACE_STATUS_NO_ROOM if memory
/// or budget do not suffice for two blocks of each pager.
///
/// # Safety
/// path is NULL or a string; options is NULL or points to options, whose name is NULL or a string
/// and whose ledger is NULL or a ledger; out is NULL or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_open(
    path: *const c_char,
    offset: u64,
    len: u64,
    options: *const RegionOptions,
    out: *mut *mut Region,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (out, path, config) =
            unsafe { (place(out, "out")?, self::path(path, "path")?, config(options)?) };
        let failed = |error| {
            let at = path.display();
            Failure::io(format_args!("region {}: {at}", config.name), &error)
        };
        let file = open_file(path).map_err(failed)?;
        let len = match len {
            0 => file.len().map_err(failed)?.saturating_sub(offset),
            len => len,
        };
        out.put_handle(start(config, file, Range { offset, len, contents: Contents::Stored })?);
        Ok(())
    })
}

/// Creates a region of len bytes, all zero, over an unnamed file in a directory, and stores it in
/// *out. The space of the file is free again when the region ends, however the process ends.
///
/// Fails as terrace_region_open does.
///
/// # Safety
/// As for terrace_region_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_scratch(
    directory: *const c_char,
    len: u64,
    options: *const RegionOptions,
    out: *mut *mut Region,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for all three.
        let (out, directory, config) =
            unsafe { (place(out, "out")?, path(directory, "directory")?, config(options)?) };
        let file = DirectFile::temporary(directory).map_err(|error| {
            let at = directory.display();
            Failure::io(format_args!("region {}: a file in {at}", config.name), &error)
        })?;
        out.put_handle(start(config, file, Range { offset: 0, len, contents: Contents::Blank })?);
        Ok(())
    })
}

/// Releases the handle; NULL is allowed. The region itself ends with the last of its handle, its
/// heaps, its stores of objects and its pins.
///
/// If this is the last one, and the region is over a file that persists, its writes are made
/// durable first; a status other than TERRACE_STATUS_OK reports that this failed. The handle is
/// invalid in any case. Pointers into a region that has ended are invalid.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and is not used
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_close(region: *mut Region) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let Some(handle) = (unsafe { take_handle(region) }) else { return Ok(()) };
        match Arc::into_inner(handle.region) {
            Some(region) if handle.lasts => Ok(region.flush(0, to_u64(region.len()))?),
            _ => Ok(()),
        }
    })
}

/// Returns the address of the first byte; NULL for NULL. The address is valid until the region
/// ends.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_data(region: *const Region) -> *mut c_void {
    // SAFETY: the caller's promise.
    let data = attempt(|| Ok(unsafe { shared(region, "region") }?.region.as_ptr().cast()));
    data.unwrap_or(std::ptr::null_mut())
}

/// Returns the bytes of the region, rounded up to pages of 4096; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_len(region: *const Region) -> usize {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.len())).unwrap_or(0)
}

/// Returns the block size in bytes; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_block_bytes(region: *const Region) -> usize {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.block_bytes())).unwrap_or(0)
}

/// Returns true if system calls may be given any address of the region; false for NULL. If this
/// process may handle page faults of its own code only (users without CAP_SYS_PTRACE, unless the
/// machine is set up otherwise), a system call on a block that is not in memory fails with EFAULT:
/// call terrace_region_pin before it.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_serves_system_calls(region: *const Region) -> bool {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.serves_system_calls()))
        .unwrap_or(false)
}

/// Returns the I/O engine that transfers blocks from and to the file: "io_uring", or "threads" if
/// the kernel refuses io_uring to this process; "" for NULL. The text is a constant.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_engine(region: *const Region) -> *const c_char {
    // SAFETY: the caller's promise.
    let engine = attempt(|| Ok(unsafe { shared(region, "region") }?.region.engine()));
    let engine = match engine {
        Ok("io_uring") => c"io_uring",
        Ok(_) => c"threads",
        Err(_) => c"",
    };
    engine.as_ptr()
}

/// Changes the maximum bytes in memory; the excess is evicted soon.
///
/// TERRACE_STATUS_INVALID for less than two blocks for each pager.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_set_cap(region: *const Region, bytes: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { shared(region, "region") }?.region.set_cap(bytes)?))
}
