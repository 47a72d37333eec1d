//! Arguments of `terrace bench`: a subcommand for each experiment, which has only the options that
//! the experiment uses.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use terrace_bench::experiment::Common;
use terrace_bench::flag::{scale, tpch_query};
use terrace_bench::registry::{EXPERIMENTS, Entry};
use terrace_sql::Encoding;

/// Options that several experiments have. An experiment refuses those that it does not use; all of
/// them use `json`.
#[derive(Args, Debug)]
pub struct CommonArgs {
    /// TPC-H scale factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale,
          allow_negative_numbers = true)]
    pub scale: f64,

    /// Number of rounds; results are medians, or means in segments and allocations
    #[arg(long, value_name = "N", default_value = "3")]
    pub rounds: NonZeroUsize,

    /// Queries to run, such as 1,3,18; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpch_query)]
    pub queries: Vec<u32>,

    /// Encoding of the tables of an experiment over TPC-H: plain or compact; by default plain in
    /// paged-scan, paged-operators and segments (always), compact in the others
    #[arg(long, value_name = "ENCODING")]
    pub encoding: Option<Encoding>,

    /// Write the report to this file, and a picture beside it
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl CommonArgs {
    /// Adds the options to the command of an experiment; its help omits those that it does not use.
    fn augment(experiment: &Entry) -> Command {
        let command = CommonArgs::augment_args(Command::new(experiment.name()));
        let unused = Common::ALL.into_iter().filter(|option| !experiment.uses(*option));
        unused.fold(command, |command, option| command.mut_arg(option.name(), |arg| arg.hide(true)))
    }

    /// Takes the options from the arguments of an experiment's command.
    ///
    /// # Errors
    /// If the experiment does not use an option that was given.
    pub fn of(experiment: &Entry, matches: &ArgMatches) -> Result<CommonArgs, Error> {
        let is_given =
            |option: Common| matches.value_source(option.name()) == Some(ValueSource::CommandLine);
        let unused = Common::ALL.into_iter().filter(|option| !experiment.uses(*option));
        if let Some(option) = unused.into_iter().find(|option| is_given(*option)) {
            let (name, option) = (experiment.name(), option.name());
            let message = format!("bench {name} has no option --{option}; leave it out\n");
            return Err(Error::raw(ErrorKind::UnknownArgument, message));
        }
        CommonArgs::from_arg_matches(matches)
    }
}

/// An experiment by name, and its options. The name may be unknown: it is refused when the
/// experiment is looked up, with a message that lists the known names.
#[derive(Debug)]
pub struct Choice {
    /// Name of the experiment.
    pub name: String,
    /// Options of the experiment and [`CommonArgs`], unless the name is unknown.
    pub matches: ArgMatches,
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Choice, Error> {
        let chosen = matches.subcommand();
        let (name, matches) = chosen.ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Choice { name: name.to_owned(), matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Choice::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Choice {
    fn augment_subcommands(command: Command) -> Command {
        let experiments = EXPERIMENTS
            .iter()
            .map(|experiment| experiment.augment(CommonArgs::augment(experiment)));
        command
            .subcommands(experiments)
            .allow_external_subcommands(true)
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Experiments")
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Choice::augment_subcommands(command)
    }

    /// Returns true for every name, as unknown ones are accepted.
    fn has_subcommand(_: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use terrace_bench::registry::named;

    use super::*;
    use crate::args::{self, Cli};
    use crate::dram::Dram;

    fn parse(words: &[&str]) -> Result<Cli, String> {
        let words = ["terrace", "bench"].iter().chain(words);
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    }

    fn choice(cli: &Cli) -> &Choice {
        let args::Command::Bench { choice: Some(choice) } = &cli.command else {
            panic!("no experiment")
        };
        choice
    }

    #[test]
    fn every_experiment_parses_its_defaults() {
        for experiment in &EXPERIMENTS {
            let cli = parse(&[experiment.name()]).expect("parsed");
            let Choice { name, matches } = choice(&cli);
            assert_eq!(name, experiment.name());
            let common = CommonArgs::of(experiment, matches).expect("common options");
            assert_eq!((common.rounds.get(), common.queries.len()), (3, 0));
            assert!(experiment.prepare(matches).is_ok(), "{name}");
        }
        let cli = parse(&[]).expect("the list");
        assert!(matches!(cli.command, args::Command::Bench { choice: None }));
    }

    #[test]
    fn options_of_the_program_and_of_every_experiment_stand_beside_its_own() {
        let own = ["tenants", "--wire", "--trace-seconds", "300", "--trace-load", "0.35"];
        let all = ["--scale", "1.25", "--dram", "32MiB", "--threads", "2", "--rounds", "1"];
        for words in [[&own[..], &all].concat(), [&own[..1], &all, &own[1..]].concat()] {
            let cli = parse(&words).expect("parsed");
            assert_eq!(cli.options.dram, Some(Dram::Bytes(32 << 20)));
            assert_eq!(cli.options.threads, NonZeroUsize::new(2));
            let common = CommonArgs::from_arg_matches(&choice(&cli).matches).expect("common");
            assert_eq!((common.scale, common.rounds), (1.25, NonZeroUsize::MIN));
        }
        let cli = Cli::try_parse_from(["terrace", "--dram", "1GiB", "bench", "market"]);
        assert_eq!(cli.expect("parsed").options.dram, Some(Dram::Bytes(1 << 30)));
    }

    #[test]
    fn options_of_another_experiment_are_refused() {
        for words in [
            ["market", "--pairs", "5"],
            ["region", "--warm-up", "1"],
            ["n-tier", "--csv", "file"],
            ["allocations", "--seconds", "1"],
        ] {
            let message = parse(&words).expect_err("refused");
            assert!(message.contains(words[1]) && message.contains("unexpected"), "{message}");
        }
    }

    #[test]
    fn common_options_without_effect_are_refused() {
        for (words, option) in [
            (&["tpcc", "--scale", "2"][..], "--scale"),
            (&["tenants", "--queries", "1,3"], "--queries"),
            (&["market", "--encoding", "plain"], "--encoding"),
            (&["migration", "--rounds", "1"], "--rounds"),
        ] {
            let cli = parse(words).expect("parsed");
            let chosen = choice(&cli);
            let experiment = named(&chosen.name).expect("known");
            let message = CommonArgs::of(experiment, &chosen.matches).expect_err("refused");
            let message = message.to_string();
            assert!(message.contains(option) && message.contains(words[0]), "{message}");
            let help = parse(&[words[0], "--help"]).expect_err("help");
            assert!(!help.contains(&format!("{option} ")) && help.contains("--json"), "{help}");
        }
    }

    #[test]
    fn the_help_of_an_experiment_has_its_options_alone() {
        let help = parse(&["hash-index", "--help"]).expect_err("help");
        for part in ["do hints keep an index fast", "--pairs", "--rounds", "--json", "--dram"] {
            assert!(help.contains(part), "{part}: {help}");
        }
        for other in ["--objects", "--mix", "--figures", "--trace-load", "--part "] {
            assert!(!help.contains(other), "{other}: {help}");
        }
        let help = parse(&["--help"]).expect_err("help");
        for experiment in &EXPERIMENTS {
            assert!(help.contains(experiment.name()), "{}: {help}", experiment.name());
        }
    }

    #[test]
    fn an_unknown_name_is_left_to_the_list() {
        let cli = parse(&["nothing", "--rounds", "3"]).expect("parsed");
        assert!(named(&choice(&cli).name).is_err());
    }
}
