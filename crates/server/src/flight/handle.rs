//! Handles that clients send: the numbers of tickets, prepared statements, transactions and
//! savepoints, in 8 bytes.

/// Decodes the number in a client's handle; `None` unless the handle has 8 bytes.
pub(super) fn number_of(handle: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(handle.try_into().ok()?))
}
