//! A table of words in a B-tree over pages.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::ops::{Bound, ControlFlow};

use terrace_index::{BTree, IndexError, TreeConfig};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

const TEXT: &str = "the quick brown fox jumps over the lazy dog and the dog sleeps on";

fn main() -> Result<(), IndexError> {
    let pool = Pool::new(PoolConfig::new("words", Ledger::new(64 << 20)))?;
    let tree = BTree::new(pool.create_space("words", None)?, &TreeConfig { page_bytes: 4096 })?;
    for word in TEXT.split_whitespace() {
        // Values of a fixed length are changed in place.
        if !tree.insert(word.as_bytes(), &1_u64.to_le_bytes())? {
            tree.update(word.as_bytes(), |count| count[0] += 1)?;
        }
    }
    println!("{} words, from `l` on:", tree.len());
    tree.scan(Bound::Included(b"l"), |word, count| {
        println!("{:>8}  {}", String::from_utf8_lossy(word), count[0]);
        ControlFlow::Continue(())
    })?;
    println!("{:?}", tree.shape()?);
    Ok(())
}
