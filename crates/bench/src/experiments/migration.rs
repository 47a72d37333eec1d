//! Cost of migrating pages to another NUMA memory node.
//!
//! Measures copies and every migration call of the kernel, for calls of 1 to 2,048 pages, and shows
//! the mover that calibration picks, with the reason. The study of the n-tier buffer pool
//! (vmcache^n, 2026) reports up to 1.42 times the throughput of `move_pages` for its system call
//! `move_pages2`. Reports of the lab, from machines with several nodes, are shown beside this
//! machine's.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use terrace_sys::probe::Probe;

use self::survey::{BATCHES, Speed, Survey};
use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::report::{Bars, Grid, Line, Lines, Panel, Picture, Report, Series};
use crate::setting::{Finding, Setting};

mod survey;

/// Published gain of `move_pages2` over `move_pages`.
const PUBLISHED_GAIN: f64 = 1.42;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrationOptions {
    /// Report of `cargo x lab` that migration shows beside this machine's (repeatable)
    #[arg(long, value_name = "FILE")]
    lab: Vec<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    machines: Vec<String>,
}

/// A machine and its measurements.
#[derive(Clone, Debug, Serialize)]
struct Machine {
    name: String,
    #[serde(flatten)]
    survey: Survey,
}

/// Highest speed of each method on a machine, and the mover that calibration picked.
#[derive(Clone, Debug, Serialize)]
struct Best {
    machine: String,
    copy_pages_per_s: f64,
    move_pages_per_s: Option<f64>,
    move_pages2_per_s: Option<f64>,
    /// Speed of batched calls of `move_pages`, relative to single calls.
    batching_gain: Option<f64>,
    /// Best speed of `move_pages2`, relative to the best of `move_pages`.
    move_pages2_gain: Option<f64>,
    picked: String,
    why: String,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    machines: Vec<Best>,
    published_move_pages2_gain: f64,
}

/// Experiment `migration`: methods of moving pages between memory nodes.
pub(crate) struct Migration;

impl Experiment for Migration {
    const NAME: &'static str = "migration";
    const QUESTION: &'static str = "what does it cost to move pages to another memory node?";
    const COMMON: &'static [Common] = &[];
    type Options = MigrationOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if memory of a node is not available, or if a given file is not a report of the lab.
    async fn run(
        _: &Setting,
        options: &MigrationOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let reports = options.lab.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let survey = Survey::take(&Probe::detect(), observe)
            .map_err(|error| BenchError::Engine(format!("measuring migration: {error}")))?;
        let mut machines = vec![Machine { name: name("here", &survey), survey }];
        machines.extend(reports);
        finding(&machines)
    }
}

fn read(path: &Path) -> Result<Machine> {
    let text = std::fs::read(path).map_err(|source| BenchError::file("read", path, source))?;
    let survey: Survey = serde_json::from_slice(&text).map_err(|error| {
        BenchError::input(format!("{} is no report of the lab: {error}", path.display()))
    })?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok(Machine { name: name(&stem, &survey), survey })
}

fn name(place: &str, survey: &Survey) -> String {
    let nodes = if survey.nodes == 1 { "node" } else { "nodes" };
    format!("{place}, {} {nodes}, Linux {}", survey.nodes, survey.kernel)
}

/// Returns the speeds of the method `how` on a machine, in the order of [`BATCHES`]; copying has
/// only one.
fn speeds<'a>(survey: &'a Survey, how: &'a str) -> impl Iterator<Item = &'a Speed> {
    survey.results.iter().filter(move |speed| speed.how == how)
}

/// Returns the methods measured on a machine, in the order of its report.
fn ways(survey: &Survey) -> Vec<&str> {
    let mut ways: Vec<&str> = survey.results.iter().map(|speed| &*speed.how).collect();
    ways.dedup();
    ways
}

fn best(machine: &Machine) -> Best {
    let survey = &machine.survey;
    let most =
        |how: &'static str| speeds(survey, how).map(|speed| speed.pages_per_s).reduce(f64::max);
    let single = speeds(survey, "move_pages").next().map(|speed| speed.pages_per_s);
    let plain = most("move_pages");
    let better = [most("move_pages2"), most("move_pages2 async")];
    let better = better.into_iter().flatten().reduce(f64::max);
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    Best {
        machine: machine.name.clone(),
        copy_pages_per_s: most("copy").unwrap_or(f64::NAN),
        move_pages_per_s: plain,
        move_pages2_per_s: better,
        // On a machine with one node no page moves, and the speed of a call is meaningless.
        batching_gain: over(plain, single).filter(|_| survey.between_nodes),
        move_pages2_gain: over(better, plain).filter(|_| survey.between_nodes),
        picked: survey.chosen.mover.clone(),
        why: survey.chosen.why.clone(),
    }
}

fn finding(machines: &[Machine]) -> Result<Finding> {
    let config = Config { machines: machines.iter().map(|machine| machine.name.clone()).collect() };
    let summary = Summary {
        machines: machines.iter().map(best).collect(),
        published_move_pages2_gain: PUBLISHED_GAIN,
    };
    Ok(Finding {
        failed: 0,
        more: vec![Picture::new("machines", lines(machines))],
        notes: notes(machines, &summary),
        picture: picture(machines),
        report: Report::new(Migration::NAME, &config, machines, &summary)?,
        grid: grid(machines),
    })
}

fn grid(machines: &[Machine]) -> Grid {
    let batches = BATCHES.map(|batch| format!("{batch} a call"));
    let fixed = ["machine", "pages/s by"].map(String::from);
    let mut grid = Grid::new(fixed.into_iter().chain(batches));
    for Machine { name, survey } in machines {
        for how in ways(survey) {
            let of = |batch: &usize| {
                let speed = speeds(survey, how).find(|speed| speed.batch == *batch);
                speed.map_or_else(String::new, |speed| format!("{:.0}", speed.pages_per_s))
            };
            let fixed = [name.clone(), how.to_owned()];
            grid.push(fixed.into_iter().chain(BATCHES.iter().map(of)));
        }
    }
    grid
}

