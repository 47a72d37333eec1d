//! Limits on the nesting depth of statements, and the stack for parsing and planning.
//!
//! The parser, the planner and the executor recurse over a statement's expressions and set
//! operations, and not all of these recursions grow the stack. So long statements are parsed and
//! planned on a separate stack, and statements that are nested too deep for the executor are
//! refused.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use terrace_table::error::SqlError;

use super::dialect::TerraceDialect;

/// Maximum nesting of expressions and queries in the statement as planned. An executor thread
/// evaluates them recursively on a stack of 2 MiB.
pub(super) const DEPTH_MAX: usize = 1000;

/// Maximum nesting of subqueries in expressions: DataFusion checks each once per path to it, so the
/// time doubles with each level.
const SUBQUERIES_MAX: usize = 16;

/// Maximum nesting of function calls: DataFusion builds their names anew for each call, so the time
/// grows with the third power of the depth.
const CALLS_MAX: usize = 200;

/// Maximum nesting of the parser's calls. It grows the stack, and [`DEPTH_MAX`] bounds the result.
pub(super) const PARSER_DEPTH_MAX: usize = 100_000;

/// Maximum number of tokens between two commas in one pair of parentheses, which bounds the depth
/// of the resulting expression.
const RUN_TOKENS_MAX: usize = 100_000;

/// Maximum bytes of a text outside of its string literals: the parser allocates up to a hundred
/// times as many, which no memory consumer accounts for.
const WORDS_BYTES_MAX: usize = 4 << 20;

/// Texts up to this length cannot reach [`RUN_TOKENS_MAX`], so their tokens are not counted.
const SHORT_TEXT_BYTES: usize = 64 << 10;

/// Texts up to this length are parsed and planned on the stack of the caller: no statement of this
/// length can overflow it.
const SHALLOW_TEXT_BYTES: usize = 1 << 10;

/// The stack that a statement is parsed and planned on: 2.6 KiB for each level that a text can
/// have. Its memory is committed when touched.
const STACK_BYTES: usize = 256 << 20;

/// Minimum stack that must be left to traverse a statement of [`DEPTH_MAX`].
const WALK_BYTES: usize = 1 << 20;

/// Runs `parse` on a stack that is large enough for the text.
///
/// # Errors
/// [`SqlError::Refused`] for a text that is too long or may be nested too deep; errors of `parse`.
pub(super) fn parse_on_stack<T>(
    text: &str,
    parse: impl FnOnce() -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    if text.len() <= SHALLOW_TEXT_BYTES {
        return parse();
    }
    if text.len() > WORDS_BYTES_MAX && words_bytes(text) > WORDS_BYTES_MAX {
        let most = WORDS_BYTES_MAX >> 20;
        return Err(SqlError::Refused {
            what: format!("a text of more than {most} MiB beside its string literals"),
            instead: "split it, or send rows by COPY".to_owned(),
        });
    }
    if text.len() > SHORT_TEXT_BYTES && longest_run(text) > RUN_TOKENS_MAX {
        return Err(SqlError::Refused {
            what: format!("an expression or query of more than {RUN_TOKENS_MAX} words and signs"),
            instead: "split it, or put the values into a table".to_owned(),
        });
    }
    stacker::grow(STACK_BYTES, parse)
}

/// Refuses a statement whose nesting `depth` is more than [`DEPTH_MAX`].
pub(super) fn check(depth: usize) -> Result<(), SqlError> {
    if depth <= DEPTH_MAX {
        return Ok(());
    }
    Err(SqlError::Refused {
        what: format!("a statement whose expressions and queries are nested {depth} deep"),
        instead: format!("at most {DEPTH_MAX} are possible: split it, or put values into a table"),
    })
}

/// Refuses a plan whose subqueries or calls are nested too deep for DataFusion to plan in
/// reasonable time.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut nesting = Nesting::default();
    nesting.measure(plan)?;
    let Nesting { subqueries, calls_max, .. } = nesting;
    for (what, depth, most) in [
        ("subqueries in expressions", subqueries, SUBQUERIES_MAX),
        ("calls of functions", calls_max, CALLS_MAX),
    ] {
        if depth > most {
            return Err(SqlError::Refused {
                what: format!("a statement whose {what} are nested {depth} deep"),
                instead: format!("at most {most} are possible: use common table expressions"),
            });
        }
    }
    Ok(())
}

/// Nesting depth of subqueries and of function calls.
#[derive(Default)]
struct Nesting {
    subqueries: usize,
    /// Calls around the visited expression.
    calls: usize,
    /// Maximum of `calls` so far.
    calls_max: usize,
}

