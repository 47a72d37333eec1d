//! Parts: exclusive byte ranges of a region.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{KIB, MIB, a_method, blank, config};
use terrace_region::{Advice, Part, Region, RegionConfig, RegionError};
use terrace_sys::size::to_usize;

const BLOCK: u64 = 64 * KIB;

fn region() -> Option<Arc<Region>> {
    let config = RegionConfig { block_bytes: to_usize(BLOCK), ..config(a_method()?, MIB) };
    Some(Arc::new(blank(4 * MIB, config)))
}

fn take(region: &Arc<Region>, offset: u64, len: u64) -> Result<Part, RegionError> {
    Part::take(region, "a test", to_usize(offset), to_usize(len))
}

#[test]
fn no_byte_is_two_parts_of_a_region() {
    let Some(region) = region() else { return };
    let part = take(&region, MIB, MIB).expect("free");
    assert_eq!((part.offset(), part.len(), part.is_empty()), (1 << 20, 1 << 20, false));
    assert_eq!(part.as_ptr(), region.as_ptr().wrapping_add(1 << 20));
    for (offset, len) in [(0, 4 * MIB), (MIB, 1), (2 * MIB - 1, 2), (0, MIB + 1)] {
        let refused = take(&region, offset, len).expect_err("taken");
        assert!(matches!(&refused, RegionError::Taken { holder, .. } if holder == "a test"));
        assert!(refused.to_string().contains("a part of a test"), "{refused}");
    }
    let beside =
        [take(&region, 0, MIB), take(&region, 2 * MIB, 2 * MIB)].map(|it| it.expect("free"));
    drop(part);
    let part = take(&region, MIB, MIB).expect("free again");
    drop((part, beside));
    take(&region, 0, 4 * MIB).expect("all of it");
    let beyond = take(&region, MIB, 4 * MIB).expect_err("it ends before");
    assert!(matches!(beyond, RegionError::Range { .. }), "{beyond}");
}

/// No safe call of the region reads, changes or loses bytes of a part.
#[test]
fn only_its_owner_changes_a_part() {
    let Some(region) = region() else { return };
    region.store(to_usize(MIB), 3);
    // The part begins and ends within a block.
    let part = take(&region, MIB - 4096, MIB).expect("free");
    assert_eq!(region.load(to_usize(MIB - 4097)), 0, "before it");
    for offset in [MIB - 4096, 2 * MIB - 4097] {
        let changes = || region.store(to_usize(offset), 1);
        assert!(catch_unwind(AssertUnwindSafe(changes)).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| region.load(to_usize(offset)))).is_err());
    }
    let told = |offset, len, advice| region.advise(offset, len, advice);
    for (offset, len) in [(0, 4 * MIB), (MIB, BLOCK), (2 * MIB - BLOCK, BLOCK)] {
        for advice in [Advice::Unused, Advice::Immutable] {
            let refused = told(offset, len, advice).expect_err("taken");
            assert!(matches!(refused, RegionError::Taken { .. }), "{refused}");
        }
        told(offset, len, Advice::Used).expect("nothing is lost by that");
    }
    told(0, MIB - 4096, Advice::Unused).expect("the block that both have stays");
    told(0, MIB - 4096, Advice::Immutable).expect_err("they are whole blocks");
    told(0, MIB - BLOCK, Advice::Immutable).expect("none of its blocks");
    // The owner of the part may give all advice.
    part.advise(4096, 64 << 10, Advice::Unused).expect("told");
    part.advise(4096, 64 << 10, Advice::Used).expect("told");
    let beyond = part.advise(4096, part.len(), Advice::Used).expect_err("it ends before");
    assert!(matches!(beyond, RegionError::Range { .. }), "{beyond}");
    drop(part);
    region.store(to_usize(MIB), 4);
    assert_eq!(region.load(to_usize(MIB)), 4);
}
