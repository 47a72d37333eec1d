//! Hill climbing over the promotion and demotion settings: tries a neighbouring setting and keeps
//! it if it was cheaper.
//!
//! Spitfire anneals its probabilities over minutes (SIGMOD 2021, section 5). This policy computes
//! the cost of a fix from the pool's counters instead, which shows after a fifth of a second
//! whether a setting is better, independent of the callers and their rate. A *trial* measures three
//! epochs: with the present settings, with one knob a notch further, and with the present settings
//! again; an epoch before each measurement lets the change take effect. The step is kept if it was
//! cheaper than both epochs around it by more than noise: a cost that falls by itself, as while
//! memory fills, proves nothing. After a round of trials without success the next round is delayed
//! (back-off), twice as long each time, until the cost itself changes: then the load has changed,
//! and trials begin at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::score::{SampledScore, hotter_than_above};
use crate::random::chance;
use crate::residency::{Access, Interval, PageView, Residency};
use crate::sync::lock;

/// Factors over the mean page of the next faster tier at which a page is promoted, from hardly ever
/// to always.
const PROMOTIONS: [f32; 5] = [f32::INFINITY, 8.0, 4.0, 2.0, 1.0];
/// Probabilities that a victim is demoted a tier instead of leaving memory. 0 is not among them: a
/// tier that gets no pages would never show their value there.
const ADMISSIONS: [f64; 5] = [0.02, 0.1, 0.3, 0.6, 1.0];
/// Initial notches of both knobs: the default policy's settings.
const BEGINNING: [usize; 2] = [3, 4];
const NOTCHES: usize = PROMOTIONS.len();
const _: () = assert!(ADMISSIONS.len() == NOTCHES);

/// Minimum duration of an epoch, and minimum number of fixes in it.
const EPOCH: Duration = Duration::from_millis(200);
const EPOCH_FIXES: u64 = 1000;
/// Factor of the cost below which a setting is kept, and factor of change that indicates a new
/// load.
const GAIN: f64 = 0.97;
const PHASE: f64 = 1.3;
/// Maximum back-off between rounds of trials, in epochs.
const REST_MAX: u32 = 64;

/// Nanoseconds of a fix in DRAM, a read from the store, a write to the store, a move between tiers.
const FIX_NS: f64 = 100.0;
const LOAD_NS: f64 = 40_000.0;
const WRITE_NS: f64 = 10_000.0;
const MOVE_NS: f64 = 2_500.0;

/// Policy that learns the eagerness of promotion and demotion from the cost of fixes.
#[derive(Debug)]
pub struct Adaptive {
    knobs: [AtomicUsize; 2],
    climb: Mutex<Climb>,
}

/// A step of the search: one knob and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    knob: usize,
    up: bool,
}

const STEPS: [Step; 4] = [
    Step { knob: 0, up: false },
    Step { knob: 1, up: false },
    Step { knob: 0, up: true },
    Step { knob: 1, up: true },
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The epoch measures the cost of the present settings.
    Base,
    /// The epoch lets the new setting take effect and is not measured; the cost before the step.
    Settle(Step, f64),
    /// The epoch measures the cost of the step; the cost before the step.
    Trial(Step, f64),
    /// The epoch lets the old setting take effect again and is not measured; the costs before and
    /// of the step.
    Unsettle(Step, f64, f64),
    /// The epoch measures the old settings again; the costs before and of the step.
    After(Step, f64, f64),
}

#[derive(Debug)]
struct Climb {
    sum: Interval,
    phase: Phase,
    /// Index of the step to try next, and the number of steps that failed in a row.
    next: usize,
    failed: usize,
    /// Epochs until the next trial, and the back-off of the next round without success.
    rest: u32,
    put_off: u32,
    /// Cost at the end of the last trial.
    known: Option<f64>,
}

impl Default for Adaptive {
    fn default() -> Self {
        let climb = Climb {
            sum: Interval::default(),
            phase: Phase::Base,
            next: 0,
            failed: 0,
            rest: 0,
            put_off: 1,
            known: None,
        };
        Self { knobs: BEGINNING.map(AtomicUsize::new), climb: Mutex::new(climb) }
    }
}

