//! Cost of a latch that no other thread holds: optimistic, shared and exclusive.

use divan::{Bencher, black_box};
use terrace_latch::{Latch, ParkingLot};

fn main() {
    divan::main();
}

#[divan::bench]
fn optimistic(bencher: Bencher<'_, '_>) {
    let latch = Latch::new();
    bencher.bench(|| black_box(&latch).version().map(|seen| latch.is_still(seen)));
}

#[divan::bench(threads = [1, 2])]
fn shared(bencher: Bencher<'_, '_>) {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    bencher.bench(|| latch.try_shared() && latch.release_shared(&lot));
}

#[divan::bench]
fn exclusive(bencher: Bencher<'_, '_>) {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    bencher.bench(|| {
        latch.exclusive(&lot);
        latch.release_exclusive(&lot);
    });
}
