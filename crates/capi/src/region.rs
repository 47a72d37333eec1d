//! Opening and closing regions.

use std::ffi::{c_char, c_void};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_region::{Contents, Method, RegionConfig, Source};
use terrace_sys::file::DirectFile;
use terrace_sys::size::to_u64;
use terrace_tier::store::{EngineChoice, FileBlocks};

use crate::arguments::{self, or, path, place, shared, take_handle};
use crate::ledger::Ledger;
use crate::status::{Failure, Status, attempt, status};

/// Memory whose blocks live in a file or a device, larger than the DRAM it takes: a block comes
/// into memory when somebody touches it, and leaves when the cap is reached.
///
/// Who touches a block that cannot be read gets SIGBUS. A child process (fork) does not have the
/// memory. Several heaps and stores of objects may use parts of one region.
///
/// All functions may be called from any thread, except terrace_region_close beside another call
/// with the same handle.
pub struct Region {
    pub(crate) region: Arc<terrace_region::Region>,
    lasts: bool,
}

/// Value of terrace_region_options.ahead_bytes: nothing is asked for ahead.
pub const AHEAD_OFF: u64 = u64::MAX;

/// How blocks get into their place, for terrace_region_options.method.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum MethodChoice {
    /// By moving where the kernel can (Linux 6.8), by copying otherwise.
    Auto = 0,
    /// Their pages are moved.
    Move = 1,
    /// Their bytes are copied in. Memory that direct I/O or registered buffers write to must then
    /// be pinned.
    Copy = 2,
}

/// How a region is set up. Zero, or NULL, is the usual value of every field but the cap, which has
/// none without a ledger: begin with terrace_region_options_default or zeroed memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionOptions {
    /// Its name in errors and statistics. NULL: "region".
    pub name: *const c_char,
    /// The budget that blocks in memory count against, beside the cap. NULL: the cap alone.
    pub ledger: *const Ledger,
    /// Bytes that are in memory at most, two blocks for each pager at least. 0: the whole budget of
    /// the ledger; an error without one.
    pub cap_bytes: u64,
    /// Bytes that come and go together: a power of two from 4096 to 4194304. 0: 262144.
    pub block_bytes: u64,
    /// Bytes that are asked for ahead of who touches blocks in order, at most. 0: 2097152;
    /// TERRACE_AHEAD_OFF: none.
    pub ahead_bytes: u64,
    /// How long pin, evict, flush and close wait for a block, or for the next one of many, in
    /// milliseconds. 0: 30000.
    pub patience_ms: u64,
    /// Threads that answer page faults, 1 to 64, each for a part of the blocks. 0: 1.
    pub pagers: u32,
    /// Blocks that a pager reads at a time, 1 to 16. 0: 16.
    pub depth: u32,
    /// A terrace_method.
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
        let ledger = ledger.unwrap_or_else(|| terrace_market::Ledger::new(cap_bytes));
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

/// The usual options of a region: all zero.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_region_options_default() -> RegionOptions {
    RegionOptions::USUAL
}

/// Returns the configuration for some options; NULL selects the default one.
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

/// Maps a file or a block device that is there, from an offset on (a multiple of 4096), and gives
/// the region to *out. Its bytes are those of the file; what is written to them goes there.
///
/// len 0 is all from the offset to the end of the file. A region may be longer than its file: what
/// is beyond the end reads as zero, and the file grows when it is written. A device must not be in
/// use otherwise, and the region has its bytes of a file alone: they are locked (F_OFD_SETLK) until
/// it ends. Several regions may have different pages of one file.
///
/// TERRACE_STATUS_INVALID for options that cannot be, TERRACE_STATUS_IO where the file cannot be
/// opened or another region has bytes of it (the text names the process, where that is known),
/// TERRACE_STATUS_UNSUPPORTED where this process has no userfaultfd,
/// TERRACE_STATUS_NO_ROOM where memory or budget do not suffice for two blocks of each pager.
///
/// # Safety
/// path is NULL or a string; options are NULL or lead to options, whose name is NULL or a string
/// and whose ledger is NULL or a ledger; out is NULL or leads to room for a pointer.
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

/// Makes a region of so many bytes, all zero, over a file without a name in a directory, and gives
/// it to *out. The space of the file is free again when the region ends, however the process does.
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

/// Gives the handle back; NULL is allowed. The region itself ends with the last of its handle, its
/// heaps, its stores of objects and its pins.
///
/// Where this is the last one, and the region is over a file that lasts, what was written is made
/// durable before; a status other than TERRACE_STATUS_OK says that this failed. The handle is gone
/// in any case. Pointers into a region that has ended are of no use any more.
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

/// The first byte; NULL for NULL. The address holds until the region ends.
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

/// Bytes of the region, rounded up to pages of 4096; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_len(region: *const Region) -> usize {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.len())).unwrap_or(0)
}

/// Bytes that come and go together; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_block_bytes(region: *const Region) -> usize {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.block_bytes())).unwrap_or(0)
}

/// Whether system calls may be given any address of the region; false for NULL. Where this process
/// may see page faults of its own code alone (users without CAP_SYS_PTRACE, unless the machine is
/// set up otherwise), a system call that is given a block which is not in memory ends with EFAULT:
/// terrace_region_pin comes before it.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_serves_system_calls(region: *const Region) -> bool {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(region, "region") }?.region.serves_system_calls()))
        .unwrap_or(false)
}

/// How blocks move to and from the file: "io_uring", or "threads" where the kernel refuses it to
/// this process; "" for NULL. The text is a constant.
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

/// Changes how many bytes may be in memory; what is too much leaves soon.
///
/// TERRACE_STATUS_INVALID below two blocks for each pager.
///
/// # Safety
/// As for terrace_region_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_set_cap(region: *const Region, bytes: u64) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { shared(region, "region") }?.region.set_cap(bytes)?))
}
