//! Identity of the space that owns a page.

/// Id and serial number of a space, as stored in the page-table entry. The serial distinguishes
/// spaces that reuse an id (ABA). No space has id 0, the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    space: u32,
    serial: u32,
}

impl Owner {
    #[inline]
    pub(crate) fn new(space: u32, serial: u32) -> Self {
        Self { space, serial }
    }

    /// Returns the id of the space, which is reused after the space is dropped.
    #[inline]
    pub(crate) fn space(self) -> u32 {
        self.space
    }

    /// Returns the serial number of the space, which is not reused.
    #[inline]
    pub(crate) fn serial(self) -> u32 {
        self.serial
    }
}
