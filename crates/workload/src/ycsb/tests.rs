use terrace_ledger::Ledger;
use terrace_pool::PoolConfig;
use terrace_sys::size::to_usize;

use super::*;

const RECORDS: u64 = 5_000;

fn config(mix: Mix, popularity: Popularity) -> YcsbConfig {
    YcsbConfig {
        records: RECORDS,
        record_bytes: 100,
        mix,
        popularity,
        shift: None,
        page_bytes: 4096,
        seed: 2,
    }
}

fn ycsb(mix: Mix, popularity: Popularity) -> Ycsb {
    let pool = Pool::new(PoolConfig::new("ycsb", Ledger::new(32 << 20))).expect("opens");
    Ycsb::load(&pool, config(mix, popularity), |_| ()).expect("loaded")
}

#[test]
fn operations_come_as_often_as_the_workloads_say() {
    // Percentages of reads, updates, inserts, scans and read-modify-writes.
    let expected = [
        (Mix::A, [50, 50, 0, 0, 0]),
        (Mix::B, [95, 5, 0, 0, 0]),
        (Mix::C, [100, 0, 0, 0, 0]),
        (Mix::D, [95, 0, 5, 0, 0]),
        (Mix::E, [0, 0, 5, 95, 0]),
        (Mix::F, [50, 0, 0, 0, 50]),
    ];
    for (mix, percents) in expected {
        let ycsb = ycsb(mix, Popularity::Zipf(0.99));
        let mut client = ycsb.worker();
        let mut counts = [0_u64; 5];
        for _ in 0..4_000 {
            let step = ycsb.step(&mut client).expect("done");
            counts[step.kind] += step.operations;
        }
        for (count, percent) in counts.iter().zip(percents) {
            assert!(count.abs_diff(percent * 40) <= 160, "{mix:?} {counts:?}");
            assert!(percent > 0 || *count == 0, "{mix:?} {counts:?}");
        }
        assert_eq!(ycsb.records(), RECORDS + counts[2]);
    }
}

#[test]
fn updates_write_one_field_and_reads_see_it() {
    let ycsb = ycsb(Mix::A, Popularity::Uniform);
    let mut client = ycsb.worker();
    for _ in 0..200 {
        ycsb.update(&mut client, 17).expect("updated");
        let key = 17_u64.to_be_bytes();
        let belongs = |record: &[u8], field| ycsb.layout.belongs(record, 17, field);
        let all = |record: &[u8]| (0..FIELDS).all(|field| belongs(record, field));
        assert!(ycsb.table.read(&key, all).expect("read"));
    }
    let changed = ycsb.table.read(&17_u64.to_be_bytes(), |record| record != ycsb.layout.record(17));
    assert!(changed.expect("read"));
    assert!(ycsb.table.update(&17_u64.to_be_bytes(), |record| record.fill(0)).is_ok());
    let error = (0..50).find_map(|_| ycsb.read(&mut client, 17).err()).expect("damaged");
    assert!(error.to_string().contains("does not belong to the key"), "{error}");
}

#[test]
fn the_popular_are_scattered_or_the_newest() {
    let draws = |ycsb: &Ycsb| {
        let mut random = Random::new(9, 9);
        let mut counts = vec![0_u64; to_usize(RECORDS)];
        for _ in 0..100_000 {
            counts[to_usize(ycsb.choose(&mut random))] += 1;
        }
        counts
    };
    let sum: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-0.99)).sum();
    let expected = |rank: u64| 100_000.0 * (rank as f64 + 1.0).powf(-0.99) / sum;
    let (scattered, newest) =
        (ycsb(Mix::C, Popularity::Zipf(0.99)), ycsb(Mix::D, Popularity::Zipf(0.99)));
    let (first, second) = (draws(&scattered), draws(&newest));
    for rank in 0..20 {
        let drawn =
            [first[to_usize(scattered.scatter.place(rank))], second[to_usize(RECORDS - 1 - rank)]];
        let off = drawn.map(|drawn| (drawn as f64 - expected(rank)).abs());
        assert!(off.iter().all(|off| *off < 5.0 * expected(rank).sqrt()), "{rank}: {drawn:?}");
    }
    let uniform = draws(&ycsb(Mix::C, Popularity::Uniform));
    assert!(uniform.iter().all(|count| (1..60).contains(count)));
}

#[test]
fn a_scan_that_misses_a_record_is_an_error() {
    let ycsb = ycsb(Mix::E, Popularity::Uniform);
    let mut client = ycsb.worker();
    (0..300).for_each(|number| ycsb.scan(&mut client, number * 16).expect("complete"));
    assert!(ycsb.table.remove(&2_500_u64.to_be_bytes()).expect("removed"));
    let error = (0..50).find_map(|_| ycsb.scan(&mut client, 2_495).err()).expect("met the gap");
    assert!(error.to_string().contains("misses records"), "{error}");
}

#[test]
fn threads_insert_and_read_what_is_newest() {
    let ycsb = ycsb(Mix::D, Popularity::Zipf(0.99));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = ycsb.worker();
                (0..3_000).for_each(|_| {
                    ycsb.step(&mut client).expect("done");
                });
            });
        }
    });
    let mut client = ycsb.worker();
    assert!(ycsb.records() > RECORDS + 400);
    (0..ycsb.records()).for_each(|number| ycsb.read(&mut client, number).expect("there"));
}

#[test]
fn what_is_popular_moves_on() {
    let pool = Pool::new(PoolConfig::new("ycsb", Ledger::new(64 << 20))).expect("opens");
    let every = Duration::from_secs(3600);
    let config = YcsbConfig { shift: Some(every), ..config(Mix::C, Popularity::Zipf(0.99)) };
    let mut ycsb = Ycsb::load(&pool, config, |_| ()).expect("loaded");
    let mut favourite = |periods: u32| {
        ycsb.began = Instant::now().checked_sub(every * periods).expect("after the start");
        let (mut random, mut counts) = (Random::new(1, 0), vec![0; to_usize(RECORDS)]);
        (0..10_000).for_each(|_| counts[to_usize(ycsb.choose(&mut random))] += 1);
        (0..RECORDS).max_by_key(|number| counts[to_usize(*number)]).expect("records")
    };
    let favourites = [0, 1, 2, 7].map(&mut favourite);
    assert_eq!(favourites[0], favourites[3], "after seven shifts");
    let step = RECORDS / u64::try_from(SHIFT_PARTS).expect("small");
    for pair in favourites[..3].windows(2) {
        assert_eq!((pair[1] + RECORDS - pair[0]) % RECORDS, step, "{favourites:?}");
    }
}

#[test]
fn impossible_records_are_refused() {
    let pool = Pool::new(PoolConfig::new("ycsb", Ledger::new(1 << 20))).expect("opens");
    let refused = |change: fn(&mut YcsbConfig)| {
        let mut config = config(Mix::A, Popularity::Uniform);
        change(&mut config);
        Ycsb::load(&pool, config, |_| ()).err().expect("refused").to_string()
    };
    assert!(refused(|config| config.records = 0).contains("at least one record"));
    assert!(refused(|config| config.record_bytes = 20).contains("from 30 to 2000"));
    assert!(refused(|config| config.record_bytes = 101).contains("not 101"));
    assert!(refused(|config| config.record_bytes = 2_010).contains("not 2010"));
    assert!(refused(|config| config.popularity = Popularity::Zipf(0.0)).contains("above 0"));
    assert!(refused(|config| config.shift = Some(Duration::ZERO)).contains("no time"));
    assert!("g".parse::<Mix>().is_err() && "B".parse::<Mix>().is_ok_and(|mix| mix == Mix::B));
}
