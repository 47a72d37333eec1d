//! List of the experiments, by name.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use futures::future::LocalBoxFuture;

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::experiments::adaptive::Adaptive;
use crate::experiments::allocations::Allocations;
use crate::experiments::clients::Clients;
use crate::experiments::dram_curve::DramCurve;
use crate::experiments::encodings::Encodings;
use crate::experiments::hash_index::HashIndex;
use crate::experiments::market::Market;
use crate::experiments::migration::Migration;
use crate::experiments::objects::Objects;
use crate::experiments::operators::PagedOperators;
use crate::experiments::out_of_core::OutOfCore;
use crate::experiments::paged_scan::PagedScan;
use crate::experiments::pages::background::Background;
use crate::experiments::pages::cost::Cost;
use crate::experiments::pages::random_read::RandomRead;
use crate::experiments::pages::sweep::NTier;
use crate::experiments::pages::tpcc::Tpcc;
use crate::experiments::pages::ycsb::Ycsb;
use crate::experiments::planning::Planning;
use crate::experiments::region::RegionAccess;
use crate::experiments::remote_files::RemoteFiles;
use crate::experiments::segments::Segments;
use crate::experiments::server::Server;
use crate::experiments::suspend::Suspend;
use crate::experiments::tenants::Tenants;
use crate::experiments::tiers::Tiers;
use crate::setting::{Finding, Setting};

/// All experiments, in the order in which they are listed.
pub static EXPERIMENTS: [Entry; 26] = [
    Entry::of::<Market>(),
    Entry::of::<PagedScan>(),
    Entry::of::<Tiers>(),
    Entry::of::<HashIndex>(),
    Entry::of::<OutOfCore>(),
    Entry::of::<Clients>(),
    Entry::of::<Adaptive>(),
    Entry::of::<Encodings>(),
    Entry::of::<PagedOperators>(),
    Entry::of::<DramCurve>(),
    Entry::of::<Suspend>(),
    Entry::of::<Tenants>(),
    Entry::of::<Tpcc>(),
    Entry::of::<RandomRead>(),
    Entry::of::<Ycsb>(),
    Entry::of::<NTier>(),
    Entry::of::<Cost>(),
    Entry::of::<Background>(),
    Entry::of::<Migration>(),
    Entry::of::<RegionAccess>(),
    Entry::of::<Segments>(),
    Entry::of::<Allocations>(),
    Entry::of::<Objects>(),
    Entry::of::<Server>(),
    Entry::of::<Planning>(),
    Entry::of::<RemoteFiles>(),
];

/// Returns the experiment with this name.
///
/// # Errors
/// [`BenchError::Input`] with the valid names if there is none.
pub fn named(name: &str) -> Result<&'static Entry> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let names = EXPERIMENTS.each_ref().map(|known| known.name).join(", ");
        BenchError::input(format!("there is no experiment {name:?}; there are {names}"))
    })
}

/// An experiment of the list.
pub struct Entry {
    name: &'static str,
    question: &'static str,
    common: &'static [Common],
    augment: fn(Command) -> Command,
    prepare: fn(&ArgMatches) -> Result<Box<dyn Prepared>, clap::Error>,
}

impl Entry {
    const fn of<E: Experiment>() -> Entry {
        Entry {
            name: E::NAME,
            question: E::QUESTION,
            common: E::COMMON,
            augment: E::Options::augment_args,
            prepare: |matches| Ok(Box::new(Job::<E>(E::Options::from_arg_matches(matches)?))),
        }
    }

    /// Returns the name on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the question that the experiment answers, in one line.
    pub fn question(&self) -> &'static str {
        self.question
    }

    /// Returns true if the experiment uses a common option.
    pub fn uses(&self, option: Common) -> bool {
        self.common.contains(&option)
    }

    /// Adds the options of the experiment to a command, under a heading with its name. The question
    /// becomes the description of the command.
    pub fn augment(&self, command: Command) -> Command {
        (self.augment)(command.next_help_heading(self.name)).about(self.question)
    }

    /// Takes the options from the arguments of a command that has them.
    ///
    /// # Errors
    /// Fails if the command does not have the options of this experiment.
    pub fn prepare(&self, matches: &ArgMatches) -> Result<Box<dyn Prepared>, clap::Error> {
        (self.prepare)(matches)
    }
}

