//! Tiers on memory nodes. A machine with one node has all tiers on it, and the kernel moves
//! nothing; the lab runs these tests on machines with several.

use std::time::Instant;

use super::common::{MIB, config, space, store};
use super::conformance::keeps_every_byte;
use super::model::churn;
use terrace_pool::Pool;
use terrace_sys::numa;
use terrace_testkit::{needs, soak_time};
use terrace_tier::MemoryTier;

/// Returns a pool with a tier of 2 MiB on every memory node but the first, or on the only one.
fn pool_over_nodes(dram: u64) -> Pool {
    let nodes = numa::nodes();
    let far = if nodes.len() > 1 { &nodes[1..] } else { &nodes };
    let mut config = config(dram, &[], Some(store(64 * MIB)));
    config.memory.extend(far.iter().map(|node| MemoryTier {
        name: format!("node{}", node.id),
        capacity_bytes: 2 * MIB,
        node: Some(node.id),
        latency_ns: 0,
    }));
    Pool::new(config).expect("the pool opens")
}

#[test]
fn every_byte_is_kept_over_the_nodes_of_the_machine() {
    if !needs::nodes() {
        return;
    }
    let pool = pool_over_nodes(4 * MIB);
    keeps_every_byte(&space(&pool));
    let stats = pool.stats();
    assert!(stats.tiers[1].demoted > 0, "no page changed its node: {stats:?}");
}

#[test]
fn churn_over_the_nodes_of_the_machine_loses_nothing() {
    if !needs::nodes() {
        return;
    }
    churn(&pool_over_nodes(4 * MIB), Instant::now() + soak_time() / 2);
}
