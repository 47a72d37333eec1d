//! A locked file, and its lock's end.

use std::fs::File;

use crate::identity::ProcessMark;

/// A file that this process has locked; unlocked when dropped, or when the process ends and all of
/// its children that have a copy of the descriptor. Dropping the copy that a child has changes
/// nothing.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    owner: ProcessMark,
}

impl LockedFile {
    /// Of a file that was locked just now.
    pub(crate) fn new(file: File) -> Self {
        Self { file, owner: ProcessMark::new() }
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // The number alone would mislead, and children that have the descriptor as well would
            // keep the lock. Errors change nothing: the lock ends with the last descriptor.
            drop(self.file.set_len(0));
            drop(self.file.unlock());
        }
    }
}