fn notes(machines: &[Machine], summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    for (Machine { name, survey }, best) in machines.iter().zip(&summary.machines) {
        if !survey.between_nodes {
            notes.push(format!(
                "{name}: one node, so that calls find every page where it should be and move \
                 nothing; `cargo x lab` measures emulated machines with several, and --lab shows \
                 what it leaves"
            ));
        }
        let missed: usize = survey.results.iter().map(|speed| speed.missed).sum();
        if missed > 0 {
            notes.push(format!("{name}: {missed} pages did not arrive"));
        }
        if let Some(gain) = best.move_pages2_gain {
            notes.push(format!(
                "{name}: move_pages2 at its best {gain:.2} times move_pages at its best; \
                 published: up to {PUBLISHED_GAIN}"
            ));
        }
        notes.push(format!("{name}: the mover is {}: {}", best.picked, best.why));
    }
    if machines.len() > 1 {
        notes.push(
            "processors of the lab are emulated: its shapes mean something, its speeds do \
                    not"
            .into(),
        );
    }
    notes
}

/// Draws a bar for every method of a machine at each batch size; the speed of copying does not
/// depend on the batch size.
fn picture(machines: &[Machine]) -> Bars {
    let mut series = Vec::new();
    for Machine { name, survey } in machines {
        let machine = name.split(',').next().unwrap_or(name);
        for how in ways(survey) {
            let of = |batch: &usize| {
                let same = |speed: &&Speed| speed.batch == *batch || how == "copy";
                speeds(survey, how).find(same).map(|speed| speed.pages_per_s)
            };
            let values = BATCHES.iter().map(of).collect();
            series.push(Series { name: format!("{machine}: {how}"), values });
        }
    }
    Bars {
        title: "Pages of 4 KiB to another memory node".into(),
        unit: "pages a second".into(),
        categories: BATCHES.map(|batch| format!("{batch} a call")).to_vec(),
        series,
    }
}

/// Draws a panel for each machine: pages per second by the number of pages of a call.
fn lines(machines: &[Machine]) -> Lines {
    let panel = |machine: &Machine| {
        let survey = &machine.survey;
        let line = |how: &str| {
            let point = |speed: &Speed| ((speed.batch as f64).log2(), speed.pages_per_s);
            let mut points: Vec<(f64, f64)> = speeds(survey, how).map(point).collect();
            if let [(_, only)] = points[..] {
                let last = (BATCHES[BATCHES.len() - 1] as f64).log2();
                points = vec![(0.0, only), (last, only)];
            }
            Line { name: how.to_owned(), points }
        };
        Panel {
            title: machine.name.clone(),
            x: "pages in a call, as a power of two".into(),
            y: "pages a second".into(),
            lines: ways(survey).into_iter().map(line).collect(),
        }
    };
    Lines { panels: machines.iter().map(panel).collect() }
}

#[cfg(test)]
mod tests {
    use super::survey::Chosen;
    use super::*;
    use crate::measure::Scratch;
    use crate::report::Chart;

    fn survey(ways: &[(&str, f64)], between_nodes: bool) -> Survey {
        let speed = |how: &str, batch, pages_per_s| Speed {
            how: how.to_owned(),
            batch,
            page_us: 1e6 / pages_per_s,
            pages_per_s,
            pages: 4096,
            missed: 0,
        };
        let mut results = vec![speed("copy", 1, 2e6)];
        for (how, single) in ways {
            let faster = |at: usize| single * (1.0 + at as f64);
            results.extend((0..).zip(BATCHES).map(|(at, batch)| speed(how, batch, faster(at))));
        }
        Survey {
            kernel: "6.12".into(),
            nodes: if between_nodes { 2 } else { 1 },
            between_nodes,
            page_bytes: 4096,
            policy_us: 1.0,
            results,
            chosen: Chosen { mover: "one".into(), why: "it is there".into() },
            calibration: vec![],
        }
    }

    #[test]
    fn machines_stand_beside_each_other() {
        let home = Scratch::of(None, "lab").expect("a directory");
        let path = home.path().join("patched-2.json");
        let lab = survey(&[("move_pages", 10.0), ("move_pages2", 14.0)], true);
        std::fs::write(&path, serde_json::to_vec(&lab).expect("text")).expect("written");
        let here = survey(&[("move_pages", 100.0)], false);
        let machines = [
            Machine { name: name("here", &here), survey: here },
            read(&path).expect("a report of the lab"),
        ];
        let text = grid(&machines).to_string();
        assert!(text.contains("patched-2, 2 nodes, Linux 6.12") && text.contains("98"), "{text}");
        let bests = machines.each_ref().map(best);
        assert_eq!((bests[0].batching_gain, bests[0].move_pages2_gain), (None, None));
        assert_eq!((bests[1].batching_gain, bests[1].move_pages2_gain), (Some(7.0), Some(1.4)));
        let finding = finding(&machines).expect("found");
        assert!(finding.notes.iter().any(|note| note.contains("emulated")));
        let Chart::Lines(lines) = finding.more[0].chart() else { panic!("bars") };
        assert_eq!(lines.panels[1].lines.len(), 3);
        assert_eq!(finding.picture.series.len(), 5);
        std::fs::write(&path, "{}").expect("written");
        let refused = read(&path).expect_err("no report").to_string();
        assert!(refused.contains("patched-2.json") && refused.contains("kernel"), "{refused}");
    }
}
