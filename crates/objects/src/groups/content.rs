//! New contents of objects.

use crate::bytes;
use crate::groups::group::Found;

/// New contents of an object.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// This number of zero bytes.
    Zeros(usize),
    /// These bytes.
    Bytes(&'a [u8]),
    /// The current bytes up to `len`, padded with zeros.
    Resized { now: Found, len: usize },
}

impl<'a> Content<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Zeros(len) => len,
            Self::Bytes(bytes) => bytes.len(),
            Self::Resized { len, .. } => len,
        }
    }

    /// Writes the content to memory that no other thread can see. `near` is the current content, if
    /// that was in the group's run.
    pub(crate) fn copy(self, near: Option<&[u8]>, to: &mut [u8]) {
        match self {
            Self::Zeros(_) => to.fill(0),
            Self::Bytes(from) => to.copy_from_slice(from),
            Self::Resized { now, len } => {
                let kept = now.len.min(len);
                let (begin, end) = to.split_at_mut(kept);
                match near {
                    Some(near) => begin.copy_from_slice(&near[..kept]),
                    // SAFETY: the run is the object's, of a group that is latched.
                    None => unsafe { bytes::read(now.at, begin) },
                }
                end.fill(0);
            }
        }
    }

    /// Overwrites an object of the same length.
    ///
    /// # Safety
    /// As [`bytes::write`], for as many bytes as there are.
    pub(crate) unsafe fn overwrite(self, at: *mut u8) {
        match self {
            // The current bytes are the content.
            Self::Resized { .. } => {}
            // SAFETY: the caller's promise.
            Self::Zeros(_) | Self::Bytes(_) => unsafe { self.write(at) },
        }
    }

    /// # Safety
    /// As [`bytes::write`], for as many bytes as there are.
    pub(crate) unsafe fn write(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Zeros(len) => bytes::zero(to, len),
                Self::Bytes(from) => bytes::write(to, from),
                Self::Resized { now, len } => {
                    let kept = now.len.min(len);
                    copy(now.at, to, kept);
                    bytes::zero(to.add(kept), len - kept);
                }
            }
        }
    }
}

/// Copies `len` bytes from one run to another.
///
/// # Safety
/// The caller may read the one and write the other, `len` bytes of each.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let mut piece = [0; 1024];
    for done in (0..len).step_by(piece.len()) {
        let piece = &mut piece[..1024.min(len - done)];
        // SAFETY: the caller's promise, piece by piece.
        unsafe {
            bytes::read(from.add(done), piece);
            bytes::write(to.add(done), piece);
        }
    }
}
