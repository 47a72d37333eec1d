//! Interface of an experiment.

use clap::Args;

use crate::error::Result;
use crate::setting::{Finding, Setting};

/// An option that several experiments have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The scale factor of the tables.
    Scale,
    /// The number of rounds.
    Rounds,
    /// The TPC-H queries to run.
    Queries,
    /// The encoding of tables.
    Encoding,
}

impl Common {
    /// All common options.
    pub const ALL: [Self; 4] = [Self::Scale, Self::Rounds, Self::Queries, Self::Encoding];

    /// Returns the option's name on the command line, without the dashes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scale => "scale",
            Self::Rounds => "rounds",
            Self::Queries => "queries",
            Self::Encoding => "encoding",
        }
    }
}

/// An experiment: a question, options, and a run that answers the question.
///
/// An experiment implements this in a file of its own, which also has its options, and is listed in
/// [`crate::registry`]. The command line has a subcommand for each experiment, with only the
/// options that it uses.
pub(crate) trait Experiment: 'static {
    /// Name on the command line and in reports.
    const NAME: &'static str;

    /// Question that the experiment answers, in one line.
    const QUESTION: &'static str;

    /// Common options that the experiment uses; the command line refuses the others.
    const COMMON: &'static [Common];

    /// Options in addition to the common ones; `()` for none. No option has the name of one
    /// of those, or of an option of the program.
    type Options: Args;

    /// Runs the experiment and reports its progress to `observe`.
    ///
    /// # Errors
    /// Fails if the measurements cannot be made. Failed queries and wrong answers of Terrace are
    /// counted by the finding.
    async fn run(
        setting: &Setting,
        options: &Self::Options,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding>;
}
