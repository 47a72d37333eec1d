//! Window functions, by the kind of their result.

use super::super::node::{Node, call, expression, optional, parts, text};
use super::super::types::Kind;
use super::expression::cast;
use super::{DEPTH_MAX, Generator};

impl Generator<'_> {
    /// Returns a window function whose result has this kind, if there is one.
    pub(super) fn window(&mut self, kind: Kind) -> Option<Node> {
        let scope = self.scopes.last()?;
        if scope.is_empty() {
            return None;
        }
        let choice = self.random.below(10);
        let (function, total) = match (kind, choice) {
            (Kind::Int, 0) => (text("row_number()"), true),
            (Kind::Int, 1) => (text("rank()"), false),
            (Kind::Int, 2) => (text("dense_rank()"), false),
            (Kind::Int, 3) => (text(format!("ntile({})", self.random.between(1, 5))), true),
            (Kind::Int, 4) => (text("count(*)"), false),
            (Kind::Float, 0) => (text("percent_rank()"), false),
            (Kind::Float, 1) => (text("cume_dist()"), false),
            (Kind::Int | Kind::Float, 5 | 6) => {
                let argument = cast(kind, self.scalar(kind, 2, DEPTH_MAX));
                (call("sum", vec![argument]), false)
            }
            (Kind::Float, 7) => {
                let argument = cast(kind, self.scalar(kind, 2, DEPTH_MAX));
                (call("avg", vec![argument]), false)
            }
            (Kind::Bool, _) => return None,
            (_, 0..=3) => (self.extreme(kind), false),
            (_, 4..=6) => (self.neighbour(kind), true),
            _ => (self.of_frame(kind), true),
        };
        let window = self.frame(choice, total);
        let node = parts([function, text(" OVER ("), window, text(")")]);
        Some(expression(kind, node))
    }

    fn extreme(&mut self, kind: Kind) -> Node {
        let name = *self.random.one(&["min", "max"]);
        let argument = self.scalar(kind, 2, DEPTH_MAX);
        call(name, vec![argument])
    }

    fn neighbour(&mut self, kind: Kind) -> Node {
        let name = *self.random.one(&["lag", "lead"]);
        let argument = self.scalar(kind, 3, DEPTH_MAX);
        match self.random.percent(50) {
            true => call(name, vec![argument]),
            false => {
                let distance = self.random.between(0, 3);
                call(name, vec![argument, text(distance.to_string())])
            }
        }
    }

    fn of_frame(&mut self, kind: Kind) -> Node {
        let argument = self.scalar(kind, 3, DEPTH_MAX);
        match self.random.below(3) {
            0 => call("first_value", vec![argument]),
            1 => call("last_value", vec![argument]),
            _ => {
                let number = self.random.between(1, 3);
                call("nth_value", vec![argument, text(number.to_string())])
            }
        }
    }

    /// Returns the partition, order and frame. With `total`, the order is by all columns, for
    /// functions whose result depends on the order of tied rows.
    fn frame(&mut self, choice: usize, total: bool) -> Node {
        let kind = self.some_kind();
        let partition = match self.random.percent(55) {
            true => self.column_of(kind),
            false => None,
        };
        let partition = match partition {
            Some(column) => optional(parts([text("PARTITION BY "), column, text(" ")])),
            None => Node::Parts(Vec::new()),
        };
        let rows = choice >= 4 && self.random.percent(50);
        let order = match total || rows {
            true => self.total_order(),
            false => {
                let kind = self.some_kind();
                let direction = *self.random.one(&["ASC NULLS LAST", "DESC NULLS FIRST"]);
                let column = self.column_of(kind);
                let column = column.map(|it| it.render(super::super::dialect::Dialect::Duck));
                format!("{} {direction}", column.unwrap_or_else(|| "1".to_owned()))
            }
        };
        // A constant orders nothing.
        let order = if order.starts_with('1') { self.total_order() } else { order };
        let frames = [
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        ];
        // Frames of peers do not depend on the order of tied rows.
        let peers = [
            "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING",
            "GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ];
        let exclusions = ["", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES"];
        let exclusion = *self.random.one(&exclusions);
        let frame = match rows {
            true => optional(text(format!(" {}{exclusion}", self.random.one(&frames)))),
            false if !total && self.random.percent(30) => {
                optional(text(format!(" {}{exclusion}", self.random.one(&peers))))
            }
            false => Node::Parts(Vec::new()),
        };
        parts([partition, text(format!("ORDER BY {order}")), frame])
    }
}
