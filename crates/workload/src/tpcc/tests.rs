use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

use super::load::Progress;
use super::rows::{customer, item, order, order_line};
use super::*;
use crate::driver::{Length, RunConfig, run};
use crate::table::Table;

/// A small database and its pool.
pub(super) struct Setup {
    pub(super) tpcc: Tpcc,
    pub(super) pool: Pool,
}

fn config(warehouses: u32, load_threads: usize) -> TpccConfig {
    let scale = Scale { warehouses, districts: 2, customers: 60, new_orders: 20, items: 200 };
    TpccConfig { scale, load_threads, page_bytes: 4096, seed: 42, read_ahead: false }
}

pub(super) fn small(warehouses: u32) -> Setup {
    let pool = Pool::new(PoolConfig::new("tpcc", Ledger::new(64 << 20))).expect("opens");
    let tpcc = Tpcc::load(&pool, &config(warehouses, 2), |_| ()).expect("loaded");
    Setup { tpcc, pool }
}

#[test]
fn the_data_depends_on_the_seed_alone() {
    let rows = |threads, seed| {
        let pool = Pool::new(PoolConfig::new("tpcc", Ledger::new(64 << 20))).expect("opens");
        let config = TpccConfig { seed, ..config(3, threads) };
        let seen = Mutex::new(Vec::new());
        let observe = |progress: Progress| seen.lock().expect("lives").push(progress.warehouses);
        let tpcc = Tpcc::load(&pool, &config, observe).expect("loaded");
        let mut seen = seen.into_inner().expect("lives");
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3]);
        let mut rows = Vec::new();
        for table in [&tpcc.customer, &tpcc.stock, &tpcc.item, &tpcc.history, &tpcc.order_line] {
            let see = |key: &[u8], row: &[u8]| {
                rows.push((key.to_vec(), row.to_vec()));
                std::ops::ControlFlow::Continue(())
            };
            table.scan(&[], &[], see).expect("scanned");
        }
        rows
    };
    let first = rows(1, 5);
    assert!(first.len() > 3 * 2 * 60 * 7);
    assert!(first == rows(3, 5));
    assert!(first != rows(1, 6));
}

#[test]
fn there_is_as_much_of_everything_as_specified() {
    let Setup { tpcc, .. } = small(3);
    let count = |table: &Table| {
        let mut count = 0;
        let see = |_: &[u8], _: &[u8]| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        table.scan(&[], &[], see).expect("scanned");
        count
    };
    let small = [&tpcc.warehouse, &tpcc.district, &tpcc.item, &tpcc.stock].map(count);
    assert_eq!(small, [3, 6, 200, 600]);
    let customers = [&tpcc.customer, &tpcc.customer_by_name, &tpcc.history].map(count);
    assert_eq!(customers, [360; 3]);
    let orders = [&tpcc.order, &tpcc.order_by_customer, &tpcc.new_order].map(count);
    assert_eq!(orders, [360, 360, 120]);
    let figures = tpcc.check().expect("consistent");
    assert_eq!((figures.orders, figures.new_orders), (360, 120));
    assert!((3_200..4_000).contains(&figures.order_lines), "{figures:?}");
    assert_eq!(count(&tpcc.order_line), figures.order_lines);
    assert_eq!(figures.ytd_cents, 3 * 2 * 3_000_000);
    let specified = Scale::specified(7);
    assert_eq!((specified.items, specified.districts), (100_000, 10));
    assert_eq!((specified.customers, specified.new_orders), (3_000, 900));
}

#[test]
fn rows_are_as_specified() {
    let Setup { tpcc, .. } = small(1);
    let (mut bad, mut originals) = (0, 0);
    for number in 1..=60 {
        let see = |row: &[u8]| {
            assert_eq!(customer::BALANCE.get(row), -1_000);
            assert!((300..=500).contains(&customer::DATA.get(row).len()));
            assert_eq!(customer::LAST.get(row), text::Phrase::last_name(number - 1).bytes());
            bad += u32::from(customer::CREDIT.get(row) == b"BC");
        };
        tpcc.customer.read(&keys::customer(1, 1, number), see).expect("there");
        let order = keys::order(1, 2, number);
        let carrier = tpcc.order.read(&order, |row| order::CARRIER.get(row)).expect("there");
        let see = |row: &[u8]| (order_line::AMOUNT.get(row), order_line::DELIVERED.get(row));
        let line = tpcc.order_line.read(&keys::order_line(&order, 5), see).expect("there");
        let delivered = number <= 40;
        assert_eq!((carrier > 0, line.0 == 0, line.1 > 0), (delivered, delivered, delivered));
    }
    for number in 1..=200 {
        let see = |row: &[u8]| {
            assert!((100..=10_000).contains(&item::PRICE.get(row)));
            originals += u32::from(text::is_original(item::DATA.get(row)));
        };
        tpcc.item.read(&keys::item(number), see).expect("there");
    }
    assert!((1..20).contains(&bad) && (5..40).contains(&originals), "{bad} {originals}");
}

