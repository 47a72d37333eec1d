//! Aggregate functions, by the kind of their result.

use super::super::dialect::Dialect;
use super::super::node::{Node, call, expression, optional, parts, text};
use super::super::types::Kind;
use super::expression::cast;
use super::{DEPTH_MAX, Generator};

impl Generator<'_> {
    /// Returns an aggregate whose result has this kind.
    pub(super) fn aggregate(&mut self, kind: Kind, depth: usize) -> Node {
        let node = match (kind, self.random.below(10)) {
            (Kind::Int, 0..=4) => self.count(),
            (Kind::Int, 5 | 6) => self.sum(Kind::Int),
            (Kind::Float, 0..=2) => self.sum(Kind::Float),
            (Kind::Float, 3..=5) => self.statistic(depth),
            (Kind::Decimal, 0..=4) => self.sum(Kind::Decimal),
            (Kind::Bool, 0..=5) => self.truths(),
            (Kind::Text, 0 | 1) => self.joined_text(),
            (Kind::Text, 2 | 3) => self.list(),
            (Kind::Bool, _) | (_, 7) => self.first_or_last(kind),
            (kind, _) => {
                let name = *self.random.one(&["min", "max"]);
                let argument = self.argument(kind);
                self.filtered(call(name, vec![argument]))
            }
        };
        expression(kind, node)
    }

    fn argument(&mut self, kind: Kind) -> Node {
        self.scalar(kind, 1, DEPTH_MAX)
    }

    /// Adds a FILTER clause to one aggregate in five.
    fn filtered(&mut self, aggregate: Node) -> Node {
        if self.random.percent(80) {
            return aggregate;
        }
        let predicate = self.simple_predicate();
        let filter = optional(parts([text(" FILTER (WHERE "), predicate, text(")")]));
        parts([aggregate, filter])
    }

    fn count(&mut self) -> Node {
        let aggregate = match self.random.below(4) {
            0 | 1 => text("count(*)"),
            2 => {
                let kind = self.some_kind();
                let argument = self.argument(kind);
                call("count", vec![argument])
            }
            _ => {
                let kind = self.some_kind();
                let argument = self.argument(kind);
                parts([text("count(DISTINCT "), argument, text(")")])
            }
        };
        self.filtered(aggregate)
    }

    fn sum(&mut self, kind: Kind) -> Node {
        let argument = self.argument(kind);
        let distinct = if self.random.percent(15) { "sum(DISTINCT " } else { "sum(" };
        let argument = match kind {
            Kind::Decimal => parts([text("CAST("), argument, text(" AS DECIMAL(25,6))")]),
            kind => cast(kind, argument),
        };
        let aggregate = parts([text(distinct), argument, text(")")]);
        self.filtered(aggregate)
    }

    /// Returns a median or an average. Averages are generated only in the outermost query, whose
    /// result is compared with a tolerance: their last digit depends on the order of the rows,
    /// which an equality in an outer query would expose.
    fn statistic(&mut self, depth: usize) -> Node {
        if depth > 0 || self.random.percent(30) {
            // Databases compute a median between infinities in different ways.
            let argument = cast(Kind::Float, self.argument(Kind::Int));
            return self.filtered(call("median", vec![argument]));
        }
        let kind = *self.random.one(&[Kind::Int, Kind::Float, Kind::Decimal]);
        let argument = cast(Kind::Float, self.argument(kind));
        self.filtered(call("avg", vec![argument]))
    }

    fn truths(&mut self) -> Node {
        let argument = self.argument(Kind::Bool);
        let name = *self.random.one(&["bool_and", "bool_or"]);
        self.filtered(call(name, vec![argument]))
    }

    /// Returns texts joined in their own order. The argument appears twice and must be the same
    /// both times, so it is one text that cannot be shrunk.
    fn joined_text(&mut self) -> Node {
        let argument = self.argument(Kind::Text);
        let argument =
            Node::Each(argument.render(Dialect::Terrace), argument.render(Dialect::Duck));
        let distinct = if self.random.percent(20) { "DISTINCT " } else { "" };
        let direction = if self.random.percent(50) { "ASC" } else { "DESC" };
        let aggregate = parts([
            text(format!("string_agg({distinct}")),
            argument.clone(),
            text(", '|' ORDER BY "),
            argument,
            text(format!(" {direction} NULLS LAST)")),
        ]);
        self.filtered(aggregate)
    }

    /// Returns a list, in an order of all columns, as text.
    fn list(&mut self) -> Node {
        let (argument, order) = (self.argument(Kind::Text), self.total_order());
        let (head, tail) = match self.random.percent(50) {
            true => ("string_agg((", format!("), '|' ORDER BY {order})")),
            false => {
                let tail = format!(", '?') ORDER BY {order}), '|')");
                ("array_to_string(array_agg(coalesce(", tail)
            }
        };
        parts([text(head), argument, text(tail)])
    }

    /// Returns the first or last value in an order of all columns.
    fn first_or_last(&mut self, kind: Kind) -> Node {
        let (Some(argument), order) = (self.column_of(kind), self.total_order()) else {
            let argument = self.argument(kind);
            return match kind {
                Kind::Bool => call("bool_or", vec![argument]),
                _ => call("min", vec![argument]),
            };
        };
        let first = self.random.percent(50);
        let (terrace, duck) =
            if first { ("first_value(", "first(") } else { ("last_value(", "last(") };
        let name = Node::Each(terrace.to_owned(), duck.to_owned());
        let aggregate = parts([name, argument, text(format!(" ORDER BY {order})"))]);
        self.filtered(aggregate)
    }
}
