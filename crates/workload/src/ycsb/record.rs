//! Layout and contents of a record.

use terrace_sys::size::to_usize;

use crate::random::Random;

/// Number of fields of a record.
pub(super) const FIELDS: u64 = 10;
/// Size in bytes of the stamp at the beginning of a field, from which the rest of its value is
/// derived.
pub(super) const STAMP_BYTES: usize = 2;

/// Positions of the fields of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordLayout {
    record_bytes: usize,
    field_bytes: usize,
}

impl RecordLayout {
    /// Creates the layout of records of this many bytes, a multiple of the number of fields.
    pub(super) fn new(record_bytes: usize) -> Self {
        Self { record_bytes, field_bytes: record_bytes / to_usize(FIELDS) }
    }

    /// Returns the initial contents of a record.
    pub(super) fn record(&self, number: u64) -> Vec<u8> {
        let mut record = vec![0; self.record_bytes];
        for field in 0..FIELDS {
            self.write(&mut record, number, field, [0; STAMP_BYTES]);
        }
        record
    }

    /// Writes the value of a field for the given stamp.
    pub(super) fn write(
        &self,
        record: &mut [u8],
        number: u64,
        field: u64,
        stamp: [u8; STAMP_BYTES],
    ) {
        let (head, rest) = self.field_mut(record, field).split_at_mut(STAMP_BYTES);
        head.copy_from_slice(&stamp);
        random(number, field, stamp).fill(rest);
    }

    /// True if the value of a field is valid for this record and field.
    pub(super) fn belongs(&self, record: &[u8], number: u64, field: u64) -> bool {
        let at = to_usize(field) * self.field_bytes;
        let (stamp, rest) = record[at..at + self.field_bytes].split_at(STAMP_BYTES);
        let mut random = random(number, field, [stamp[0], stamp[1]]);
        rest.chunks(8).all(|chunk| chunk == &random.next().to_le_bytes()[..chunk.len()])
    }

    fn field_mut<'a>(&self, record: &'a mut [u8], field: u64) -> &'a mut [u8] {
        let at = to_usize(field) * self.field_bytes;
        &mut record[at..at + self.field_bytes]
    }
}

fn random(number: u64, field: u64, stamp: [u8; STAMP_BYTES]) -> Random {
    Random::new(number, (field << 16) | u64::from(u16::from_le_bytes(stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_belong_to_their_record_and_place() {
        for bytes in [30, 100, 1000] {
            let layout = RecordLayout::new(bytes);
            let mut record = layout.record(5);
            layout.write(&mut record, 5, 3, [7, 9]);
            let belong = |record: &[u8], number| {
                (0..FIELDS).filter(|field| layout.belongs(record, number, *field)).count()
            };
            assert_eq!((record.len(), belong(&record, 5)), (bytes, 10));
            assert!(belong(&record, 6) <= 1, "a field of one byte may agree by chance");
            record[bytes - 1] ^= 1;
            assert_eq!(belong(&record, 5), 9);
        }
    }
}
