//! Interface of an experiment.

use clap::Args;

use crate::error::Result;
use crate::setting::{Finding, Setting};

/// An experiment: a question, options, and a run that answers the question.
///
/// An experiment implements this in a file of its own, which also has its options, and is listed in
/// [`crate::registry`]. The command line has a command for each, with its options alone.
pub(crate) trait Experiment: 'static {
    /// Name on the command line and in reports.
    const NAME: &'static str;

    /// Question that the experiment answers, in one line.
    const QUESTION: &'static str;

    /// Options in addition to those of all experiments; `()` for none. No option has the name of
    /// one of those, or of an option of the program.
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
