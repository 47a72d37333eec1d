//! Preemption: queries of a lower priority are stopped for one of a higher priority.
//!
//! A query that lacks the minimum of memory it can work with, or that will be late by its SLA,
//! stops queries of a *strictly lower* priority: they are suspended for memory, so that they unpin,
//! and paused for time, keeping what they hold, unless the schedule controls their time. They are
//! resumed when the query no longer needs that, at the latest after [`HELD_MAX`], and then cannot
//! be stopped again for a quarter of the time they were: so, as far as priorities are concerned, a
//! query runs for a fifth of its time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum time that a query is stopped for others at a time.
const HELD_MAX: Duration = Duration::from_secs(2);

/// A query that was stopped cannot be stopped again for the duration of that stop / `RESPITE`.
const RESPITE: u32 = 4;

/// Time that a query suspended for memory has to release it before the next one is suspended.
const PACE: Duration = Duration::from_millis(100);

/// Reason for which a query has others stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It was refused memory that it cannot work without.
    Memory,
    /// Much of the time that its SLA allows has passed: it needs the processor.
    Time,
}

/// A query that runs or was stopped by the market.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runner {
    pub(super) id: u64,
    pub(super) priority: u8,
    pub(super) need: Option<Need>,
    /// Bytes that it would release if it were suspended.
    pub(super) held_bytes: u64,
    /// Time after which it will need the processor, unless it does already.
    pub(super) late_in: Option<Duration>,
    /// True if the schedule controls its time: then it is stopped for memory only.
    pub(super) is_scheduled: bool,
}

/// Decisions of one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) stop: Vec<(u64, Need)>,
    pub(super) resume: Vec<u64>,
    /// Time after which to decide again.
    pub(super) again_in: Option<Duration>,
}

/// A query that was stopped.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Instant,
    /// The last need that it was stopped for, and the time of that.
    need: Need,
    asked: Instant,
}

/// Preempted queries with their start times, and the cool-down of those recently preempted.
#[derive(Debug, Default)]
pub(super) struct Preemption {
    held: BTreeMap<u64, Hold>,
    respites: BTreeMap<u64, Instant>,
}

impl Preemption {
    /// Returns the queries to stop and to resume now.
    pub(super) fn decide(&mut self, runners: &[Runner], now: Instant) -> Orders {
        let is_there = |id: &u64| runners.iter().any(|runner| runner.id == *id);
        self.held.retain(|id, _| is_there(id));
        self.respites.retain(|id, until| is_there(id) && *until > now);
        let mut orders = Orders { resume: self.release(runners, now), ..Orders::default() };
        let mut needy: Vec<&Runner> = runners
            .iter()
            .filter(|it| it.need.is_some() && !self.held.contains_key(&it.id))
            .collect();
        needy.sort_by_key(|runner| Reverse(runner.priority));
        for runner in needy {
            let Some(need) = runner.need else { continue };
            if need == Need::Memory && self.paced_until(now).is_some() {
                continue;
            }
            let victims = self.victims(runner, runners);
            let many = if need == Need::Memory { 1 } else { victims.len() };
            for id in victims.into_iter().take(many) {
                let since = self.held.get(&id).map_or(now, |hold| hold.since);
                self.held.insert(id, Hold { since, need, asked: now });
                orders.stop.push((id, need));
            }
        }
        orders.again_in = self.next_event(runners, now);
        orders
    }

    /// Releases queries that were stopped long enough, or that no other query needs stopped any
    /// more.
    fn release(&mut self, runners: &[Runner], now: Instant) -> Vec<u64> {
        let wanted = |id: u64| {
            let own = runners.iter().find(|runner| runner.id == id).map(|it| it.priority);
            let above = |it: &Runner| it.need.is_some() && Some(it.priority) > own;
            runners.iter().any(above)
        };
        let waited = |since: Instant| now.saturating_duration_since(since);
        let over: Vec<(u64, Instant)> = self
            .held
            .iter()
            .filter(|(id, hold)| waited(hold.since) >= HELD_MAX || !wanted(**id))
            .map(|(id, hold)| (*id, hold.since))
            .collect();
        for (id, since) in &over {
            self.held.remove(id);
            self.respites.insert(*id, now + waited(*since) / RESPITE);
        }
        over.into_iter().map(|(id, _)| id).collect()
    }

    /// Returns the queries that `runner` may have stopped: the lowest priority first, then the
    /// largest.
    fn victims(&self, runner: &Runner, runners: &[Runner]) -> Vec<u64> {
        let for_memory = runner.need == Some(Need::Memory);
        let is_open = |id: &u64| match self.held.get(id) {
            // A paused query keeps what it holds, so it may still be suspended for memory.
            Some(hold) => for_memory && hold.need == Need::Time,
            None => !self.respites.contains_key(id),
        };
        let helps = |it: &Runner| if for_memory { it.held_bytes > 0 } else { !it.is_scheduled };
        let free = |it: &&Runner| it.priority < runner.priority && helps(it) && is_open(&it.id);
        let mut victims: Vec<&Runner> = runners.iter().filter(free).collect();
        victims.sort_by_key(|it| (it.priority, Reverse(it.held_bytes), Reverse(it.id)));
        victims.into_iter().map(|it| it.id).collect()
    }

    /// Returns the time at which the next query may be suspended for memory, if it is not now.
    fn paced_until(&self, now: Instant) -> Option<Instant> {
        let asked = self.held.values().filter(|hold| hold.need == Need::Memory);
        let last = asked.map(|hold| hold.asked).max()?;
        Some(last + PACE).filter(|until| *until > now)
    }

