//! Service level agreements (SLAs): penalties for slow requests.
//!
//! An [`Sla`] turns the latency or the I/O of a request into a penalty (Otaki et al., CIDR 2025,
//! section 2.1). Its text form:
//!
//! ```text
//! latency 50ms penalty 10                   a request over 50 ms costs 10
//! latency 2s penalty 1 per 500ms max 20     each 500 ms over 2 s costs 1, in proportion, up to 20
//! latency p95 50ms penalty 10               if the 95th percentile of an interval is over 50 ms,
//!                                           every request of the interval costs 10
//! io 1000 penalty 0.5 per 100               each 100 I/Os over 1000 cost 0.5
//! latency 50ms penalty 10, io 1000 penalty 1        the sum of both
//! latency 50ms penalty 10, priority 2       consumers of a lower priority wait for this one
//! none                                      no penalty
//! ```
//!
//! Composed with a [`Performance`](crate::Performance), an SLA gives the penalty as a function of
//! bytes: the penalty curve on which the market trades.
//!
//! ```
//! use terrace_market::{Performance, Sla, SortModel, Spill, Tail};
//!
//! let sla: Sla = "latency 5s penalty 2 per 1s".parse()?;
//! let sort = SortModel { input_bytes: 1 << 30, page_bytes: 1 << 18, spill: Spill::Everything };
//! let run = Performance {
//!     ios: sort.ios(),
//!     base_seconds: 4.0,
//!     seconds_per_io: 0.0005,
//!     tail: Tail::Certain,
//! };
//! let penalty = sla.curve(&run, 1.0);
//! assert_eq!(penalty.at(1 << 30), 0.0);
//! assert!((penalty.at(1 << 28) - 2.0 * (4.096 - 1.0)).abs() < 0.01);
//! # Ok::<(), terrace_market::SlaError>(())
//! ```

mod agreement;
mod clause;
mod poisson;
mod text;

pub use agreement::Sla;
pub use clause::{Clause, Metric, Request};
pub use text::SlaError;
