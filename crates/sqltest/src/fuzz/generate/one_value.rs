//! Conditions on one value, which an optimizer simplifies: repeated constants, overlapping ranges
//! and lists, and computations without effect.

use super::super::node::{Node, call, commas, expression, parts, text};
use super::super::types::Kind;
use super::Generator;
use super::predicate::COMPARISONS;

/// Maximum nesting depth of conditions on one value.
const NESTED_MAX: usize = 3;

/// A value and the constants that it is compared with.
struct Value {
    kind: Kind,
    column: Node,
    constants: [Node; 2],
}

impl Generator<'_> {
    /// Returns a condition on one column; `None` if there is no column.
    pub(super) fn of_one_value(&mut self) -> Option<Node> {
        let kind = self.some_kind();
        let column = self.column_of(kind)?;
        let constants = [self.constant(kind), self.constant(kind)];
        let value = Value { kind, column, constants };
        Some(self.condition_of(&value, 0))
    }

    fn condition_of(&mut self, value: &Value, nested: usize) -> Node {
        if nested == NESTED_MAX || (nested > 0 && self.random.percent(40)) {
            return self.test_of(value, nested);
        }
        let count = self.random.between(2, 3);
        let items = (0..count).map(|_| self.condition_of(value, nested + 1)).collect();
        let between = if self.random.percent(50) { " AND " } else { " OR " };
        let (head, tail) = if self.random.percent(25) { ("(NOT (", "))") } else { ("(", ")") };
        expression(Kind::Bool, Node::List { head, items, between, tail, least: 1 })
    }

    fn test_of(&mut self, value: &Value, nested: usize) -> Node {
        let left = self.same(value);
        let not = |percent, this: &mut Self| if this.random.percent(percent) { " NOT" } else { "" };
        let nodes = match self.random.below(14) {
            0..=3 => {
                let operator = *self.random.one(&COMPARISONS);
                vec![text("("), left, text(operator), self.constant_of(value), text(")")]
            }
            4 => {
                let operator = *self.random.one(&COMPARISONS);
                vec![text("("), self.constant_of(value), text(operator), left, text(")")]
            }
            5 | 6 => {
                let count = self.random.between(1, 3);
                let list = commas((0..count).map(|_| self.constant_of(value)).collect());
                let head = format!("{} IN (", not(40, self));
                vec![text("("), left, text(head), list, text("))")]
            }
            7 => {
                let head = format!("{} BETWEEN ", not(40, self));
                let (low, high) = (self.constant_of(value), self.constant_of(value));
                vec![text("("), left, text(head), low, text(" AND "), high, text(")")]
            }
            8 => vec![text("("), left, text(format!(" IS{} NULL)", not(50, self)))],
            9 => {
                let test = format!(" IS{} DISTINCT FROM ", not(50, self));
                vec![text("("), left, text(test), self.constant_of(value), text(")")]
            }
            10 => {
                let operator = *self.random.one(&COMPARISONS);
                vec![text("("), left, text(operator), self.same(value), text(")")]
            }
            11 if nested < NESTED_MAX => {
                let truth = *self.random.one(&["TRUE", "FALSE"]);
                let test = format!(" IS{} {truth})", not(40, self));
                vec![text("("), self.condition_of(value, nested + 1), text(test)]
            }
            12 if nested < NESTED_MAX => {
                let mut part = || self.condition_of(value, NESTED_MAX);
                let (when, then, or_else) = (part(), part(), part());
                let words = [text("(CASE WHEN "), when, text(" THEN "), then, text(" ELSE ")];
                words.into_iter().chain([or_else, text(" END)")]).collect()
            }
            13 if value.kind == Kind::Text => {
                let pattern = *self.random.one(&["'%'", "''", "'a%'", "'%a'", "'_'", "'a'"]);
                vec![text("("), left, text(format!("{} LIKE {pattern})", not(40, self)))]
            }
            _ => vec![text("("), left, text(" = "), self.constant_of(value), text(")")],
        };
        expression(Kind::Bool, parts(nodes))
    }

    fn constant_of(&mut self, value: &Value) -> Node {
        match self.random.below(12) {
            0 => self.constant(value.kind),
            number => value.constants[number % 2].clone(),
        }
    }

    /// Returns the value, at times as an expression that is equal to it.
    fn same(&mut self, value: &Value) -> Node {
        let column = value.column.clone();
        let around = |head: &str, tail: &str| {
            parts([text(head.to_owned()), column.clone(), text(tail.to_owned())])
        };
        let node = match (self.random.below(12), value.kind) {
            (0, _) => call("coalesce", vec![column.clone(), column.clone()]),
            (1, _) => around("(CASE WHEN true THEN ", " END)"),
            (2, Kind::Int) => around("(", " + 0)"),
            (3, Kind::Int) => around("(", " * 1)"),
            (4, Kind::Int) => around("(0 + ", ")"),
            (5, Kind::Int) => around("(", " - 0)"),
            (2 | 3, Kind::Text) => around("(", " || '')"),
            (2, Kind::Bool) => around("(", " AND true)"),
            (3, Kind::Bool) => around("(", " OR false)"),
            (4, Kind::Bool) => around("(NOT (NOT ", "))"),
            (5, Kind::Bool) => around("(", " = true)"),
            _ => return column,
        };
        expression(value.kind, node)
    }
}
