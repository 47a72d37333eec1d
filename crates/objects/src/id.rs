//! Ids of objects.

use std::fmt;
use std::str::FromStr;

/// Bits of the local id, which is unique within its node.
pub const LOCAL_BITS: u32 = 48;
/// The highest local id.
pub const LOCAL_MAX: u64 = (1 << LOCAL_BITS) - 1;

/// Id of an object: 16 bits for the node that made it and a local id of 48 (DXMem, section 4.1).
///
/// No object has the id with all bits zero: programs may use it for "none".
///
/// ```
/// use terrace_objects::ObjectId;
/// let id = ObjectId::new(3, 0x2a);
/// assert_eq!((id.node(), id.local(), id.to_bits()), (3, 0x2a, 0x0003_0000_0000_002a));
/// assert_eq!(id.to_string(), "3:2a");
/// assert_eq!("3:2a".parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ObjectId(u64);

impl ObjectId {
    /// Makes an id from its two parts.
    ///
    /// # Panics
    /// If `local` needs more than 48 bits.
    #[must_use]
    pub const fn new(node: u16, local: u64) -> Self {
        assert!(local <= LOCAL_MAX, "a local id has 48 bits");
        Self((node as u64) << LOCAL_BITS | local)
    }

    /// Makes an id from its bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits: the node above the local id.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the node that made the object.
    #[must_use]
    pub const fn node(self) -> u16 {
        (self.0 >> LOCAL_BITS) as u16
    }

    /// Returns the local id.
    #[must_use]
    pub const fn local(self) -> u64 {
        self.0 & LOCAL_MAX
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.node(), self.local())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl FromStr for ObjectId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is no object id: write node:local, such as 3:2a (local in hex)");
        let (node, local) = text.split_once(':').ok_or_else(wrong)?;
        let node = node.parse().map_err(|_| wrong())?;
        let local = u64::from_str_radix(local, 16).ok().filter(|local| *local <= LOCAL_MAX);
        Ok(Self::new(node, local.ok_or_else(wrong)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "3", "3:", ":1", "70000:1", "1:1000000000000", "1:-1", "1:g"] {
            let error = text.parse::<ObjectId>().expect_err(text);
            assert!(error.contains(text) && error.contains("3:2a"), "{error}");
        }
        let last = ObjectId::new(u16::MAX, LOCAL_MAX);
        assert_eq!(last.to_bits(), u64::MAX);
        assert_eq!(last.to_string().parse(), Ok(last));
    }
}
