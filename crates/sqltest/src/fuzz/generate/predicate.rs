//! Predicates, with and without subqueries.

use super::super::dialect::Dialect;
use super::super::node::{Node, commas, expression, optional, parts, text};
use super::super::types::Kind;
use super::{DEPTH_MAX, Generator};

/// Comparison operators.
pub(super) const COMPARISONS: [&str; 8] =
    [" = ", " <> ", " < ", " <= ", " > ", " >= ", " <= ", " <> "];

impl Generator<'_> {
    /// Returns a predicate; `level` is its depth in other expressions, `depth` that of its query in
    /// other queries.
    pub(super) fn predicate(&mut self, depth: usize, level: usize) -> Node {
        let node = match self.random.below(23) {
            0..=3 if level < 3 => self.logic(depth, level),
            4 if level < 3 => {
                let inner = self.predicate(depth, level + 1);
                parts([text("(NOT "), inner, text(")")])
            }
            5..=8 if level < 3 && depth + 1 < DEPTH_MAX => self.with_subquery(depth),
            9 => self.null_test(level, depth),
            10 => self.distinctness(level, depth),
            11 => self.between(level, depth),
            12 => self.in_list(level, depth),
            13 => self.two_lists(level, depth),
            14 => self.like(level, depth),
            15 => match self.column_of(Kind::Bool) {
                Some(column) => column,
                None => self.comparison(level, depth),
            },
            16 => self.truth(depth, level),
            17 => self.rows(),
            18 | 19 if level < 3 => match self.of_one_value() {
                Some(condition) => condition,
                None => self.comparison(level, depth),
            },
            _ => self.comparison(level, depth),
        };
        match node {
            Node::Expression(Kind::Bool, _) => node,
            node => expression(Kind::Bool, node),
        }
    }

    fn logic(&mut self, depth: usize, level: usize) -> Node {
        let items = (0..self.random.between(2, 3)).map(|_| self.predicate(depth, level + 1));
        let items = items.collect();
        let between = if self.random.percent(40) { " AND " } else { " OR " };
        Node::List { head: "(", items, between, tail: ")", least: 1 }
    }

    /// Returns an operand; at times a column of an enclosing query.
    fn operand(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        if self.random.percent(30)
            && let Some(outer) = self.outer_column(kind)
        {
            return outer;
        }
        self.scalar(kind, level + 1, depth)
    }

    pub(super) fn comparison(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let left = match self.column_of(kind) {
            Some(column) if self.random.percent(60) => column,
            _ if kind == Kind::Decimal && self.random.percent(50) => self.quotient(level, depth),
            _ => self.scalar(kind, level + 1, depth),
        };
        let other = match kind {
            Kind::Int if self.random.percent(8) => Kind::Decimal,
            kind => kind,
        };
        let right = self.operand(other, level, depth);
        let operator = *self.random.one(&COMPARISONS);
        parts([text("("), left, text(operator), right, text(")")])
    }

    fn null_test(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let inner = self.operand(kind, level, depth);
        let test = *self.random.one(&[" IS NULL)", " IS NOT NULL)"]);
        parts([text("("), inner, text(test)])
    }

    fn distinctness(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let (left, right) = (self.scalar(kind, level + 1, depth), self.operand(kind, level, depth));
        let test = *self.random.one(&[" IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]);
        parts([text("("), left, text(test), right, text(")")])
    }

    fn truth(&mut self, depth: usize, level: usize) -> Node {
        let inner = self.predicate(depth.max(DEPTH_MAX), level + 2);
        let tests = [" IS TRUE)", " IS NOT TRUE)", " IS FALSE)", " IS NOT FALSE)"];
        parts([text("("), inner, text(*self.random.one(&tests))])
    }

    fn between(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let negation = if self.random.percent(25) { "NOT " } else { "" };
        parts([
            text("("),
            self.scalar(kind, level + 1, depth),
            text(format!(" {negation}BETWEEN ")),
            self.constant(kind),
            text(" AND "),
            self.operand(kind, level + 1, depth),
            text(")"),
        ])
    }

    fn in_list(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let left = self.scalar(kind, level + 1, depth);
        self.list_of(left, kind)
    }

    /// Returns two IN lists for one value.
    fn two_lists(&mut self, level: usize, depth: usize) -> Node {
        let kind = self.some_kind();
        let left = match self.column_of(kind) {
            Some(column) if self.random.percent(80) => column,
            _ => self.scalar(kind, level + 1, depth),
        };
        let items = vec![self.list_of(left.clone(), kind), self.list_of(left, kind)];
        let between = if self.random.percent(50) { " AND " } else { " OR " };
        Node::List { head: "(", items, between, tail: ")", least: 1 }
    }

    /// Returns a comparison with an IN list; some members are columns.
    fn list_of(&mut self, left: Node, kind: Kind) -> Node {
        let count = if self.random.percent(10) { 12 } else { self.random.between(1, 4) };
        let member = |_| match self.column_of(kind) {
            Some(column) if self.random.percent(20) => column,
            _ => self.constant(kind),
        };
        let list = commas((0..count).map(member).collect());
        let negation = if self.random.percent(40) { " NOT IN (" } else { " IN (" };
        expression(Kind::Bool, parts([text("("), left, text(negation), list, text("))")]))
    }

    /// Returns a comparison of rows. In DuckDB these are structs, whose nulls are equal.
    fn rows(&mut self) -> Node {
        let kinds = [self.some_kind(), self.some_kind()];
        let mut operand = |kind| match self.column_of(kind) {
            Some(column) if self.random.percent(75) => column,
            _ => self.constant(kind),
        };
        let [a, b] = kinds.map(&mut operand);
        let [c, d] = kinds.map(&mut operand);
        let terrace = |node: &Node| node.render(Dialect::Terrace);
        let duck = |node: &Node| node.render(Dialect::Duck);
        let row = |left: &Node, right: &Node| format!("({}, {})", terrace(left), terrace(right));
        let [left, right] = [row(&a, &b), row(&c, &d)];
        let [a, b, c, d] = [duck(&a), duck(&b), duck(&c), duck(&d)];
        let equal = format!("({a} = {c} AND {b} = {d})");
        let (terrace, duck) = match self.random.below(6) {
            0 => (format!("{left} IN ({right})"), equal),
            1 => (format!("{left} NOT IN ({right})"), format!("NOT {equal}")),
            2 => (format!("{left} = {right}"), equal),
            3 => (format!("{left} <> {right}"), format!("NOT {equal}")),
            _ => {
                let operator = *self.random.one(&["<", "<=", ">", ">="]);
                let strict = &operator[..1];
                let first = format!("{a} {strict} {c} OR {a} = {c} AND {b} {operator} {d}");
                (format!("{left} {operator} {right}"), first)
            }
        };
        Node::Each(format!("({terrace})"), format!("({duck})"))
    }

    /// Returns a SIMILAR TO predicate, whose pattern is a regular expression in DuckDB.
    fn similar(&mut self, level: usize, depth: usize) -> Node {
        let inner = self.scalar(Kind::Text, level + 1, depth);
        let patterns =
            [("a%", "a.*"), ("(a|b)_", "(a|b)."), ("%[ab]", ".*[ab]"), ("a{1,2}b?", "a{1,2}b?")];
        let (pattern, regex) = *self.random.one(&patterns);
        let negation = if self.random.percent(30) { "NOT " } else { "" };
        let call = |before: &str, behind| Node::Each(before.to_owned(), behind);
        parts([
            call("(", format!("({negation}regexp_full_match(")),
            inner,
            call(&format!(" {negation}SIMILAR TO '{pattern}')"), format!(", '{regex}', 's'))")),
        ])
    }

    fn like(&mut self, level: usize, depth: usize) -> Node {
        if self.random.percent(20) {
            return self.similar(level, depth);
        }
        let inner = self.scalar(Kind::Text, level + 1, depth);
        let pattern = *self.random.one(&["'a%'", "'%b'", "'%a%'", "'_'", "'a_%'", "'%'", "'ab'"]);
        let negation = if self.random.percent(30) { " NOT LIKE " } else { " LIKE " };
        parts([text("("), inner, text(negation), text(pattern), text(")")])
    }

    fn with_subquery(&mut self, depth: usize) -> Node {
        let kind = self.some_kind();
        match self.random.below(9) {
            8 => self.existence(depth),
            0 | 1 => {
                let made = self.query(depth + 1, None, false);
                let negation = if self.random.percent(45) { "NOT " } else { "" };
                parts([text(format!("({negation}EXISTS (")), made.node, text("))")])
            }
            2..=4 => {
                let left = self.scalar(kind, 1, DEPTH_MAX);
                let made = self.query(depth + 1, Some(&[kind]), false);
                let test = if self.random.percent(50) { " IN (" } else { " NOT IN (" };
                parts([text("("), left, text(test), made.node, text("))")])
            }
            5 => {
                let left = self.scalar(kind, 2, DEPTH_MAX);
                let made = self.query(depth + 1, Some(&[kind]), false);
                let operator = *self.random.one(&COMPARISONS);
                let quantifier = *self.random.one(&["ANY (", "ALL ("]);
                parts([text("("), left, text(operator), text(quantifier), made.node, text("))")])
            }
            _ => {
                let (left, right) =
                    (self.scalar(kind, 2, DEPTH_MAX), self.scalar_subquery(kind, depth));
                let operator = *self.random.one(&COMPARISONS);
                parts([text("("), left, text(operator), right, text(")")])
            }
        }
    }

    /// Returns EXISTS over a subquery whose number of rows does not depend only on the rows below
    /// it: an aggregate without groups, or rows after an OFFSET or a LIMIT.
    fn existence(&mut self, depth: usize) -> Node {
        let (from, scope) = self.from(depth + 1);
        self.scopes.push(scope);
        let correlation = self.correlation().unwrap_or_else(|| self.predicate(depth + 1, 1));
        let kind = self.some_kind();
        let (item, rest) = match self.random.below(5) {
            0 => (self.aggregate(kind, DEPTH_MAX), text("")),
            1 => (parts([text("DISTINCT "), self.aggregate(kind, DEPTH_MAX)]), text("")),
            2 => {
                let having = self.aggregate_comparison(DEPTH_MAX);
                (self.constant(kind), parts([text(" HAVING "), having]))
            }
            3 => (text("1"), text(format!(" OFFSET {}", self.random.between(1, 3)))),
            _ => {
                let order = optional(text(format!(" ORDER BY {}", self.total_order())));
                let limit = text(format!(" LIMIT {}", self.random.below(3)));
                (text("1"), parts([order, limit]))
            }
        };
        self.scopes.pop();
        let filter = optional(parts([text(" WHERE "), correlation]));
        let negation = if self.random.percent(45) { "NOT " } else { "" };
        let head = text(format!("({negation}EXISTS (SELECT "));
        parts([head, item, from, filter, rest, text("))")])
    }

    /// Returns a subquery of at most one row.
    pub(super) fn scalar_subquery(&mut self, kind: Kind, depth: usize) -> Node {
        let (from, scope) = self.from(depth + 1);
        self.scopes.push(scope);
        let filter = match self.random.percent(70) {
            true => {
                let correlation = self.correlation();
                let more = self.predicate(depth + 1, 1);
                let mut items: Vec<_> = correlation.into_iter().collect();
                if items.is_empty() || self.random.percent(40) {
                    items.push(more);
                }
                Node::List { head: " WHERE ", items, between: " AND ", tail: "", least: 0 }
            }
            false => Node::Parts(Vec::new()),
        };
        let item = self.aggregate(kind, DEPTH_MAX);
        self.scopes.pop();
        let node = parts([text("(SELECT "), item, from, filter, text(")")]);
        expression(kind, node)
    }

    /// Returns an equality between a column of this query and one of an enclosing query.
    fn correlation(&mut self) -> Option<Node> {
        let kind = self.some_kind();
        let (own, outer) = (self.column_of(kind)?, self.outer_column(kind)?);
        let node = parts([text("("), own, text(" = "), outer, text(")")]);
        Some(expression(Kind::Bool, node))
    }

    /// Returns a comparison of an aggregate with a constant, for HAVING.
    pub(super) fn aggregate_comparison(&mut self, depth: usize) -> Node {
        let kind = *self.random.one(&[Kind::Int, Kind::Int, Kind::Float, Kind::Text]);
        let (left, right) = (self.aggregate(kind, depth), self.constant(kind));
        let operator = *self.random.one(&COMPARISONS);
        let node = parts([text("("), left, text(operator), right, text(")")]);
        expression(Kind::Bool, node)
    }

    /// Returns a predicate on the columns in scope without a subquery, for FILTER.
    pub(super) fn simple_predicate(&mut self) -> Node {
        self.predicate(DEPTH_MAX, 2)
    }
}