impl Nesting {
    fn measure(&mut self, plan: &LogicalPlan) -> Result<(), DataFusionError> {
        plan.apply(|node| {
            node.apply_expressions(|expr| {
                expr.visit(self)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(())
    }
}

impl<'a> TreeNodeVisitor<'a> for Nesting {
    type Node = Expr;

    fn f_down(&mut self, expr: &'a Expr) -> Result<TreeNodeRecursion, DataFusionError> {
        match expr {
            Expr::ScalarFunction(_) => {
                self.calls += 1;
                self.calls_max = self.calls_max.max(self.calls);
            }
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => {
                let mut inner = Self::default();
                inner.measure(&subquery.subquery)?;
                self.subqueries = self.subqueries.max(1 + inner.subqueries);
                self.calls_max = self.calls_max.max(inner.calls_max);
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, expr: &'a Expr) -> Result<TreeNodeRecursion, DataFusionError> {
        self.calls -= usize::from(matches!(expr, Expr::ScalarFunction(_)));
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Formats a statement of any allowed depth without overflowing the stack.
pub(super) fn text_of(statement: &impl ToString) -> String {
    stacker::maybe_grow(WALK_BYTES, STACK_BYTES, || statement.to_string())
}

/// Bytes of a text outside of string literals and quoted names; all bytes if the text has comments,
/// escapes or dollar quotes, in which a quote character does not delimit.
fn words_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut words, mut place) = (0, 0);
    while let Some(byte) = bytes.get(place) {
        let (before, next) =
            (place.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(place + 1));
        match (byte, next) {
            (b'$', _) | (b'-', Some(b'-')) | (b'/', Some(b'*')) => return text.len(),
            (b'\'', _) if matches!(before, Some(b'e' | b'E')) => return text.len(),
            (b'\'' | b'"', _) => {
                let mut rest = bytes.iter().skip(place + 1);
                place += rest.position(|other| other == byte).unwrap_or(bytes.len()) + 1;
            }
            _ => words += 1,
        }
        place += 1;
    }
    words
}

/// The maximum number of tokens between two commas of one pair of parentheses, including nested
/// ones.
fn longest_run(text: &str) -> usize {
    let Ok(tokens) = Tokenizer::new(&TerraceDialect, text).tokenize() else {
        // The parser reports the error before it recurses.
        return 0;
    };
    let mut longest = 0;
    // For each open parenthesis, the tokens since the last comma.
    let mut open: Vec<usize> = vec![0];
    for token in tokens {
        let depth = open.len() - 1;
        let Some(run) = open.last_mut() else { break };
        match token {
            Token::Whitespace(_) => continue,
            Token::Comma | Token::SemiColon => *run = 0,
            Token::LParen | Token::LBracket | Token::LBrace => open.push(0),
            Token::RParen | Token::RBracket | Token::RBrace if depth > 0 => {
                let inside = open.pop().unwrap_or(0);
                open.last_mut().into_iter().for_each(|run| *run = inside.max(*run) + 1);
            }
            _ => *run += 1,
        }
        longest = longest.max(open.last().copied().unwrap_or(0) + depth);
    }
    longest
}

/// Runs `work`, which recurses over the plan of a statement with this text, on a separate stack
/// unless the statement is known to be shallow.
pub(crate) fn on_stack<T>(text: &str, work: impl FnOnce() -> T) -> T {
    match text.len() <= SHALLOW_TEXT_BYTES {
        true => work(),
        false => stacker::grow(STACK_BYTES, work),
    }
}

/// A future that is polled on a separate stack unless the statement is known to be shallow.
pub(super) struct OnStack<F> {
    future: Pin<Box<F>>,
    is_shallow: bool,
}

impl<F: Future> OnStack<F> {
    /// Wraps `future`, which plans a statement with this text.
    pub(super) fn new(text: &str, future: F) -> Self {
        Self { future: Box::pin(future), is_shallow: text.len() <= SHALLOW_TEXT_BYTES }
    }
}

impl<F: Future> Future for OnStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let is_shallow = self.is_shallow;
        let future = self.future.as_mut();
        match is_shallow {
            true => future.poll(context),
            false => stacker::grow(STACK_BYTES, || future.poll(context)),
        }
    }
}

/// Bytes of stack that planning one view may take.
const VIEW_BYTES: usize = 1 << 20;
/// Bytes of a stack for planning views of views.
const VIEWS_BYTES: usize = 8 << 20;

/// A future that plans a view, whose query may read other views. Each poll has at least
/// [`VIEW_BYTES`] of stack, however deep the views are nested.
pub(crate) struct OfView<F>(Pin<Box<F>>);

impl<F: Future> OfView<F> {
    /// Wraps `future`, which plans the view.
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for OfView<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut();
        stacker::maybe_grow(VIEW_BYTES, VIEWS_BYTES, || future.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_outside_of_quotes() {
        assert_eq!(words_bytes("SELECT 'it''s long', \"a\" FROM t"), "SELECT ,  FROM t".len());
        assert_eq!(words_bytes("'open"), 0);
        for hidden in ["-- '\n1", "/* ' */ 1", "E'\\'', 1", "$$'$$, 1"] {
            assert_eq!(words_bytes(hidden), hidden.len(), "{hidden}");
        }
    }

    #[test]
    fn runs_are_counted_between_commas() {
        assert_eq!(longest_run("a, b, c"), 1);
        assert_eq!(longest_run("a OR b OR c"), 5);
        let list = (0..1000).map(|n| format!("(-{n}, 'x')")).collect::<Vec<_>>().join(", ");
        assert!(longest_run(&format!("INSERT INTO t VALUES {list}")) < 20);
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        assert!(longest_run(&deep) >= 500);
    }
}
