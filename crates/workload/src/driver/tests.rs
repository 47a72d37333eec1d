use std::sync::atomic::AtomicU64;

use terrace_ledger::Ledger;
use terrace_pool::PoolConfig;

use super::*;

/// Workload that sleeps briefly now and then, and fails or panics on demand.
struct Fake {
    made: AtomicU64,
    fail_after: u64,
    panics: bool,
}

impl Fake {
    fn new() -> Self {
        Self { made: AtomicU64::new(0), fail_after: u64::MAX, panics: false }
    }
}

impl Workload for Fake {
    type Worker = u64;

    fn kinds(&self) -> &'static [&'static str] {
        &["long", "short"]
    }

    fn latency_every(&self) -> u32 {
        3
    }

    fn worker(&self) -> u64 {
        0
    }

    fn step(&self, worker: &mut u64) -> Result<Step> {
        *worker += 1;
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        assert!(!(self.panics && made > 100), "as told");
        if made >= self.fail_after {
            return Err(WorkloadError::Config(format!("step {made} fails")));
        }
        if worker.is_multiple_of(100) {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(Step { kind: 0, operations: 5 });
        }
        Ok(Step { kind: 1, operations: 1 })
    }
}

fn pool() -> Pool {
    Pool::new(PoolConfig::new("driver", Ledger::new(1 << 20))).expect("opens")
}

fn config(length: Length) -> RunConfig {
    let interval = Duration::from_millis(20);
    RunConfig { threads: 3, warm_up: Duration::from_millis(10), length, interval }
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn samples_add_up_to_the_total() {
    let (fake, mut seen) = (Fake::new(), Vec::new());
    let time = Length::Time(Duration::from_millis(150));
    let mut observe = |sample: &Sample| seen.push(sample.clone());
    let report = run(&fake, &pool(), &config(time), &never(), &mut observe).expect("runs");
    assert!((4..=8).contains(&report.samples.len()), "{}", report.samples.len());
    assert_eq!(seen, report.samples[..report.samples.len() - 1]);
    for kind in 0..2 {
        let sum: u64 = report.samples.iter().map(|sample| sample.operations[kind]).sum();
        assert!(sum > 0 && sum == report.total.operations[kind]);
    }
    let seconds: f64 = report.samples.iter().map(|sample| sample.seconds).sum();
    assert!((seconds - report.total.seconds).abs() < 1e-6);
    assert!((0.14..1.0).contains(&seconds), "{seconds}");
    let longest = report.samples.iter().map(|sample| sample.latency.max_ns).max();
    assert_eq!(longest, Some(report.total.latency.max_ns));
    assert!(report.total.latency.max_ns >= 1_000_000 && report.total.latency.p50_ns < 1_000_000);
    let counted = report.total.operations[0] / 5 + report.total.operations[1];
    assert!(counted < fake.made.into_inner(), "the warm-up is not counted");
}

#[test]
fn a_run_of_operations_ends_with_the_last_one() {
    let mut config = config(Length::Operations(1_000));
    config.warm_up = Duration::ZERO;
    let fake = Fake::new();
    let report = run(&fake, &pool(), &config, &never(), &mut |_| ()).expect("runs");
    let done = report.total.count();
    let steps = report.total.operations[0] / 5 + report.total.operations[1];
    assert_eq!(steps, fake.made.into_inner(), "without a warm-up every step counts");
    assert!((1_000..1_000 + 3 * 5).contains(&done), "{done}");
}

#[test]
fn an_error_ends_the_run() {
    let fake = Fake { fail_after: 500, ..Fake::new() };
    let began = Instant::now();
    let hour = Length::Time(Duration::from_secs(3600));
    let error = run(&fake, &pool(), &config(hour), &never(), &mut |_| ());
    let error = error.expect_err("failed").to_string();
    assert!(error.starts_with("step 5"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_panic_ends_the_run() {
    let fake = Fake { panics: true, ..Fake::new() };
    let hour = Length::Time(Duration::from_secs(3600));
    let error = run(&fake, &pool(), &config(hour), &never(), &mut |_| ());
    assert!(matches!(error, Err(WorkloadError::Panicked)));
}

#[test]
fn whoever_sets_the_flag_stops_the_run() {
    let stop = never();
    let mut seen = 0;
    let mut observe = |_: &Sample| {
        seen += 1;
        stop.store(seen == 2, Ordering::Relaxed);
    };
    let hour = Length::Time(Duration::from_secs(3600));
    let report = run(&Fake::new(), &pool(), &config(hour), &stop, &mut observe).expect("runs");
    assert!((3..=4).contains(&report.samples.len()), "{}", report.samples.len());
}

#[test]
fn a_line_has_a_value_for_every_name() {
    let length = Length::Time(Duration::from_millis(50));
    let report = run(&Fake::new(), &pool(), &config(length), &never(), &mut |_| ());
    let report = report.expect("runs");
    let mut text = Vec::new();
    write_csv(&report, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), report.samples.len() + 1);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let at = |name: &str| lines[0].iter().position(|column| *column == name).expect(name);
    let (short, resident) = (at("short"), at("dram_resident_bytes"));
    for (line, sample) in lines[1..].iter().zip(&report.samples) {
        assert_eq!(line[short], sample.operations[1].to_string());
        assert_eq!(line[resident], sample.tiers[0].resident_bytes.to_string());
    }
}

#[test]
fn impossible_runs_are_refused() {
    let refused = |change: fn(&mut RunConfig)| {
        let mut config = config(Length::Operations(1));
        change(&mut config);
        let result = run(&Fake::new(), &pool(), &config, &never(), &mut |_| ());
        result.expect_err("refused").to_string()
    };
    assert!(refused(|config| config.threads = 0).contains("1 to 1024 threads"));
    assert!(refused(|config| config.interval = Duration::ZERO).contains("interval"));
}
