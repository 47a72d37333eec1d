//! Figure 8: breakdown of the time of a get.
//!
//! The same gets are executed up to each of their steps, in alternation; the time of a step is the
//! difference of two medians. So no clock is read within a get, which would take about as long as
//! the get itself.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_objects::read_breakdown::{Part, read};
use terrace_objects::{ObjectId, ObjectStore};
use terrace_sys::process::cpu_time;

use super::config::Config;
use super::popularity::Popularity;
use super::store::{refused, store};
use crate::error::Result;
use crate::measure::{median, median_of};
use crate::report::{Bars, Series};

/// Bytes of the study's objects, and of the objects of the other figures.
const LONG: usize = 16 << 10;
const SHORT: usize = 32;
/// Number of objects that stay in the processor's first-level cache.
const HOT: usize = 256;
/// Number of reads per timing.
const READS: usize = 1 << 18;
/// Minimum number of repetitions.
const TURNS: usize = 3;
/// Statements of the study about its figure, which is printed without numbers.
const PUBLISHED: &str = "id and lock some 10 ns each, below 1 us by 128 threads; the rest, which \
                         is most, the bytes (16 kB)";

/// Length of the objects that are read, and number of objects they are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Case {
    /// Random objects of 32 bytes, drawn from the whole store.
    Cold,
    /// Random objects of 32 bytes, drawn from the few of [`HOT`].
    Hot,
    /// Random objects of 16 KiB, as in the study, drawn from the whole store.
    Long,
}

impl Case {
    const ALL: [Case; 3] = [Case::Cold, Case::Hot, Case::Long];

    fn name(self) -> &'static str {
        match self {
            Case::Cold => "32 B, cold",
            Case::Hot => "32 B, hot",
            Case::Long => "16 KiB, cold",
        }
    }
}

/// Median time of a get that ends after each of its steps, for objects of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Breakdown {
    case: Case,
    /// True if each read depends on the result of the one before.
    chained: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Step {
    step: &'static str,
    /// Time of a read that ends after this step.
    until_ns: f64,
    /// Time that this step adds to those before.
    adds_ns: f64,
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Ids => "ids",
        Part::Group => "group",
        Part::Version => "version",
        Part::Place => "place",
        Part::Copy => "copy",
        Part::Confirm => "confirm",
        Part::Get => "rest",
    }
}

impl Breakdown {
    fn of(case: Case, chained: bool, until_ns: &[f64]) -> Self {
        let mut before = 0.0;
        let steps = Part::ALL.into_iter().zip(until_ns).map(|(part, until_ns)| {
            let adds_ns = until_ns - before;
            before = *until_ns;
            Step { step: name(part), until_ns: *until_ns, adds_ns }
        });
        Self { case, chained, steps: steps.collect() }
    }

    fn name(&self) -> String {
        let order = if self.chained { "one after the other" } else { "overlapping" };
        format!("{}, {order}", self.case.name())
    }

    /// Formats the time of a get and of its steps; reading the ids belongs to the loop and not to
    /// the get.
    pub(super) fn cells(&self) -> [String; 5] {
        let (ids, whole) = (self.steps.first(), self.steps.last());
        let ids_ns = ids.map_or(0.0, |step| step.until_ns);
        let whole_ns = whole.map_or(0.0, |step| step.until_ns) - ids_ns;
        let steps = self.steps.iter().skip(1);
        let steps: Vec<String> =
            steps.map(|step| format!("{} {:.1}", step.step, step.adds_ns)).collect();
        let published = if self.case == Case::Long { PUBLISHED } else { "" };
        [
            "8".to_owned(),
            format!("get of {}", self.name()),
            "1".to_owned(),
            format!("{whole_ns:.1} ns: {}", steps.join(", ")),
            published.to_owned(),
        ]
    }
}

