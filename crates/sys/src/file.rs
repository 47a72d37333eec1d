//! Files and block devices with direct I/O.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use crate::file_system::free_by;
use crate::lock;
use crate::range_lock::{self, Claims};
use crate::size::{PAGE_BYTES, to_u64};
use crate::sync::lock;
use crate::transfer::{Buffer, Io};

/// Retries of a transfer that the kernel interrupts or defers, before its error is returned.
pub(crate) const RETRY_COUNT_MAX: u32 = 64;

/// Alignment that direct I/O requires of file offsets, lengths and memory addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Alignment of memory addresses, in bytes.
    pub memory_bytes: u64,
    /// Alignment of file offsets and lengths, in bytes.
    pub offset_bytes: u64,
}

/// A file or block device whose transfers bypass the page cache.
///
/// On file systems that refuse direct I/O, transfers go through the page cache, and
/// [`DirectFile::is_direct`] is false. Transfers and system calls take `&self` and may be made by
/// many threads at once.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    direct: bool,
    block_device: bool,
    alignment: Alignment,
    /// Error code of the first failed sync; every later sync returns it.
    unsynced: Mutex<Option<i32>>,
    claims: Claims,
}

impl DirectFile {
    /// Opens a file for reading and writing without truncating it; creates it if it is missing.
    ///
    /// # Errors
    /// Fails if the path cannot be opened, or is a block device or directory.
    pub fn create(path: &Path) -> io::Result<DirectFile> {
        regular(open_with(path, OpenOptions::new().read(true).write(true).create(true), 0)?)
    }

    /// Opens an existing file as [`DirectFile::create`] does; fails if it is missing.
    pub fn open(path: &Path) -> io::Result<DirectFile> {
        regular(open_with(path, OpenOptions::new().read(true).write(true), 0)?)
    }

    /// Opens a block device exclusively (`O_EXCL`). A device that is mounted, or open this way
    /// elsewhere, is refused as busy after two seconds.
    ///
    /// # Errors
    /// Fails if the device cannot be opened or the path is not a block device.
    pub fn device(path: &Path) -> io::Result<DirectFile> {
        if !std::fs::metadata(path)?.file_type().is_block_device() {
            return Err(io::Error::other("it is not a block device"));
        }
        lock::patiently(io::ErrorKind::ResourceBusy, || {
            open_with(path, OpenOptions::new().read(true).write(true), libc::O_EXCL)
        })
    }