    fn next_event(&self, runners: &[Runner], now: Instant) -> Option<Duration> {
        let least = runners.iter().map(|it| it.priority).min()?;
        let late = runners.iter().filter(|it| it.need.is_none() && it.priority > least);
        let late = late.filter_map(|it| it.late_in);
        let until = |moment: Instant| moment.saturating_duration_since(now);
        let ends = self.held.values().map(|hold| until(hold.since + HELD_MAX));
        let needed = runners.iter().any(|it| it.need.is_some());
        let respites = self.respites.values().filter(|_| needed).map(|end| until(*end));
        let pace = self.paced_until(now).filter(|_| needed).map(until);
        late.chain(ends).chain(respites).chain(pace).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(id: u64, priority: u8, need: Option<Need>) -> Runner {
        Runner { id, priority, need, held_bytes: id, late_in: None, is_scheduled: false }
    }

    #[test]
    fn the_least_important_and_largest_goes_first() {
        let (mut preemption, now) = (Preemption::default(), Instant::now());
        let runners = [
            runner(1, 0, None),
            runner(2, 0, None),
            runner(3, 1, None),
            runner(4, 2, Some(Need::Memory)),
        ];
        let orders = preemption.decide(&runners, now);
        assert_eq!((orders.stop, orders.again_in), (vec![(2, Need::Memory)], Some(PACE)));
        let orders = preemption.decide(&runners, now);
        assert!(orders.stop.is_empty(), "it may yet give what it holds: {orders:?}");
        let now = now + PACE;
        assert_eq!(preemption.decide(&runners, now).stop, [(1, Need::Memory)], "it still lacks");
        let now = now + PACE;
        assert_eq!(preemption.decide(&runners, now).stop, [(3, Need::Memory)]);
        let content =
            [runner(1, 0, None), runner(2, 0, None), runner(3, 1, None), runner(4, 2, None)];
        assert_eq!(preemption.decide(&content, now).resume, [1, 2, 3]);
    }

    #[test]
    fn who_holds_nothing_is_not_suspended_for_memory() {
        let (mut preemption, now) = (Preemption::default(), Instant::now());
        let nothing = Runner { held_bytes: 0, ..runner(1, 0, None) };
        let orders = preemption.decide(&[nothing, runner(2, 1, Some(Need::Memory))], now);
        assert!(orders.stop.is_empty(), "{orders:?}");
        let orders = preemption.decide(&[nothing, runner(2, 1, Some(Need::Time))], now);
        assert_eq!(orders.stop, [(1, Need::Time)]);
    }

    #[test]
    fn time_is_taken_from_all_and_no_query_is_suspended_by_its_equal() {
        let (mut preemption, now) = (Preemption::default(), Instant::now());
        let runners = [runner(1, 0, None), runner(2, 1, None), runner(3, 1, Some(Need::Time))];
        assert_eq!(preemption.decide(&runners, now).stop, [(1, Need::Time)]);
        let equals = [runner(5, 0, Some(Need::Time)), runner(6, 0, Some(Need::Memory))];
        assert_eq!(preemption.decide(&equals, now), Orders::default());
    }

    #[test]
    fn a_query_whose_time_is_the_schedules_is_stopped_for_memory_alone() {
        let (mut preemption, now) = (Preemption::default(), Instant::now());
        let scheduled = Runner { is_scheduled: true, ..runner(1, 0, None) };
        let writer = runner(2, 0, None);
        let runners = [scheduled, writer, runner(3, 1, Some(Need::Time))];
        assert_eq!(preemption.decide(&runners, now).stop, [(2, Need::Time)]);
        let runners = [scheduled, runner(3, 1, Some(Need::Memory))];
        assert_eq!(preemption.decide(&runners, now).stop, [(1, Need::Memory)]);
    }

    #[test]
    fn who_is_paused_can_be_asked_for_memory() {
        let (mut preemption, now) = (Preemption::default(), Instant::now());
        let hurried = [runner(1, 0, None), runner(2, 1, Some(Need::Time))];
        assert_eq!(preemption.decide(&hurried, now).stop, [(1, Need::Time)]);
        let starved = [runner(1, 0, None), runner(2, 1, Some(Need::Memory))];
        assert_eq!(preemption.decide(&starved, now).stop, [(1, Need::Memory)]);
        assert!(preemption.decide(&hurried, now).stop.is_empty(), "it waits already");
        let content = [runner(1, 0, None), runner(2, 1, None)];
        assert_eq!(preemption.decide(&content, now).resume, [1]);
    }

    #[test]
    fn no_query_waits_for_ever() {
        let (mut preemption, begin) = (Preemption::default(), Instant::now());
        let runners = [runner(1, 0, None), runner(2, 9, Some(Need::Time))];
        let (mut suspended, mut waited) = (None, Duration::ZERO);
        for step in 0..10_000 {
            let now = begin + Duration::from_millis(step);
            let orders = preemption.decide(&runners, now);
            if let Some(since) = suspended.filter(|_| !orders.resume.is_empty()) {
                waited += now.saturating_duration_since(since);
                suspended = None;
            }
            if !orders.stop.is_empty() {
                suspended = Some(now);
            }
            assert!(orders.again_in.is_some_and(|again| again <= HELD_MAX), "{orders:?}");
        }
        assert!(waited <= Duration::from_secs(8), "{waited:?} of ten seconds");
        assert!(waited >= Duration::from_secs(6), "{waited:?} of ten seconds");
    }
}
