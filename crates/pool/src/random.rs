//! Pseudo-random numbers of the calling thread, for samples and chances.

use std::cell::Cell;

/// Returns a pseudo-random number that differs between calls and threads.
pub(crate) fn random() -> u64 {
    thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    STATE.with(|state| {
        // splitmix64, seeded by the address of the thread's own state.
        let seed = if state.get() == 0 { std::ptr::from_ref(state).addr() as u64 } else { 0 };
        let next = (state.get() ^ seed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

/// Returns true with this probability, drawn anew by every call.
pub(crate) fn chance(probability: f64) -> bool {
    // The upper 53 bits make a fraction that an f64 represents exactly.
    let drawn = (random() >> 11) as f64 / (1_u64 << 53) as f64;
    drawn < probability
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_as_likely_as_they_say() {
        let happened = (0..10_000).filter(|_| chance(0.3)).count();
        assert!((2_700..3_300).contains(&happened), "{happened} of 10,000");
        assert!(!chance(0.0) && chance(1.0));
    }
}