    /// Creates a file without a name in `dir` (`O_TMPFILE`). Its space is freed when it is closed,
    /// also when the process crashes.
    ///
    /// # Errors
    /// Fails if the directory is missing or not writable.
    pub fn temporary(dir: &Path) -> io::Result<DirectFile> {
        let mut options = OpenOptions::new();
        let unnamed = open_with(dir, options.read(true).write(true), libc::O_TMPFILE);
        match unnamed.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) if dir.is_dir() => {
                create_unlinked(dir)
            }
            _ => unnamed,
        }
    }

    /// True if transfers bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// True if this is a block device, whose length is fixed.
    #[must_use]
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// Returns the alignment that transfers require.
    #[must_use]
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Returns the length of the file or the device in bytes.
    ///
    /// # Errors
    /// Fails if the kernel does not return the length.
    pub fn len(&self) -> io::Result<u64> {
        if self.block_device {
            return (&self.file).seek(io::SeekFrom::End(0));
        }
        Ok(self.file.metadata()?.len())
    }

    /// True if the length is zero.
    ///
    /// # Errors
    /// As [`DirectFile::len`].
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Allocates space for a range and extends the file to hold it. If the file system cannot
    /// preallocate, the file is extended sparsely, and a lack of space shows only at the write.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] if there is no space.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.fallocate(0, offset, len) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                let end = offset.saturating_add(len);
                if self.len()? < end { self.file.set_len(end) } else { Ok(()) }
            }
            result => result,
        }
    }

    /// Deallocates the space of a range (`FALLOC_FL_PUNCH_HOLE`), which reads as zero afterwards.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the file system or device cannot punch holes.
    pub fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
    }

    /// Sets the length of the file: truncates it, or extends it without allocating space.
    ///
    /// # Errors
    /// Fails if this is a device or the file system refuses.
    pub fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Makes completed writes durable (`fdatasync`).
    ///
    /// # Errors
    /// Fails if the device fails, and on every later call: the kernel reports a write-back error to
    /// only one `fdatasync`, and the writes that were lost are unknown.
    pub fn sync(&self) -> io::Result<()> {
        let mut failed = lock(&self.unsynced);
        if let Some(code) = *failed {
            return Err(io::Error::from_raw_os_error(code));
        }
        let synced = self.file.sync_data();
        *failed = synced.as_ref().err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        synced
    }

    /// Fills `data` from `offset`.
    ///
    /// # Errors
    /// Fails if the device fails or the file ends within the range.
    pub fn read_at(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let len = data.len();
        let read = |done: usize| self.file.read_at(&mut data[done..], offset + to_u64(done));
        transfer(len, io::ErrorKind::UnexpectedEof, read)
    }

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// Fails if the device fails or is full.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let write = |done: usize| self.file.write_at(&data[done..], offset + to_u64(done));
        transfer(data.len(), io::ErrorKind::WriteZero, write)
    }

    /// Reads into `data` with one call. Returns the number of bytes read, which may be fewer than
    /// `data` holds, for instance at the end of the file.
    ///
    /// # Errors
    /// Fails if the device fails.
    pub fn read_some_at(&self, offset: u64, data: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(data, offset)
    }

    /// Writes from `data` with one call. Returns the number of bytes written, which may be fewer
    /// than `data` holds.
    ///
    /// # Errors
    /// Fails if the device fails or is full.
    pub fn write_some_at(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        self.file.write_at(data, offset)
    }

    /// Returns the bytes of the file system that this user may still allocate; zero for a device.
    ///
    /// # Errors
    /// Fails if the file system does not report its free space.
    pub fn free_bytes(&self) -> io::Result<u64> {
        if self.block_device {
            return Ok(0);
        }
        // SAFETY: the descriptor is open, since `self` owns the file; `status` points to a struct
        // of `free_by` that the call fills.
        free_by(|status| unsafe { libc::fstatvfs(self.file.as_raw_fd(), status) })
    }

    /// Performs transfers of adjacent ranges, see [`run_len`](crate::transfer::run_len), and sets
    /// their results. Uses one vectored call (`preadv`, `pwritev`); if that is short, repeats each
    /// transfer by itself.
    pub fn transfer(&self, run: &mut [Io<'_>]) {
        if run.len() > 1 && self.vectored(run) {
            return run.iter_mut().for_each(|io| io.result = Ok(()));
        }
        for io in run {
            io.result = match &mut io.buffer {
                Buffer::ReadInto(data) => self.read_at(io.offset, data),
                Buffer::WriteFrom(data) => self.write_at(io.offset, data),
            };
        }
    }

    /// Transfers the run with one vectored call. Returns true if every byte was transferred.
    fn vectored(&self, run: &mut [Io<'_>]) -> bool {
        let (Some(first), Ok(count)) = (run.first(), i32::try_from(run.len())) else {
            return false;
        };
        let Ok(offset) = libc::off_t::try_from(first.offset) else { return false };
        let write = first.buffer.is_write();
        let mut buffers = Vec::with_capacity(run.len());
        for io in run.iter_mut() {
            let (start, iov_len) = io.buffer.as_raw();
            buffers.push(libc::iovec { iov_base: start.cast(), iov_len });
        }
        let fd = self.file.as_raw_fd();
        // SAFETY: each entry is a buffer that `run` borrows for longer than the call, exclusively
        // if the call writes to it; the list is a local of `count` entries.
        let moved = unsafe {
            match write {
                true => libc::pwritev(fd, buffers.as_ptr(), count, offset),
                false => libc::preadv(fd, buffers.as_ptr(), count, offset),
            }
        };
        let wanted: usize = run.iter().map(|io| io.buffer.len()).sum();
        usize::try_from(moved) == Ok(wanted)
    }

    /// Locks the file for this process alone, until it is closed. Waits up to two seconds, for a
    /// process that holds the lock and is about to exit.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process, or another open file of this process,
    /// holds the lock or a [`Claim`](crate::claim::Claim); the message names the process if known.
    pub fn lock(&self) -> io::Result<()> {
        range_lock::lock_all(&self.file)
    }

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    fn fallocate(&self, mode: i32, offset: u64, len: u64) -> io::Result<()> {
        let too_far = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let offset = libc::off_t::try_from(offset).map_err(too_far)?;
        let len = libc::off_t::try_from(len).map_err(too_far)?;
        for _ in 0..RETRY_COUNT_MAX {
            // SAFETY: takes no pointers; the descriptor is open, since `self` owns the file.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, len) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

impl AsFd for DirectFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Calls `step` with the number of bytes transferred so far until that is `len`; a step returns the
/// bytes that it has transferred, and `ended` is the error if these are none.
fn transfer(
    len: usize,
    ended: io::ErrorKind,
    mut step: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let (mut done, mut retries) = (0, 0);
    while done < len {
        match step(done) {
            Ok(0) => return Err(ended.into()),
            Ok(count) => (done, retries) = (done + count, 0),
            Err(error) if is_transient(&error) && retries < RETRY_COUNT_MAX => retries += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// True if the call may succeed when it is retried at once.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

fn regular(opened: DirectFile) -> io::Result<DirectFile> {
    let is_regular = opened.file.metadata()?.is_file();
    is_regular.then_some(opened).ok_or_else(|| io::Error::other("it is not a regular file"))
}

fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<DirectFile> {
    let direct = options.custom_flags(flags | libc::O_DIRECT).open(path);
    let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let (file, direct) = match direct {
        Err(error) if refused(&error) => (options.custom_flags(flags).open(path)?, false),
        direct => (direct?, true),
    };
    let block_device = file.metadata()?.file_type().is_block_device();
    let alignment = match (direct, direct_alignment(&file)) {
        (true, alignment) => alignment.unwrap_or(PAGE_ALIGNMENT),
        (false, _) => Alignment { memory_bytes: 1, offset_bytes: 1 },
    };
    let (unsynced, claims) = (Mutex::default(), Claims::default());
    Ok(DirectFile { file, direct, block_device, alignment, unsynced, claims })
}

/// Alignment that every device accepts, for kernels before 6.1, which do not report one.
const PAGE_ALIGNMENT: Alignment =
    Alignment { memory_bytes: to_u64(PAGE_BYTES), offset_bytes: to_u64(PAGE_BYTES) };

/// Returns the alignment that the kernel reports (`statx` with `STATX_DIOALIGN`), if any.
fn direct_alignment(file: &File) -> Option<Alignment> {
    // SAFETY: the struct consists of integers, for which all zero bytes are a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string literal, the descriptor is open, and the call fills a local.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut status,
        )
    };
    let known = result == 0 && status.stx_mask & libc::STATX_DIOALIGN != 0;
    (known && status.stx_dio_offset_align > 0).then(|| Alignment {
        memory_bytes: u64::from(status.stx_dio_mem_align),
        offset_bytes: u64::from(status.stx_dio_offset_align),
    })
}

/// Creates a file and removes its name at once, for file systems without `O_TMPFILE`.
fn create_unlinked(dir: &Path) -> io::Result<DirectFile> {
    for attempt in 0..RETRY_COUNT_MAX {
        let path = dir.join(format!(".terrace-{}-{attempt}", std::process::id()));
        let mut options = OpenOptions::new();
        match open_with(&path, options.read(true).write(true).create_new(true), 0) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a directory and its missing ancestors. Calls `sync` with each directory that has a new
/// entry, to make the entry durable (see [`sync_directory`]).
///
/// # Errors
/// Errors of the file system and of `sync`.
pub fn make_directory(path: &Path, sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let above = path.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
        true => Path::new("."),
        false => above,
    });
    let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty());
    let missing = missing.take_while(|path| !path.exists()).count();
    std::fs::create_dir_all(path)?;
    above.take(missing).try_for_each(sync)
}

/// Makes the entries of a directory durable (`fsync`).
///
/// # Errors
/// Errors of the file system.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuffer;
    use crate::size::MIB;

    /// A test's own directory, removed on drop.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("terrace-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("the temporary directory is writable");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("created in `new`");
        }
    }

    fn pattern(len: usize) -> AlignedBuffer {
        let mut data = AlignedBuffer::zeroed(len);
        for (index, byte) in data.iter_mut().enumerate() {
            *byte = u8::try_from(index % 251).expect("below 251");
        }
        data
    }

    #[test]
    fn a_sync_that_failed_is_not_asked_for_again() {
        let scratch = Scratch::new("unsynced");
        let file = DirectFile::create(&scratch.0.join("data")).expect("writable");
        file.sync().expect("a healthy device");
        let kept = file.file.try_clone().expect("a descriptor");
        let become_file = |of: &File| {
            // SAFETY: takes no pointers; both descriptors are open, and the target remains so.
            assert!(unsafe { libc::dup2(of.as_raw_fd(), file.file.as_raw_fd()) } >= 0);
        };
        become_file(&File::open("/dev/null").expect("it is there"));
        let first = file.sync().expect_err("a device that cannot");
        become_file(&kept);
        kept.sync_data().expect("it forgot");
        let later = file.sync().expect_err("what was lost is unknown");
        assert_eq!(first.raw_os_error(), later.raw_os_error());
    }

    #[test]
    fn bytes_come_back_after_opening_again() {
        let scratch = Scratch::new("file");
        let path = scratch.0.join("data");
        let data = pattern(64 * 1024);
        let file = DirectFile::create(&path).expect("writable");
        assert!(file.alignment().offset_bytes <= 4096);
        file.allocate(0, MIB).expect("room");
        assert_eq!(file.len().expect("a file"), MIB);
        file.write_at(8192, &data).expect("room");
        file.sync().expect("a healthy device");
        drop(file);
        let file = DirectFile::create(&path).expect("still there");
        let mut back = AlignedBuffer::zeroed(data.len());
        file.read_at(8192, &mut back).expect("written above");
        assert_eq!(&*back, &*data);
        let error = file.read_at(MIB - 4096, &mut back).expect_err("the file ends");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn runs_are_transferred_together_or_one_by_one() {
        let scratch = Scratch::new("run");
        let file = DirectFile::create(&scratch.0.join("data")).expect("writable");
        let data = pattern(5 * 4096);
        let mut writes: Vec<Io<'_>> =
            data.chunks(4096).zip(0..).map(|(page, index)| Io::write(index * 4096, page)).collect();
        file.transfer(&mut writes);
        assert!(writes.iter().all(|io| io.result.is_ok()));
        let mut back = AlignedBuffer::zeroed(7 * 4096);
        let mut reads: Vec<Io<'_>> = back
            .chunks_mut(4096)
            .zip(0..)
            .map(|(page, index)| Io::read(index * 4096, page))
            .collect();
        file.transfer(&mut reads);
        let whole: Vec<bool> = reads.iter().map(|io| io.result.is_ok()).collect();
        assert_eq!(whole, [true, true, true, true, true, false, false], "beyond the end");
        assert_eq!(back[..data.len()], data[..]);
    }

    #[test]
    fn punched_and_truncated_space_is_given_back() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new("punch");
        let path = scratch.0.join("data");
        let file = DirectFile::create(&path).expect("writable");
        file.allocate(0, 4 * MIB).expect("room");
        file.write_at(0, &pattern(4 << 20)).expect("room");
        let used = || std::fs::metadata(&path).expect("there").blocks() * 512;
        assert!(used() >= 4 * MIB);
        file.punch(MIB, 2 * MIB).expect("supported where tests run");
        assert!(used() < 3 * MIB, "{}", used());
        let mut data = pattern(4096);
        file.read_at(2 * MIB, &mut data).expect("a hole");
        assert!(data.iter().all(|byte| *byte == 0));
        file.truncate(4096).expect("a file");
        assert!(used() <= 8192);
    }

    #[test]
    fn temporary_files_have_no_name() {
        let scratch = Scratch::new("temporary");
        let unnamed = DirectFile::temporary(&scratch.0).expect("writable");
        let unlinked = create_unlinked(&scratch.0).expect("writable");
        for file in [unnamed, unlinked] {
            file.write_at(0, &pattern(4096)).expect("room");
            assert_eq!(file.len().expect("open"), 4096);
        }
        assert_eq!(std::fs::read_dir(&scratch.0).expect("there").count(), 0);
        assert!(DirectFile::temporary(&scratch.0.join("missing")).is_err());
    }

    #[test]
    fn what_is_no_device_or_no_file_is_refused() {
        let scratch = Scratch::new("kinds");
        let path = scratch.0.join("data");
        DirectFile::create(&path).expect("writable");
        let error = DirectFile::device(&path).expect_err("a file");
        assert!(error.to_string().contains("not a block device"), "{error}");
        assert!(DirectFile::create(&scratch.0).is_err());
        assert!(DirectFile::device(&scratch.0.join("missing")).is_err());
    }

    #[test]
    fn transfers_go_on_after_short_and_interrupted_steps() {
        let mut steps = [Ok(3), Err(io::ErrorKind::Interrupted.into()), Ok(4)].into_iter();
        let mut seen = Vec::new();
        let result = transfer(7, io::ErrorKind::UnexpectedEof, |done| {
            seen.push(done);
            steps.next().expect("three steps do")
        });
        assert!(result.is_ok());
        assert_eq!(seen, [0, 3, 3]);
        let put_off = || Err(io::Error::from(io::ErrorKind::WouldBlock));
        let error = transfer(1, io::ErrorKind::WriteZero, |_| put_off()).expect_err("for ever");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let error = transfer(1, io::ErrorKind::WriteZero, |_| Ok(0)).expect_err("no progress");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
