//! Statistics of one segment, and the bounds of several.

use std::cmp::Ordering;

use super::bounds::Bound;

/// Statistics of one segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentStatistics {
    /// Number of values, including nulls.
    pub rows: usize,
    /// Number of nulls.
    pub nulls: usize,
    /// Lower bound of all values; `None` if every value is null or the type has no order.
    pub min: Option<Bound>,
    /// Upper bound of all values; `None` as for the minimum.
    pub max: Option<Bound>,
    /// Estimated number of distinct values, without nulls; `None` for nested types.
    pub distinct: Option<u64>,
}

/// Returns the least of the segments' minima; `None` if a segment with values has none.
pub(super) fn least<'a>(segments: impl Iterator<Item = &'a SegmentStatistics>) -> Option<Bound> {
    outermost(segments, |segment| &segment.min, Ordering::Less)
}

/// Returns the greatest of the segments' maxima; `None` if a segment with values has none.
pub(super) fn greatest<'a>(segments: impl Iterator<Item = &'a SegmentStatistics>) -> Option<Bound> {
    outermost(segments, |segment| &segment.max, Ordering::Greater)
}

fn outermost<'a>(
    segments: impl Iterator<Item = &'a SegmentStatistics>,
    side: impl Fn(&'a SegmentStatistics) -> &'a Option<Bound>,
    wins: Ordering,
) -> Option<Bound> {
    let mut best: Option<&Bound> = None;
    for segment in segments.filter(|segment| segment.nulls < segment.rows) {
        let bound = side(segment).as_ref()?;
        best = match best {
            None => Some(bound),
            Some(best) => match bound.value.partial_cmp(&best.value)? {
                // Of equal bounds the inexact one wins, since it claims less.
                Ordering::Equal if best.exact => Some(bound),
                order if order == wins => Some(bound),
                _ => Some(best),
            },
        };
    }
    best.cloned()
}