/// Mean nanoseconds of a fix, including its share of loads, writes and moves.
fn cost(interval: &Interval) -> f64 {
    let fixes: u64 = interval.fixes.iter().map(|(fixes, _)| fixes).sum();
    let slow = interval.fixes.iter().map(|(fixes, extra_ns)| *fixes as f64 * *extra_ns as f64);
    let work = LOAD_NS * interval.loads as f64
        + WRITE_NS * interval.write_backs as f64
        + MOVE_NS * interval.moves as f64;
    FIX_NS + (slow.sum::<f64>() + work) / fixes.max(1) as f64
}

impl Interval {
    fn add(&mut self, other: &Interval) {
        self.elapsed += other.elapsed;
        self.fixes.resize(other.fixes.len(), (0, 0));
        for (sum, (fixes, extra_ns)) in self.fixes.iter_mut().zip(&other.fixes) {
            *sum = (sum.0 + fixes, *extra_ns);
        }
        self.loads += other.loads;
        self.write_backs += other.write_backs;
        self.moves += other.moves;
    }

    fn is_epoch(&self) -> bool {
        let fixes: u64 = self.fixes.iter().map(|(fixes, _)| fixes).sum();
        self.elapsed >= EPOCH && fixes >= EPOCH_FIXES
    }
}

impl Adaptive {
    /// Returns the notches of promotion and of demotion: 0 is the least eager, 4 the most.
    #[must_use]
    pub fn eagerness(&self) -> [usize; 2] {
        [0, 1].map(|knob| self.knob(knob))
    }

    fn knob(&self, knob: usize) -> usize {
        self.knobs[knob].load(Ordering::Relaxed)
    }

    /// Turns a knob by a notch; false if it is at its end.
    fn turn(&self, Step { knob, up }: Step) -> bool {
        let now = self.knob(knob);
        let then = if up { now + 1 } else { now.wrapping_sub(1) };
        let can = then < NOTCHES;
        if can {
            self.knobs[knob].store(then, Ordering::Relaxed);
        }
        can
    }

    /// Ends an epoch whose mean fix cost `cost` nanoseconds.
    fn end_epoch(&self, climb: &mut Climb, cost: f64) {
        match climb.phase {
            Phase::Base => {
                let is_new =
                    climb.known.is_some_and(|known| cost > known * PHASE || cost < known / PHASE);
                if is_new {
                    (climb.rest, climb.put_off, climb.failed) = (0, 1, 0);
                    climb.known = Some(cost);
                }
                if climb.rest > 0 {
                    climb.rest -= 1;
                    return;
                }
                self.begin_trial(climb, cost);
            }
            Phase::Settle(step, before) => climb.phase = Phase::Trial(step, before),
            Phase::Trial(step, before) if cost >= before * GAIN => {
                self.undo(step);
                self.fail(climb, before);
            }
            Phase::Trial(step, before) => {
                self.undo(step);
                climb.phase = Phase::Unsettle(step, before, cost);
            }
            Phase::Unsettle(step, before, tried) => climb.phase = Phase::After(step, before, tried),
            Phase::After(step, before, tried) if tried < before.min(cost) * GAIN => {
                // The direction was right, so the same step is tried again next.
                self.turn(step);
                climb.phase = Phase::Base;
                (climb.known, climb.failed, climb.put_off) = (Some(tried), 0, 1);
            }
            Phase::After(_, _, _) => self.fail(climb, cost),
        }
    }

    fn begin_trial(&self, climb: &mut Climb, cost: f64) {
        for _ in 0..STEPS.len() {
            let step = STEPS[climb.next];
            if self.turn(step) {
                climb.phase = Phase::Settle(step, cost);
                return;
            }
            climb.next = (climb.next + 1) % STEPS.len();
        }
    }

    fn undo(&self, Step { knob, up }: Step) {
        self.turn(Step { knob, up: !up });
    }

