//! The kernel's cache of the pages of files.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the pages of a file out of the page cache (`POSIX_FADV_DONTNEED`), after writing those
/// that are not on the device yet. Pages that a process has mapped stay.
///
/// # Errors
/// If the file cannot be written back, or is none that the advice is for.
pub fn drop_pages(file: &File) -> io::Result<()> {
    file.sync_all()?;
    // SAFETY: the call takes numbers alone; the descriptor is that of a file borrowed for it.
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
