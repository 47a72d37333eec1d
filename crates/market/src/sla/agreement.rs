//! SLAs: clauses and a priority.

use super::clause::{Clause, Metric, NANOS, Request};
use crate::{Curve, Performance, number::float};

/// An SLA: penalty as a function of latency or I/O, the sum of its clauses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sla {
    clauses: Vec<Clause>,
    priority: u8,
}

impl Sla {
    /// Returns an SLA without penalties.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the default SLA: 1 for each second of latency, so that the market minimizes the sum
    /// of latencies.
    #[must_use]
    pub fn per_second() -> Self {
        let second = Some(1_000_000_000);
        Self::of(vec![Clause {
            metric: Metric::Latency,
            percentile: None,
            limit: 0,
            penalty: 1.0,
            per: second,
            most: None,
        }])
    }

    /// Returns an SLA of these clauses with priority 0.
    #[must_use]
    pub fn of(clauses: Vec<Clause>) -> Self {
        Self { clauses, priority: 0 }
    }

    /// Returns this SLA with another priority. Penalties divide memory among consumers. When one
    /// cannot continue at all, consumers of a lower priority wait for it. The default is 0.
    #[must_use]
    pub fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Returns the priority.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Returns the lowest latency limit of the clauses, in seconds; `None` if latency is not
    /// limited.
    #[must_use]
    pub fn patience_seconds(&self) -> Option<f64> {
        let timed = self.clauses.iter().filter(|it| it.metric == Metric::Latency);
        timed.map(|clause| float(clause.limit) / NANOS).min_by(f64::total_cmp)
    }

    /// Returns the clauses.
    #[must_use]
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// Returns the penalty of the measured requests of one interval.
    #[must_use]
    pub fn charge(&self, requests: &[Request]) -> f64 {
        self.clauses.iter().map(|clause| clause.charge(requests)).sum()
    }

    /// Returns the expected penalty of a request with `bytes` of memory.
    #[must_use]
    pub fn expected(&self, performance: &Performance, bytes: u64) -> f64 {
        self.expected_of(performance, performance.ios.at(bytes))
    }

    /// Returns the penalty of `requests` requests as a function of bytes: the penalty curve (the
    /// "cost-memory curve" of the paper).
    ///
    /// To compare consumers, `requests` must refer to the same interval for all: for a cache, the
    /// requests that arrive in it; for an operator that will run for ten intervals, a tenth.
    #[must_use]
    pub fn curve(&self, performance: &Performance, requests: f64) -> Curve {
        performance.ios.map(|ios| self.expected_of(performance, ios) * requests.max(0.0))
    }

    fn expected_of(&self, performance: &Performance, ios: f64) -> f64 {
        self.clauses.iter().map(|clause| clause.expected(performance, ios)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Point, Tail};

    fn sla(text: &str) -> Sla {
        text.parse().expect("an SLA")
    }

    fn taking(milliseconds: &[f64]) -> Vec<Request> {
        let request = |ms: &f64| Request { seconds: ms / 1e3, ios: *ms };
        milliseconds.iter().map(request).collect()
    }

    /// Mean I/Os that fall from 100 of a millisecond each to none at 1000 bytes.
    fn performance(tail: Tail) -> Performance {
        let ios = Curve::new([Point::new(0, 100.0), Point::new(1000, 0.0)]).expect("a curve");
        Performance { ios, base_seconds: 0.010, seconds_per_io: 0.001, tail }
    }

    #[test]
    fn steps_lines_and_percentiles_are_charged() {
        let requests = taking(&[10.0, 20.0, 60.0, 120.0]);
        let charge = |text: &str| sla(text).charge(&requests);
        assert_eq!(charge("latency 50ms penalty 10"), 20.0);
        assert!((charge("latency 50ms penalty 10 per 10ms") - 80.0).abs() < 1e-9);
        assert!((charge("latency 50ms penalty 10 per 10ms max 30") - 40.0).abs() < 1e-9);
        assert_eq!(charge("latency p50 50ms penalty 10"), 0.0);
        assert_eq!(charge("latency p75 50ms penalty 10"), 40.0);
        assert_eq!(charge("io 100 penalty 3, io 15 penalty 1"), 6.0);
        assert_eq!(charge("none"), 0.0);
        assert_eq!(sla("latency p50 1ms penalty 1").charge(&[]), 0.0);
    }

    #[test]
    fn a_step_over_a_certain_curve_is_a_step() {
        let penalty = sla("latency 50ms penalty 10").curve(&performance(Tail::Certain), 2.0);
        let edge = 600;
        assert_eq!([0, edge - 1, edge, 1000].map(|at| penalty.at(at)), [20.0, 20.0, 0.0, 0.0]);
        let line = sla("latency 50ms penalty 1 per 10ms").curve(&performance(Tail::Certain), 1.0);
        assert!((line.at(0) - 6.0).abs() < 0.1 && line.at(600) < 0.05);
    }

    #[test]
    fn many_requests_miss_by_chance() {
        let spread = performance(Tail::Poisson);
        let step = sla("latency 10500us penalty 10");
        for bytes in [900, 990, 999] {
            let any = 1.0 - (-spread.ios.at(bytes)).exp();
            assert!((step.expected(&spread, bytes) - 10.0 * any).abs() < 1e-9, "{bytes}");
        }
        assert_eq!(step.expected(&spread, 1000), 0.0);
        let quantile = sla("latency p95 10500us penalty 10").curve(&spread, 1.0);
        let none = (0..=1000).find(|at| spread.ios.at(*at) <= -(0.95_f64.ln()));
        let edge = none.expect("at the end there is no I/O at all");
        assert_eq!((quantile.at(edge - 1), quantile.at(edge)), (10.0, 0.0));
    }

    #[test]
    fn the_mean_of_many_is_what_counting_gives() {
        let spread = performance(Tail::Poisson);
        let mean = spread.ios.at(960);
        for text in ["latency 12ms penalty 10", "latency 12500us penalty 1 per 10ms"] {
            let sla = sla(text);
            let mut chance = (-mean).exp();
            let mut exact = 0.0;
            for number in 0..60_u32 {
                let seconds = 0.010 + 0.001 * f64::from(number);
                exact += chance * sla.charge(&[Request { seconds: seconds - 1e-12, ios: 0.0 }]);
                chance *= mean / f64::from(number + 1);
            }
            let expected = sla.expected(&spread, 960);
            assert!((exact - expected).abs() < 1e-6, "{text}: {expected} for {exact}");
        }
    }

    #[test]
    fn without_an_sla_a_second_costs_one() {
        let penalty = Sla::per_second().curve(&performance(Tail::Certain), 3.0);
        assert!((penalty.at(0) - 0.33).abs() < 1e-9);
        assert!((penalty.at(1000) - 0.03).abs() < 1e-9);
    }
}
