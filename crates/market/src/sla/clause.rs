//! Clauses of SLAs, and the requests that they judge.

use super::poisson::Poisson;
use crate::{
    Performance, Tail,
    number::{count, float, float_len, index},
};

/// Nanoseconds per second.
pub(super) const NANOS: f64 = 1e9;

/// Measure of a request that an SLA clause limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Latency; amounts are nanoseconds.
    Latency,
    /// I/Os; amounts are their number.
    Io,
}

/// One condition of an SLA and its penalty.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// Measure that the clause limits.
    pub metric: Metric,
    /// Percentile (0 to 100, both excluded). With one, the clause applies to all requests of an
    /// interval together, by that percentile; without one, to each request.
    pub percentile: Option<f64>,
    /// Limit in nanoseconds or I/Os; up to it there is no penalty.
    pub limit: u64,
    /// Penalty beyond the limit, per request.
    pub penalty: f64,
    /// Step in nanoseconds or I/Os. With one, the penalty is due for each step beyond the limit, in
    /// proportion; without one, it is due once.
    pub per: Option<u64>,
    /// Maximum penalty of a request.
    pub most: Option<f64>,
}

/// Measurements of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Request {
    /// Latency in seconds.
    pub seconds: f64,
    /// I/Os.
    pub ios: f64,
}

impl Clause {
    /// Returns the penalty of the measured requests of one interval.
    pub(super) fn charge(&self, requests: &[Request]) -> f64 {
        let amount = |request: &Request| match self.metric {
            Metric::Latency => request.seconds * NANOS,
            Metric::Io => request.ios,
        };
        let Some(percentile) = self.percentile else {
            return requests.iter().map(|request| self.due(amount(request))).sum();
        };
        let mut amounts: Vec<f64> = requests.iter().map(amount).collect();
        amounts.sort_by(f64::total_cmp);
        let rank = (float_len(amounts.len()) * percentile / 100.0).ceil();
        let judged = amounts.get(index(count(rank)).saturating_sub(1));
        judged.map_or(0.0, |amount| self.due(*amount) * float_len(requests.len()))
    }

    /// Returns the penalty of an amount.
    fn due(&self, amount: f64) -> f64 {
        let beyond = amount - float(self.limit);
        if beyond <= 0.0 {
            return 0.0;
        }
        let due = self.per.map_or(self.penalty, |per| self.penalty * beyond / float(per.max(1)));
        due.min(self.most.unwrap_or(f64::INFINITY))
    }

    /// Returns the expected penalty of a request whose mean number of I/Os is `ios`.
    pub(super) fn expected(&self, performance: &Performance, ios: f64) -> f64 {
        let (base, each) = match self.metric {
            Metric::Latency => {
                (performance.base_seconds * NANOS, performance.seconds_per_io * NANOS)
            }
            Metric::Io => (0.0, 1.0),
        };
        let certain = performance.tail == Tail::Certain || each <= 0.0;
        match (Poisson::of(ios).filter(|_| !certain), self.percentile) {
            (None, _) => self.due(base + ios * each),
            (Some(number), Some(percentile)) => {
                self.due(base + number.quantile(percentile / 100.0) * each)
            }
            (Some(number), None) => self.expected_of_many(base, each, &number),
        }
    }

    /// Returns the expected penalty when each of a random number of I/Os adds `each` to `base`. The
    /// maximum is applied to the mean, which is a little more than the mean of the capped
    /// penalties.
    fn expected_of_many(&self, base: f64, each: f64, number: &Poisson) -> f64 {
        let room = float(self.limit) - base;
        if room < 0.0 {
            return self.due(base + number.mean() * each);
        }
        // Smallest number of I/Os that exceeds the limit.
        let many = (room / each).floor() + 1.0;
        let due = match self.per {
            None => self.penalty * number.at_least(many),
            Some(per) => {
                let sum = each * number.mean() * number.at_least(many - 1.0);
                let beyond = (sum - room * number.at_least(many)).max(0.0);
                self.penalty * beyond / float(per.max(1))
            }
        };
        due.min(self.most.unwrap_or(f64::INFINITY))
    }
}