    /// Ends a trial that found no setting cheaper than `cost`.
    fn fail(&self, climb: &mut Climb, cost: f64) {
        climb.phase = Phase::Base;
        climb.known = Some(cost);
        climb.next = (climb.next + 1) % STEPS.len();
        climb.failed += 1;
        if climb.failed == STEPS.len() {
            climb.failed = 0;
            climb.rest = climb.put_off;
            climb.put_off = (climb.put_off * 2).min(REST_MAX);
        }
    }
}

impl Residency for Adaptive {
    fn score(&self, page: &PageView) -> f64 {
        SampledScore.score(page)
    }

    fn admit(&self, page: &PageView, lower_free: u64, lower_capacity: u64) -> bool {
        SampledScore.admit(page, lower_free, lower_capacity) && chance(ADMISSIONS[self.knob(1)])
    }

    fn promote(&self, page: &PageView, _access: Access) -> bool {
        hotter_than_above(page, PROMOTIONS[self.knob(0)])
    }

    fn observe(&self, interval: &Interval) {
        let mut climb = lock(&self.climb);
        climb.sum.add(interval);
        if climb.sum.is_epoch() {
            let cost = cost(&std::mem::take(&mut climb.sum));
            self.end_epoch(&mut climb, cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a load whose cost is least at `best` and rises by 20 % with every notch away from
    /// it.
    fn observe(policy: &Adaptive, best: [usize; 2], scale: f64, seconds: u32) {
        for _ in 0..seconds * 50 {
            let away: usize =
                policy.eagerness().iter().zip(best).map(|(now, best)| now.abs_diff(best)).sum();
            let loads = scale * 1.2_f64.powi(i32::try_from(away).expect("small"));
            policy.observe(&Interval {
                elapsed: Duration::from_millis(20),
                fixes: vec![(1000, 0), (500, 250)],
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                loads: loads as u64,
                ..Interval::default()
            });
        }
    }

    /// The settings without the step on trial.
    fn kept(policy: &Adaptive) -> [usize; 2] {
        let mut settings = policy.eagerness();
        if let Phase::Settle(step, _) | Phase::Trial(step, _) = lock(&policy.climb).phase {
            let knob = &mut settings[step.knob];
            *knob = if step.up { *knob - 1 } else { *knob + 1 };
        }
        settings
    }

    #[test]
    fn it_finds_the_best_settings_in_seconds_and_follows_the_load() {
        let policy = Adaptive::default();
        for (best, scale) in [([0, 1], 500.0), ([4, 4], 2000.0), ([2, 0], 400.0)] {
            observe(&policy, best, scale, 20);
            assert_eq!(kept(&policy), best);
        }
    }

    #[test]
    fn a_cost_that_falls_by_itself_speaks_for_no_step() {
        let policy = Adaptive::default();
        let mut loads = 4000.0;
        for _ in 0..3000 {
            loads *= 0.999;
            policy.observe(&Interval {
                elapsed: Duration::from_millis(20),
                fixes: vec![(1000, 0)],
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                loads: loads as u64,
                ..Interval::default()
            });
        }
        assert_eq!(kept(&policy), BEGINNING);
    }

    #[test]
    fn a_load_that_does_not_care_leaves_the_settings_alone() {
        let policy = Adaptive::default();
        for _ in 0..5000 {
            policy.observe(&Interval {
                elapsed: Duration::from_millis(20),
                fixes: vec![(1000, 0)],
                ..Interval::default()
            });
        }
        assert_eq!(kept(&policy), BEGINNING);
        assert_eq!(lock(&policy.climb).put_off, REST_MAX, "trials become rare");
    }

    #[test]
    fn what_is_done_for_a_fix_counts_as_its_cost() {
        let idle = Interval { fixes: vec![(100, 0)], ..Interval::default() };
        assert_eq!(cost(&idle), FIX_NS);
        let busy = Interval { fixes: vec![(50, 0), (50, 250)], loads: 1, ..Interval::default() };
        assert_eq!(cost(&busy), FIX_NS + 125.0 + LOAD_NS / 100.0);
        assert!(cost(&Interval::default()).is_finite());
    }
}