#[test]
fn transactions_come_as_often_as_they_should() {
    let Setup { tpcc, pool } = small(2);
    let warm_up = Duration::ZERO;
    let interval = Duration::from_secs(60);
    let config = RunConfig { threads: 3, warm_up, length: Length::Operations(6_000), interval };
    let stop = AtomicBool::new(false);
    let report = run(&tpcc, &pool, &config, &stop, &mut |_| ()).expect("runs");
    let expected = [2_673, 27, 2_580, 240, 240, 240];
    for (kind, expected) in expected.into_iter().enumerate() {
        let done = report.total.operations[kind];
        let off = done.abs_diff(expected);
        assert!(off * off <= 25 * expected, "{:?}", report.total.operations);
    }
    tpcc.check().expect("consistent");
}

#[test]
fn threads_that_wait_for_new_orders_leave_no_gap() {
    let pool = Pool::new(PoolConfig::new("tpcc", Ledger::new(64 << 20))).expect("opens");
    let mut config = config(1, 1);
    config.scale = Scale { districts: 1, new_orders: 0, ..config.scale };
    let tpcc = Tpcc::load(&pool, &config, |_| ()).expect("loaded");
    let before = tpcc.check().expect("consistent");
    let entering = AtomicU32::new(4);
    let enter = || {
        let mut terminal = tpcc.terminal();
        let mut enter = || tpcc.transact(&mut terminal, Transaction::NewOrder, 1);
        let done: Result<Vec<_>> = (0..300).map(|_| enter()).collect();
        entering.fetch_sub(1, Ordering::Relaxed);
        let done = done.expect("entered").into_iter();
        done.filter(|done| *done == Transaction::NewOrder).count() as u64
    };
    let deliver = || {
        let mut terminal = tpcc.terminal();
        while entering.load(Ordering::Relaxed) > 0 {
            tpcc.deliver(&mut terminal, 1).expect("delivered");
        }
    };
    let entered: u64 = std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(deliver)));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter)).collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).sum()
    });
    let between = tpcc.check().expect("no gap");
    let mut terminal = tpcc.terminal();
    (0..between.new_orders).for_each(|_| tpcc.deliver(&mut terminal, 1).expect("delivered"));
    let after = tpcc.check().expect("consistent");
    assert_eq!((after.orders, after.new_orders), (before.orders + entered, 0));
}

#[test]
fn a_failing_transaction_stops_the_run_and_names_what_failed() {
    let Setup { tpcc, pool } = small(1);
    assert!(tpcc.warehouse.remove(&keys::warehouse(1)).expect("removed"));
    let (warm_up, interval) = (Duration::ZERO, Duration::from_secs(1));
    let length = Length::Time(Duration::from_secs(600));
    let config = RunConfig { threads: 2, warm_up, length, interval };
    let error = run(&tpcc, &pool, &config, &AtomicBool::new(false), &mut |_| ());
    let error = error.expect_err("no warehouse").to_string();
    assert_eq!(error, "warehouse has no row of key 0001");
}

#[test]
fn impossible_scales_are_refused() {
    let pool = Pool::new(PoolConfig::new("tpcc", Ledger::new(1 << 20))).expect("opens");
    let refused = |change: fn(&mut TpccConfig)| {
        let mut config = config(1, 1);
        change(&mut config);
        Tpcc::load(&pool, &config, |_| ()).err().expect("refused").to_string()
    };
    assert!(refused(|config| config.scale.warehouses = 0).contains("1 to 65535 warehouses"));
    assert!(refused(|config| config.scale.districts = 11).contains("1 to 10 districts"));
    assert!(refused(|config| config.scale.new_orders = 61).contains("0 to 60 new orders"));
    assert!(refused(|config| config.scale.items = 0).contains("items"));
    assert!(refused(|config| config.load_threads = 0).contains("1 to 1024 threads"));
}
