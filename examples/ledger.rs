//! A cache and a query that share one budget.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::VecDeque;

use terrace_ledger::{Class, Consumer, Denied, Ledger};

const MIB: u64 = 1 << 20;

/// A cache that evicts its oldest block when the ledger denies memory for a new one.
struct Cache {
    account: Consumer,
    blocks: VecDeque<Vec<u8>>,
}

impl Cache {
    fn insert(&mut self, block: Vec<u8>) -> Result<(), Denied> {
        while let Err(denied) = self.account.try_grow(block.len() as u64) {
            self.evict().ok_or(denied)?;
        }
        self.blocks.push_back(block);
        Ok(())
    }

    fn evict(&mut self) -> Option<()> {
        let oldest = self.blocks.pop_front()?;
        self.account.shrink(oldest.len() as u64);
        Some(())
    }
}

fn main() -> Result<(), Denied> {
    let ledger = Ledger::new(64 * MIB);
    let account = ledger.register("cache", Class::Pool);
    let mut cache = Cache { account, blocks: VecDeque::new() };
    for _ in 0..100 {
        cache.insert(vec![0; 1 << 20])?;
    }
    println!("the cache has {} of 100 blocks", cache.blocks.len());

    // The query takes what it needs from the cache, and gives it back when it ends.
    let query = ledger.register("query", Class::Query);
    while let Err(denied) = query.try_grow(24 * MIB) {
        println!("{denied}");
        if cache.evict().is_none() {
            return Err(denied);
        }
    }
    for consumer in ledger.consumers() {
        println!("{consumer:?}");
    }
    drop(query);
    println!("{:?}", ledger.totals());
    Ok(())
}
