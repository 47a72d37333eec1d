//! Measures the cheaper paging method of this machine: moving or copying.
//!
//! A move changes page tables alone. From Linux 6.18 on it flushes TLBs once for many pages, before
//! that once for each page. So both methods are timed once per process for each block size, for a
//! block in and out again. This takes a few milliseconds.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use terrace_sys::map::Mapping;
use terrace_sys::sync::lock;
use terrace_sys::userfault::Userfault;

use crate::config::Method;

/// Rounds of each method; the minimum counts.
const ROUNDS: usize = 5;

static KNOWN: Mutex<Vec<(usize, Method)>> = Mutex::new(Vec::new());

/// Time to bring a block in and out, by each method.
#[derive(Clone, Copy, Debug)]
struct Costs {
    moved: Duration,
    copied: Duration,
}

impl Costs {
    fn cheaper(self) -> Method {
        if self.moved <= self.copied { Method::Move } else { Method::Copy }
    }
}

/// Returns the cheaper method for a block size on a kernel that supports both.
pub(crate) fn cheaper(fault: &Userfault, block_bytes: usize, huge: bool) -> Method {
    let known = |known: &[(usize, Method)]| {
        known.iter().find(|(bytes, _)| *bytes == block_bytes).map(|(_, method)| *method)
    };
    if let Some(method) = known(&lock(&KNOWN)) {
        return method;
    }
    let method = match measure(fault, block_bytes, huge) {
        Ok(costs) => {
            tracing::debug!(block_bytes, ?costs, "blocks in and out");
            costs.cheaper()
        }
        Err(error) => {
            tracing::warn!(block_bytes, %error, "blocks are copied: they could not be moved");
            Method::Copy
        }
    };
    lock(&KNOWN).push((block_bytes, method));
    method
}

fn measure(fault: &Userfault, block_bytes: usize, huge: bool) -> io::Result<Costs> {
    let reserve = || {
        let mapping = Mapping::reserve(block_bytes)?;
        // Fails on kernels without huge pages, where there is nothing to request or to decline.
        let _ = mapping.advise_huge(huge);
        io::Result::Ok(mapping)
    };
    let (place, frame) = (reserve()?, reserve()?);
    // No thread handles faults here: absent pages must not be touched after registration.
    frame.populate(0, block_bytes)?;
    fault.register(&place, 0, block_bytes, false)?;
    fault.register(&frame, 0, block_bytes, false)?;
    let bytes = vec![1; block_bytes];
    let mut least = Costs { moved: Duration::MAX, copied: Duration::MAX };
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let moves = |to, from| fault.move_pages((to, 0), (from, 0), block_bytes, true);
        moves(&place, &frame).and_then(|()| moves(&frame, &place)).map_err(|e| e.error)?;
        least.moved = least.moved.min(began.elapsed());
        let began = Instant::now();
        fault.copy_in(&place, 0, &bytes, false).map_err(|partial| partial.error)?;
        place.decommit(0, block_bytes)?;
        least.copied = least.copied.min(began.elapsed());
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use terrace_testkit::needs;

    use super::*;

    #[test]
    fn both_ways_are_timed_and_the_cheaper_one_is_kept() {
        if !needs::moves() {
            return;
        }
        let fault = crate::userfault::open_fault("test").expect("a userfaultfd");
        for (block_bytes, huge) in [(64 << 10, false), (256 << 10, false), (2 << 20, true)] {
            let costs = measure(&fault, block_bytes, huge).expect("timed");
            let bounds = Duration::from_nanos(100)..Duration::from_secs(1);
            assert!(bounds.contains(&costs.moved) && bounds.contains(&costs.copied), "{costs:?}");
            let first = cheaper(&fault, block_bytes, huge);
            assert_eq!(cheaper(&fault, block_bytes, huge), first);
        }
        let (fast, slow) = (Duration::from_micros(1), Duration::from_micros(2));
        assert_eq!(Costs { moved: fast, copied: slow }.cheaper(), Method::Move);
        assert_eq!(Costs { moved: slow, copied: fast }.cheaper(), Method::Copy);
    }
}
