//! Description of a physical plan as a tree of operators in plain words.

mod expressions;
mod joins;
mod rows;
mod scans;

use std::sync::Arc;

use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use terrace_exec::AnyOrderExec;
use terrace_exec::panics::catch;
use terrace_sys::size::to_u64;

use super::super::side_effects::EvaluatedExec;
use super::measure::measured;
use super::operator::{Operator, Words};
use super::options::Options;

/// Maximum number of characters of a property, without VERBOSE.
const TEXT_CHARACTERS_MAX: usize = 300;

/// Describes a plan as a tree of operators.
pub(super) fn described(plan: &Arc<dyn ExecutionPlan>, options: Options) -> Operator {
    // Estimates are cached by node, so the plan must stay alive while this is used.
    tree(plan, options, &StatisticsContext::new())
}

fn tree(
    plan: &Arc<dyn ExecutionPlan>,
    options: Options,
    estimates: &StatisticsContext,
) -> Operator {
    if let Some(input) = passed_through(plan).filter(|_| !options.verbose) {
        return tree(input, options, estimates);
    }
    let mut words = words(plan.as_ref());
    if options.verbose {
        let schema = plan.schema();
        let columns: Vec<_> = schema.fields().iter().map(|it| it.name().as_str()).collect();
        words = words.with("Output", columns.join(", "));
    } else {
        words.details.iter_mut().for_each(|(_, text)| shorten(text));
    }
    let children = plan.children().into_iter();
    let inputs: Vec<_> = children.map(|it| tree(it, options, estimates)).collect();
    let estimated_rows = estimated_rows(plan.as_ref(), estimates);
    Operator {
        words,
        estimated_rows: estimated_rows.or_else(|| rows::preserved(plan.as_ref(), &inputs)),
        measured: options.analyze.then(|| measured(plan.as_ref())).flatten(),
        inputs,
    }
}

/// The input of a node that is left out of the tree because it only passes rows on; `None` for any
/// other node.
fn passed_through(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let is_transparent =
        plan.is::<CooperativeExec>() || plan.is::<AnyOrderExec>() || plan.is::<EvaluatedExec>();
    plan.children().pop().filter(|_| is_transparent)
}

/// The optimizer's estimate of a node's rows; `None` if it has none, or panics.
fn estimated_rows(node: &dyn ExecutionPlan, estimates: &StatisticsContext) -> Option<u64> {
    let statistics =
        catch("the estimate of its rows", || estimates.compute(node, &StatisticsArgs::new()));
    statistics.ok()?.ok()?.num_rows.get_value().copied().map(to_u64)
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
}

fn words(node: &dyn ExecutionPlan) -> Words {
    joins::words(node)
        .or_else(|| scans::words(node))
        .or_else(|| rows::words(node))
        .unwrap_or_else(|| other(node))
}

/// The description of a node of any other kind: its name, and its text in DataFusion's plans.
fn other(node: &dyn ExecutionPlan) -> Words {
    let name = spaced(node.name());
    let text = displayed(node);
    Words::new(&name, "").with("Details", text)
}

/// The text of a node in DataFusion's plans, without its name.
fn displayed(node: &dyn ExecutionPlan) -> String {
    let text = OneLine(node).to_string();
    match text.split_once(": ") {
        Some((name, text)) if name.trim().ends_with("Exec") => text.trim().to_owned(),
        _ if text.trim() == node.name() => String::new(),
        _ => text.trim().to_owned(),
    }
}

/// The name of a node as words in upper case: `PlaceholderRowExec` becomes `PLACEHOLDER ROW`.
fn spaced(name: &str) -> String {
    let name = name.strip_suffix("Exec").unwrap_or(name);
    let name = name.strip_prefix("Paged").unwrap_or(name);
    let (mut spaced, mut follows_small) = (String::new(), false);
    for character in name.chars() {
        if character.is_uppercase() && follows_small {
            spaced.push(' ');
        }
        follows_small = character.is_lowercase();
        spaced.extend(character.to_uppercase());
    }
    spaced
}

/// Formats a node as in DataFusion's plans, on one line.
struct OneLine<'a>(&'a dyn ExecutionPlan);

impl std::fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words() {
        let names = ["PlaceholderRowExec", "PagedMergeExec", "UnnestExec", "StreamingTableExec"];
        let words = names.map(spaced);
        assert_eq!(words, ["PLACEHOLDER ROW", "MERGE", "UNNEST", "STREAMING TABLE"]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut text = "\u{e9}".repeat(TEXT_CHARACTERS_MAX + 1);
        shorten(&mut text);
        assert_eq!(text.chars().count(), TEXT_CHARACTERS_MAX + 3);
        let mut short = "a = b".to_owned();
        shorten(&mut short);
        assert_eq!(short, "a = b");
    }
}
