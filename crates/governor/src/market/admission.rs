//! Admission control: suspends the youngest queries when memory cannot hold the minimum of all of
//! them.
//!
//! Every operator may hold a minimum whatever the others hold, or none would make progress. With
//! enough concurrent queries these minima use up all memory, and all queries wait for frames that
//! are never released. So the youngest query that holds a significant amount is suspended, one
//! after the other, until the older ones have room; it is resumed when there is room again or no
//! other query is left, and after [`HELD_MAX`] in any case. A query of a higher priority counts as
//! older here.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::preempt::Runner;

/// Time that a suspended query has to release what it holds before the next one is suspended, and
/// that a resumed query has to take memory.
const PACE: Duration = Duration::from_millis(100);

/// Maximum time that a query is suspended: older queries may have readers that never return.
const HELD_MAX: Duration = Duration::from_secs(30);

/// Time after that for which it cannot be suspended again.
const RESPITE: Duration = Duration::from_secs(10);

/// Level of obtainable memory: bytes that are free or that the pool would give up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Almost none: less than operators limited by the thresholds leave free.
    None,
    Some,
    /// As much as those leave free, however many there are.
    Ample,
}

impl Room {
    /// Share of the budget below which there is none, and above which it is ample.
    const NONE_SHARE: u64 = 16;
    const AMPLE_SHARE: u64 = 8;

    pub(super) fn of(obtainable_bytes: u64, budget_bytes: u64) -> Self {
        match obtainable_bytes {
            bytes if bytes < budget_bytes / Self::NONE_SHARE => Self::None,
            bytes if bytes > budget_bytes / Self::AMPLE_SHARE => Self::Ample,
            _ => Self::Some,
        }
    }
}

/// A victim holds at least 1 / `VICTIM_PART` of the budget.
const VICTIM_PART: u64 = 64;

/// Suspended queries with their start times, and the cool-down of those recently suspended.
#[derive(Debug, Default)]
pub(super) struct Admission {
    held: BTreeMap<u64, Instant>,
    respites: BTreeMap<u64, Instant>,
    /// Time of the last suspension or resumption.
    last: Option<Instant>,
}

/// Decisions of [`Admission::decide`]: a query to suspend, if any, and those to resume, by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) suspend: Option<u64>,
    pub(super) resume: Vec<u64>,
}

impl Admission {
    /// Returns true if it has suspended this query.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.held.contains_key(&id)
    }

    /// Forgets a query that was resumed by other means.
    pub(super) fn forget(&mut self, id: u64) {
        self.held.remove(&id);
    }

    /// Returns the queries to suspend and to resume now, under a budget of which
    /// `obtainable_bytes` are obtainable.
    pub(super) fn decide(
        &mut self,
        runners: &[Runner],
        (obtainable_bytes, budget_bytes): (u64, u64),
        now: Instant,
    ) -> Orders {
        let room = Room::of(obtainable_bytes, budget_bytes);
        let is_there = |id: &u64| runners.iter().any(|runner| runner.id == *id);
        self.held.retain(|id, _| is_there(id));
        self.respites.retain(|id, until| is_there(id) && *until > now);
        let mut orders = Orders::default();
        let late = |since: &Instant| now.saturating_duration_since(*since) >= HELD_MAX;
        let patient: Vec<u64> =
            self.held.iter().filter(|(_, since)| late(since)).map(|(id, _)| *id).collect();
        for id in patient {
            self.held.remove(&id);
            self.respites.insert(id, now + RESPITE);
            orders.resume.push(id);
        }
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PACE) {
            return orders;
        }
        // The oldest comes first.
        let least = (budget_bytes / VICTIM_PART).max(1);
        let mut by_age: Vec<&Runner> = runners.iter().collect();
        by_age.sort_by_key(|runner| (Reverse(runner.priority), runner.id));
        let holders = by_age.iter().filter(|it| it.held_bytes >= least && !self.holds(it.id));
        match room {
            Room::None if holders.clone().count() > 1 => {
                let victim = holders.rev().find(|it| !self.respites.contains_key(&it.id));
                orders.suspend = victim.map(|it| it.id);
            }
            _ if room == Room::Ample || holders.clone().next().is_none() => {
                let next = by_age.iter().find(|it| self.held.contains_key(&it.id));
                orders.resume.extend(next.map(|it| it.id));
            }
            _ => {}
        }
        for id in &orders.resume {
            self.held.remove(id);
        }
        if let Some(id) = orders.suspend {
            self.held.insert(id, now);
        }
        if orders != Orders::default() {
            self.last = Some(now);
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: (u64, u64) = (15, 256);
    const SOME: (u64, u64) = (32, 256);
    const AMPLE: (u64, u64) = (33, 256);

    fn runner(id: u64, priority: u8, held_bytes: u64) -> Runner {
        Runner { id, priority, need: None, held_bytes, late_in: None, is_scheduled: false }
    }

    fn suspend(id: u64) -> Orders {
        Orders { suspend: Some(id), resume: Vec::new() }
    }

    fn resume(id: u64) -> Orders {
        Orders { suspend: None, resume: vec![id] }
    }

    #[test]
    fn the_youngest_waits_and_the_oldest_goes_on_first() {
        let (mut admission, begin) = (Admission::default(), Instant::now());
        let runners = [runner(1, 0, 5), runner(2, 0, 5), runner(3, 0, 3), runner(4, 1, 5)];
        let at = |steps: u32| begin + PACE * steps;
        assert_eq!(admission.decide(&runners, SOME, at(0)), Orders::default());
        assert_eq!(
            admission.decide(&runners, NONE, at(0)),
            suspend(2),
            "4 is urgent, 3 has little"
        );
        assert_eq!(admission.decide(&runners, NONE, begin), Orders::default(), "2 gives it back");
        assert_eq!(admission.decide(&runners, NONE, at(1)), suspend(1));
        let alone = admission.decide(&runners, NONE, at(2));
        assert_eq!(alone, Orders::default(), "one goes on whatever it holds");
        assert_eq!(admission.decide(&runners, SOME, at(3)), Orders::default());
        assert_eq!(admission.decide(&runners, AMPLE, at(4)), resume(1));
        assert_eq!(admission.decide(&runners, AMPLE, at(5)), resume(2));
    }

    #[test]
    fn it_goes_on_when_no_other_query_holds_anything() {
        let (mut admission, begin) = (Admission::default(), Instant::now());
        let both = [runner(1, 0, 5), runner(2, 0, 5)];
        assert_eq!(admission.decide(&both, NONE, begin), suspend(2));
        let own = [runner(2, 0, 0)];
        assert_eq!(admission.decide(&own, SOME, begin + PACE), resume(2));
    }

    #[test]
    fn no_query_waits_for_ever() {
        let (mut admission, begin) = (Admission::default(), Instant::now());
        let both = [runner(1, 0, 5), runner(2, 0, 5)];
        assert_eq!(admission.decide(&both, NONE, begin), suspend(2));
        let late = begin + HELD_MAX;
        let turned = Orders { suspend: Some(1), resume: vec![2] };
        assert_eq!(admission.decide(&both, NONE, late), turned, "2 has its turn");
        assert_eq!(admission.decide(&both, SOME, late + HELD_MAX), resume(1));
    }

    #[test]
    fn room_is_a_part_of_the_budget() {
        let room = |bytes| Room::of(bytes, 64);
        assert_eq!([room(3), room(4), room(8), room(9)].map(|it| it as u8), [0, 1, 1, 2]);
    }
}
