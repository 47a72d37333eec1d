//! Page cache of the kernel.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Evicts the pages of a file from the page cache (`POSIX_FADV_DONTNEED`), after writing back dirty
/// ones. Pages that a process has mapped stay.
///
/// # Errors
/// Fails if the file cannot be written back, or is of a kind without page cache, such as a pipe.
pub fn drop_pages(file: &File) -> io::Result<()> {
    file.sync_all()?;
    // SAFETY: takes no pointers; the descriptor belongs to a file that is borrowed for the call.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_file_keeps_its_bytes() {
        let path = std::env::temp_dir().join(format!("page-cache-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 16]).expect("written");
        let mut file = File::open(&path).expect("opened");
        drop_pages(&file).expect("dropped");
        let mut bytes = Vec::new();
        file.rewind().expect("at the start");
        file.read_to_end(&mut bytes).expect("read");
        assert_eq!(bytes, vec![7; 1 << 16]);
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn pipes_have_no_pages() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(drop_pages(&file).is_err());
    }
}