pub(super) fn measure(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<Vec<Breakdown>> {
    let mut found = Vec::new();
    for (len, cases) in [(SHORT, &Case::ALL[..2]), (LONG, &Case::ALL[2..])] {
        let (store, ids) = fill(config.objects, len)?;
        for case in cases {
            let (ids, reads) = match case {
                Case::Cold => (&ids[..], READS),
                Case::Hot => (&ids[..HOT.min(ids.len())], READS),
                Case::Long => (&ids[..], READS / 16),
            };
            let mut draws = Popularity::Uniform.draw(ids, 1);
            draws.truncate(reads);
            for chained in [true, false] {
                observe(&format!("the steps of a get of {}", case.name()));
                found.push(turns(config, &store, &draws, *case, chained));
            }
        }
    }
    Ok(found)
}

/// Fills a store with objects of length `len`: about as many bytes as `objects` short objects have.
fn fill(objects: u64, len: usize) -> Result<(ObjectStore, Vec<ObjectId>)> {
    let store = store()?;
    let (bytes, objects) = (vec![7; len], (objects / (len / SHORT) as u64).max(64));
    let ids = (0..objects).map(|_| store.create_with(&bytes));
    let ids = ids.collect::<std::result::Result<_, _>>().map_err(|error| refused(&error))?;
    Ok((store, ids))
}

/// Times the gets up to each of their steps, in turns, for the duration of a run, and returns the
/// medians.
fn turns(
    config: &Config,
    store: &ObjectStore,
    ids: &[ObjectId],
    case: Case,
    chained: bool,
) -> Breakdown {
    let mut took: [Vec<f64>; Part::ALL.len()] = Default::default();
    let (began, lasts) = (Instant::now(), config.lasts().min(Duration::from_secs(10)));
    let mut to = vec![0; LONG];
    while took[0].len() < TURNS || began.elapsed() < lasts {
        for (part, took) in Part::ALL.into_iter().zip(&mut took) {
            // Only this thread works, so processor time excludes the effect of other programs.
            let busy = cpu_time();
            black_box(read(store, ids, part, chained, &mut to));
            took.push((cpu_time() - busy).as_secs_f64() * 1e9 / ids.len() as f64);
        }
    }
    let until = took.map(|took| median(&took).unwrap_or(f64::NAN));
    Breakdown::of(case, chained, &until)
}

pub(super) fn medians(rows: &[&Breakdown]) -> Vec<Breakdown> {
    let cases = Case::ALL.into_iter().flat_map(|case| [(case, true), (case, false)]);
    let of = |(case, chained)| {
        let same = rows.iter().copied().filter(|row| (row.case, row.chained) == (case, chained));
        let same: Vec<&Breakdown> = same.collect();
        let until = (0..Part::ALL.len()).map(|n| median_of(&same, |row| row.steps[n].until_ns));
        (!same.is_empty()).then(|| Breakdown::of(case, chained, &until.collect::<Vec<_>>()))
    };
    cases.filter_map(of).collect()
}

pub(super) fn picture(rows: &[Breakdown]) -> Bars {
    let short = rows.iter().filter(|row| row.case != Case::Long);
    let values = |row: &Breakdown| {
        row.steps.iter().skip(1).map(|step| Some(step.adds_ns.max(0.0))).collect()
    };
    Bars {
        title: "Steps of a get".into(),
        unit: "ns".into(),
        categories: Part::ALL[1..].iter().map(|part| name(*part).to_owned()).collect(),
        series: short.map(|row| Series { name: row.name(), values: values(row) }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steps_add_is_what_a_get_takes() {
        let config = Config { objects: 3000, seconds: 0.0, rounds: 1, threads: 1 };
        let rows = measure(&config, &mut |_| {}).expect("room");
        let found = medians(&rows.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 6);
        for row in &found {
            let sum: f64 = row.steps.iter().map(|step| step.adds_ns).sum();
            let whole = row.steps.last().map_or(0.0, |step| step.until_ns);
            assert!(whole > 0.0 && (sum - whole).abs() < 1e-6, "{row:?}");
        }
        assert_eq!(picture(&found).series.len(), 4);
        assert!(found[0].cells()[3].contains("version "), "{:?}", found[0].cells());
    }
}
