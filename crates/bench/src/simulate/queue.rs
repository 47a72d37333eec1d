//! Queue of a tenant's sorts, of which the first one runs and the others wait.

use std::collections::VecDeque;

use terrace_ledger::Class;

use terrace_market::sla::Request;
use terrace_market::{Curve, Performance, Run, SortModel, Spill, Standing, Tail};
use terrace_sys::number::float;
use terrace_sys::size::to_u64;

use super::trace::Trace;

/// Queue of the sorts of one tenant.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) tenant: usize,
    jobs: VecDeque<Job>,
    /// Grant of the last interval in bytes.
    grant_bytes: u64,
    /// Latency and I/Os of each sort that ended in this interval.
    pub(super) requests: Vec<Request>,
}

#[derive(Debug)]
struct Job {
    arrived_nanos: u64,
    input_bytes: u64,
    run: Run,
    /// Outstanding write-back before the sort can continue, in seconds.
    owed_seconds: f64,
}

/// Minimum memory of a sort in pages; with less the number of merge passes grows steeply.
const FLOOR_PAGES: u64 = 16;

impl Queue {
    pub(super) fn new(tenant: usize) -> Self {
        Self { tenant, jobs: VecDeque::new(), grant_bytes: 0, requests: Vec::new() }
    }

    /// Adds a sort that arrived at `at_nanos`.
    pub(super) fn push(&mut self, trace: &Trace, at_nanos: u64, pages: u64) {
        let input_bytes = pages.saturating_mul(trace.page_bytes);
        let model = SortModel { input_bytes, page_bytes: trace.page_bytes, spill: Spill::Excess };
        let cpu_nanos = trace.tenants[self.tenant].cpu_nanos.saturating_mul(pages);
        let run = Run {
            ios: model.ios(),
            cpu_seconds: float(cpu_nanos) / 1e9,
            seconds_per_io: float(trace.sequential_nanos) / 1e9,
            done: 0.0,
            elapsed_seconds: 0.0,
        };
        self.jobs.push_back(Job { arrived_nanos: at_nanos, input_bytes, run, owed_seconds: 0.0 });
    }

    /// True if no sort is running or waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the demand of the running sort in bytes.
    pub(super) fn demand_bytes(&self) -> u64 {
        self.jobs.front().map_or(0, |job| job.input_bytes)
    }

    /// Sets the grant of the running sort. If it shrinks, the pages that the sort has filled beyond
    /// it are written back before the sort continues.
    pub(super) fn resize(&mut self, trace: &Trace, bytes: u64) {
        if let Some(job) = self.jobs.front_mut() {
            let read = float(job.input_bytes) * (job.run.done * 2.0).min(1.0);
            let given = (float(self.grant_bytes).min(read) - float(bytes)).max(0.0);
            let pages = given / float(trace.page_bytes.max(1));
            job.owed_seconds += pages * job.run.seconds_per_io;
        }
        self.grant_bytes = bytes;
    }

    /// Advances the sorts from one time to another.
    pub(super) fn advance(&mut self, from_nanos: u64, to_nanos: u64) {
        let mut now = float(from_nanos) / 1e9;
        let end = float(to_nanos) / 1e9;
        while let Some(job) = self.jobs.front_mut() {
            now = now.max(float(job.arrived_nanos) / 1e9);
            let left = job.owed_seconds + job.run.seconds_left(self.grant_bytes);
            if now + left > end {
                job.work((end - now).max(0.0), self.grant_bytes);
                return;
            }
            now += left;
            let seconds = now - float(job.arrived_nanos) / 1e9;
            let ios = job.run.ios.at(self.grant_bytes);
            self.requests.push(Request { seconds, ios });
            self.jobs.pop_front();
        }
    }

    /// Returns the consumer's state for the broker. Waiting sorts count as requests too, since they
    /// gain as much as the running one.
    pub(super) fn standing(
        &self,
        trace: &Trace,
        id: u64,
        now_nanos: u64,
        interval_seconds: f64,
    ) -> Standing {
        let tenant = &trace.tenants[self.tenant];
        let sla = Some(std::sync::Arc::new(tenant.sla.clone()));
        let idle = Standing::new(id, tenant.name.as_str(), Class::Query);
        let Some(job) = self.jobs.front() else {
            let nothing = Some(Performance {
                ios: Curve::flat(0.0),
                base_seconds: 0.0,
                seconds_per_io: 0.0,
                tail: Tail::Certain,
            });
            return Standing { performance: nothing, demand_bytes: 0, requests: 0.0, sla, ..idle };
        };
        let elapsed_seconds = float(now_nanos.saturating_sub(job.arrived_nanos)) / 1e9;
        let run = Run { elapsed_seconds, ..job.run.clone() };
        let share = run.requests(self.grant_bytes, interval_seconds);
        Standing {
            held_bytes: self.grant_bytes,
            floor_bytes: FLOOR_PAGES * trace.page_bytes,
            demand_bytes: job.input_bytes,
            performance: Some(run.performance()),
            requests: share * float(to_u64(self.jobs.len())),
            sla,
            ..idle
        }
    }
}

impl Job {
    fn work(&mut self, seconds: f64, bytes: u64) {
        let writing = self.owed_seconds.min(seconds);
        self.owed_seconds -= writing;
        let whole = self.run.seconds(bytes).max(1e-9);
        self.run.done = (self.run.done + (seconds - writing) / whole).min(1.0);
    }
}