/// An experiment with its options.
pub trait Prepared {
    /// Runs the experiment and reports its progress to `observe`.
    ///
    /// # Errors
    /// Errors of the experiment.
    fn run<'a>(
        &'a self,
        setting: &'a Setting,
        observe: &'a mut dyn FnMut(&str),
    ) -> LocalBoxFuture<'a, Result<Finding>>;
}

struct Job<E: Experiment>(E::Options);

impl<E: Experiment> Prepared for Job<E> {
    fn run<'a>(
        &'a self,
        setting: &'a Setting,
        observe: &'a mut dyn FnMut(&str),
    ) -> LocalBoxFuture<'a, Result<Finding>> {
        Box::pin(E::run(setting, &self.0, observe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(experiment: &Entry) -> Command {
        experiment.augment(Command::new(experiment.name).no_binary_name(true))
    }

    fn parse(name: &str, words: &[&str]) -> std::result::Result<(), String> {
        let experiment = named(name).expect("known");
        let matches = command(experiment).try_get_matches_from(words);
        let prepared = matches.and_then(|matches| experiment.prepare(&matches));
        prepared.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_unique_and_lead_back_to_experiments() {
        for experiment in &EXPERIMENTS {
            let same = EXPERIMENTS.iter().filter(|other| other.name == experiment.name);
            assert_eq!(same.count(), 1, "{}", experiment.name);
            assert_eq!(named(experiment.name).expect("known").question, experiment.question);
        }
        let message = named("x").map(Entry::name).expect_err("unknown").to_string();
        assert!(message.contains("paged-scan") && message.contains("tiers"), "{message}");
    }

    #[test]
    fn every_experiment_has_a_consistent_command_with_defaults() {
        for experiment in &EXPERIMENTS {
            command(experiment).debug_assert();
            parse(experiment.name, &[]).expect(experiment.name);
        }
    }

    #[test]
    fn options_belong_to_their_experiments() {
        for (name, words) in [
            ("hash-index", ["--pairs", "5"]),
            ("allocations", ["--objects", "5"]),
            ("objects", ["--churn", "1"]),
            ("region", ["--seconds", "1"]),
            ("n-tier", ["--workloads", "ycsb-b"]),
            ("ycsb", ["--mix", "b,f"]),
            ("tenants", ["--trace-load", "0.35"]),
            ("server", ["--part", "load"]),
            ("migration", ["--lab", "file"]),
        ] {
            parse(name, &words).expect(name);
            let message = parse("market", &words).expect_err("an option of another experiment");
            assert!(message.contains(words[0]), "{message}");
        }
        assert!(parse("region", &["--warm-up", "1"]).is_err(), "a region has no warm-up");
    }

    #[test]
    fn wrong_values_are_refused_with_the_valid_ones() {
        for (name, words, hint) in [
            ("segments", ["--figures", "5,8"], "7a and 7b"),
            ("segments", ["--benchmarks", "tpcc"], "tpcds"),
            ("segments", ["--blocks", "5KiB"], "4KiB, 16KiB"),
            ("segments", ["--tpcds-queries", "100"], "1 to 99"),
            ("server", ["--part", "all"], "load, priority and wire"),
            ("server", ["--limit", "lots"], "lots"),
            ("objects", ["--memory", "disk"], "in dram or in a region"),
            ("objects", ["--objects", "0"], "1..=100000000"),
            ("tenants", ["--trace-load", "0"], "0.01 to 100"),
            ("ycsb", ["--theta", "1"], "0 to 0.999"),
            ("tpcc", ["--seconds", "100000"], "at most a day"),
        ] {
            let message = parse(name, &words).expect_err("refused");
            assert!(message.contains(hint), "{name} {words:?}: {message}");
        }
    }
}
