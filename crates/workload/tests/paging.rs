//! The workloads over a pool that is far smaller than their data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_pool::{Placement, Pool, PoolConfig};
use terrace_store::{MemoryBlocks, Store};
use terrace_tier::MemoryTier;
use terrace_workload::driver::{Length, Report, RunConfig, Workload, run};
use terrace_workload::random_read::{RandomRead, RandomReadConfig};
use terrace_workload::tpcc::{Scale, Tpcc, TpccConfig};
use terrace_workload::ycsb::{Mix, Popularity, Ycsb, YcsbConfig};

const MIB: u64 = 1 << 20;

/// Creates a pool of `dram_bytes` over an optional emulated tier of the same size and a store. The
/// placement alternates between the two kinds from one pool to the next.
fn pool(dram_bytes: u64, second_tier: bool) -> Pool {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let placement = Placement::ALL[COUNT.fetch_add(1, Ordering::Relaxed) % 2];
    placed(placement, dram_bytes, second_tier)
}

fn placed(placement: Placement, dram_bytes: u64, second_tier: bool) -> Pool {
    let mut config = PoolConfig::new("paging", Ledger::new(dram_bytes));
    if second_tier {
        config.memory.push(MemoryTier::emulated(dram_bytes, 0));
    }
    let store = Store::open(Arc::new(MemoryBlocks::new(256 * MIB)), "memory", 256 * MIB);
    config.store = Some(Arc::new(store.expect("opens")));
    config.overdraft_bytes = MIB;
    config.placement = placement;
    Pool::new(config).expect("opens")
}

/// Runs this many operations on four threads.
fn operate(workload: &impl Workload, pool: &Pool, operations: u64) -> Report {
    let config = RunConfig {
        threads: 4,
        warm_up: Duration::ZERO,
        length: Length::Operations(operations),
        interval: Duration::from_millis(50),
    };
    run(workload, pool, &config, &AtomicBool::new(false), &mut |_| ()).expect("runs")
}

#[test]
fn transactions_stay_consistent_while_pages_come_and_go() {
    for second_tier in [false, true] {
        let pool = pool(2 * MIB, second_tier);
        let scale =
            Scale { warehouses: 1, districts: 10, customers: 150, new_orders: 45, items: 5_000 };
        let config = TpccConfig {
            scale,
            load_threads: 2,
            page_bytes: 4096,
            seed: 9,
            read_ahead: second_tier,
        };
        let tpcc = Tpcc::load(&pool, &config, |_| ()).expect("loaded");
        let before = tpcc.check().expect("consistent after loading");
        let report = operate(&tpcc, &pool, 3_000);
        let after = tpcc.check().expect("consistent after running");
        assert_eq!(after.orders, before.orders + report.total.operations[0]);
        assert!(after.ytd_cents > before.ytd_cents && after.new_orders > 0);
        assert!(report.total.loads > 100 && report.total.write_backs > 100, "{:?}", report.total);
        let moved = |tier: usize| report.total.tiers[tier].demoted;
        assert!(!second_tier || moved(1) > 100, "{:?}", report.total);
        let resident: u64 = report.total.tiers.iter().map(|tier| tier.resident_bytes).sum();
        assert!(resident > 0 && resident <= 5 * MIB, "{resident}");
    }
}

#[test]
fn transactions_go_on_while_dram_shrinks_to_a_quarter_and_grows_back() {
    for placement in Placement::ALL {
        let pool = placed(placement, 8 * MIB, true);
        let scale =
            Scale { warehouses: 1, districts: 10, customers: 150, new_orders: 45, items: 5_000 };
        let config =
            TpccConfig { scale, load_threads: 2, page_bytes: 4096, seed: 4, read_ahead: false };
        let tpcc = Tpcc::load(&pool, &config, |_| ()).expect("loaded");
        let before = tpcc.check().expect("consistent after loading");
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(|| operate(&tpcc, &pool, 6_000));
            for mib in [2, 8, 2, 8] {
                pool.resize(0, mib * MIB).expect("resized");
                assert_eq!(pool.stats().tiers[0].capacity_bytes, mib * MIB);
                assert!(pool.dram_bytes() <= mib * MIB);
                std::thread::sleep(Duration::from_millis(20));
            }
            running.join().expect("no panic")
        });
        let after = tpcc.check().expect("consistent after running");
        assert_eq!(after.orders, before.orders + report.total.operations[0]);
    }
}

#[test]
fn every_tuple_is_found_in_a_small_pool() {
    for batch in [1, 32] {
        let pool = pool(MIB, false);
        let config = RandomReadConfig { tuples: 20_000, batch, page_bytes: 4096, seed: 3 };
        let tuples = RandomRead::load(&pool, config, |_| ()).expect("loaded");
        tuples.check_all().expect("all there");
        let report = operate(&tuples, &pool, 8_000);
        assert!(report.total.count() >= 8_000 && report.total.loads > 1_000);
        let sum: u64 = report.samples.iter().map(|sample| sample.loads).sum();
        assert_eq!(sum, report.total.loads);
    }
}

#[test]
fn every_mix_runs_in_a_small_pool() {
    for mix in Mix::ALL {
        let pool = pool(MIB, true);
        let config = YcsbConfig {
            records: 25_000,
            record_bytes: 100,
            mix,
            popularity: Popularity::Zipf(0.99),
            shift: None,
            page_bytes: 4096,
            seed: 3,
        };
        let ycsb = Ycsb::load(&pool, config, |_| ()).expect("loaded");
        let report = operate(&ycsb, &pool, 4_000);
        assert_eq!(report.total.count(), 4_000);
        assert!(report.total.loads > 0, "{mix:?}: {:?}", report.total);
    }
}
