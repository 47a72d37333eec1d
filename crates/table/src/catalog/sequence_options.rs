//! Options of sequences, and the numbers that follow from them.

/// Type of the numbers of a sequence, which bounds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequenceType {
    /// 16 bits.
    SmallInt,
    /// 32 bits.
    Integer,
    /// 64 bits.
    #[default]
    BigInt,
}

impl SequenceType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::SmallInt, Self::Integer, Self::BigInt];

    /// Returns the name of the type in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "smallint",
            Self::Integer => "integer",
            Self::BigInt => "bigint",
        }
    }

    /// Returns the least and the greatest number.
    #[must_use]
    pub fn bounds(self) -> (i64, i64) {
        match self {
            Self::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Self::Integer => (i32::MIN.into(), i32::MAX.into()),
            Self::BigInt => (i64::MIN, i64::MAX),
        }
    }
}

/// Options of a sequence. The bounds are within those of the type, the start is within the bounds,
/// and the increment is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// Type of the numbers.
    pub data_type: SequenceType,
    /// First number.
    pub start: i64,
    /// Difference of two consecutive numbers; negative for a descending sequence.
    pub increment: i64,
    /// Least number.
    pub min: i64,
    /// Greatest number.
    pub max: i64,
    /// Count of numbers that are durably reserved together: at least 32, at most 65,536.
    pub cache: i64,
    /// True if an ascending sequence continues with `min` after `max`, and a descending one with
    /// `max` after `min`.
    pub cycles: bool,
}

/// The position of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) value: i64,
    /// True if `value` has been given; otherwise it is the next one.
    pub(super) is_called: bool,
}

/// The bound that a sequence without CYCLE cannot pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceEnd {
    Maximum,
    Minimum,
}

impl SequenceOptions {
    /// Returns the number after `value`, or the end that the sequence has reached.
    pub(super) fn after(&self, value: i64) -> Result<i64, SequenceEnd> {
        let next = value.checked_add(self.increment);
        match next.filter(|next| (self.min..=self.max).contains(next)) {
            Some(next) => Ok(next),
            None if self.cycles && self.increment > 0 => Ok(self.min),
            None if self.cycles => Ok(self.max),
            None if self.increment > 0 => Err(SequenceEnd::Maximum),
            None => Err(SequenceEnd::Minimum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_their_bounds() {
        let up = SequenceOptions {
            data_type: SequenceType::BigInt,
            start: 1,
            increment: 3,
            min: 1,
            max: i64::MAX,
            cache: 1,
            cycles: false,
        };
        assert_eq!(up.after(1), Ok(4));
        assert_eq!(up.after(i64::MAX - 2), Err(SequenceEnd::Maximum));
        assert_eq!(SequenceOptions { cycles: true, ..up }.after(i64::MAX), Ok(1));
        let down = SequenceOptions { increment: -1, min: -3, max: -1, ..up };
        assert_eq!(down.after(-2), Ok(-3));
        assert_eq!(down.after(-3), Err(SequenceEnd::Minimum));
        assert_eq!(SequenceOptions { cycles: true, ..down }.after(-3), Ok(-1));
    }
}
