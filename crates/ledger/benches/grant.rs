//! Cost of a grant with its return, by one thread and by two that share a consumer.

use divan::Bencher;
use terrace_ledger::{Class, Ledger};

fn main() {
    divan::main();
}

#[divan::bench(threads = [1, 2])]
fn grant_and_return(bencher: Bencher<'_, '_>) {
    let ledger = Ledger::new(1 << 40);
    let consumer = ledger.register("query", Class::Query);
    bencher.bench(|| {
        let granted = consumer.try_grow(4096);
        consumer.shrink(4096);
        granted
    });
}

#[divan::bench]
fn register_and_drop(bencher: Bencher<'_, '_>) {
    let ledger = Ledger::new(1 << 40);
    bencher.bench(|| ledger.register("query", Class::Query));
}
