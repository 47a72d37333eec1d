//! Handles of clients: the numbers of tickets, prepared statements, transactions and savepoints.

/// Decodes the number in a client's handle.
pub(super) fn number_of(handle: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(handle.try_into().ok()?))
}
