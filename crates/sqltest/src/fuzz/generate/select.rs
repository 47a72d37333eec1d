//! Queries: SELECT, set operations, common table expressions.

use super::super::dialect::Dialect;
use super::super::node::{Node, Top, call, commas, expression, optional, parts, text};
use super::super::types::Kind;
use super::expression::cast;
use super::{Generator, Made};

/// The kinds of the columns that a query must have; any if `None`.
type Want<'a> = Option<&'a [Kind]>;

impl Generator<'_> {
    /// Returns a query with its common table expressions.
    pub(super) fn statement(&mut self) -> Made {
        let mut definitions = Vec::new();
        let count = if self.random.percent(20) { self.random.between(1, 2) } else { 0 };
        for index in 0..count {
            let made = self.query(1, None, false);
            let name = format!("cte{index}");
            definitions.push(parts([text(format!("{name} AS (")), made.node, text(")")]));
            self.common.push((name, made.columns));
        }
        let made = self.query(0, None, true);
        self.common.clear();
        let tail = " ";
        let with = Node::List { head: "WITH ", items: definitions, between: ", ", tail, least: 0 };
        Made { node: parts([with, made.node]), columns: made.columns }
    }

    /// Returns a query. At the top level, its columns may have no names.
    pub(super) fn query(&mut self, depth: usize, want: Want, top: bool) -> Made {
        let set = depth < 2 && self.random.percent(12);
        let made =
            if set { self.set_operation(depth, want) } else { self.select(depth, want, top) };
        let kinds = made.columns.iter().map(|(_, kind)| *kind).collect();
        Made { node: Node::Query(kinds, Box::new(made.node)), columns: made.columns }
    }

    fn set_operation(&mut self, depth: usize, want: Want) -> Made {
        let left = self.query(depth + 1, want, false);
        let kinds: Vec<_> = left.columns.iter().map(|(_, kind)| *kind).collect();
        let right = self.query(depth + 1, Some(&kinds), false);
        let operators =
            ["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"];
        let operator = format!(") {} (", self.random.one(&operators));
        let (left_node, right_node) = (left.node, right.node);
        let node = parts([text("("), left_node, text(operator), right_node, text(")")]);
        Made { node, columns: left.columns }
    }

    fn select(&mut self, depth: usize, want: Want, top: bool) -> Made {
        let (from, scope) = self.from(depth);
        self.scopes.push(scope);
        let filter = self.filter(depth);
        let made = match self.random.below(10) {
            0..=3 => self.aggregated(depth, want, top),
            4 => self.distinct_on(depth, want, top),
            _ => self.plain(depth, want, top),
        };
        self.scopes.pop();
        let (head, items, behind, columns) = made;
        let ordered = self.random.percent(25);
        let order = ordered.then(|| self.top(columns.len()));
        let rest = parts([from, filter, behind.node]);
        let node = Node::Select {
            head: Box::new(head),
            items,
            rest: Box::new(rest),
            top: order.filter(|_| !behind.ordered),
        };
        Made { node, columns }
    }

    fn top(&mut self, columns: usize) -> Top {
        let order = |_| (self.random.percent(40), self.random.percent(50));
        let orders = (0..columns).map(order).collect();
        let limit =
            if self.random.percent(3) { 0 } else { *self.random.one(&[1, 2, 3, 5, 10, 100]) };
        let limit = self.random.percent(80).then_some(limit);
        let offset = if limit.is_some() && self.random.percent(12) { 2 } else { 0 };
        Top { orders, limit, offset }
    }

    fn filter(&mut self, depth: usize) -> Node {
        if self.random.percent(55) {
            return Node::Parts(Vec::new());
        }
        let predicate = self.predicate(depth, 0);
        optional(parts([text(" WHERE "), predicate]))
    }

    /// Returns a SELECT list that is computed row by row.
    fn plain(&mut self, depth: usize, want: Want, top: bool) -> Columns {
        let distinct = self.random.percent(15);
        let head = if distinct { optional(text("DISTINCT ")) } else { text("") };
        let kinds = self.kinds(want);
        let mut windows = if distinct { 0 } else { 1 };
        let mut columns = Vec::new();
        let mut items = Vec::new();
        // Names of items that later items may use.
        let mut aliases: Vec<(String, Kind)> = Vec::new();
        for kind in kinds {
            let window = windows > 0 && self.random.percent(20);
            let made = if window { self.window(kind) } else { None };
            let is_window = made.is_some();
            windows -= usize::from(is_window);
            let made = made.or_else(|| self.of_alias(kind, &aliases));
            let node = made.unwrap_or_else(|| self.scalar(kind, 0, depth));
            let own = self.own_name(&node);
            let (node, name) = self.named(node, kind, &columns, top);
            if !is_window && !name.is_empty() && own.as_ref() != Some(&name) {
                aliases.push((name.clone(), kind));
            }
            items.push(node);
            columns.push((name, kind));
        }
        let behind = if distinct { Behind::nothing() } else { self.chosen_rows(windows > 0) };
        (head, items, behind, columns)
    }

    /// Returns a reference to an earlier item of the SELECT list whose name no column of FROM has;
    /// `None` in most cases.
    fn of_alias(&mut self, kind: Kind, aliases: &[(String, Kind)]) -> Option<Node> {
        let scope = self.scopes.last()?;
        let is_free = |name: &str| scope.iter().all(|column| column.column != name);
        let (name, _) = aliases.iter().find(|(name, of)| *of == kind && is_free(name))?;
        let once = aliases.iter().filter(|(other, _)| other == name).count() == 1;
        if !once || self.random.percent(85) {
            return None;
        }
        Some(self.or_constant(kind, text(name.clone())))
    }

    /// Returns `coalesce(value, constant)`.
    fn or_constant(&mut self, kind: Kind, value: Node) -> Node {
        let typed = |node: Node| match kind {
            Kind::Int | Kind::Float | Kind::Decimal => cast(kind, node),
            _ => node,
        };
        let other = self.constant(kind);
        expression(kind, call("coalesce", vec![typed(value), typed(other)]))
    }

    /// Returns a clause that selects rows by their rank in an order; nothing in most cases. If
    /// `without_windows`, it may be FETCH WITH TIES.
    fn chosen_rows(&mut self, without_windows: bool) -> Behind {
        if self.random.percent(92) {
            return Behind::nothing();
        }
        let rows = self.random.between(1, 6);
        let kind = self.some_kind();
        let key = self.column_of(kind).map(|key| key.render(Dialect::Duck));
        match key.filter(|key| key.contains('.') && without_windows && self.random.percent(40)) {
            Some(key) => {
                let order = format!("ORDER BY {key} DESC NULLS LAST");
                let ties = format!(" {order} FETCH FIRST {rows} ROWS WITH TIES");
                let ranks = format!(" QUALIFY rank() OVER ({order}) <= {rows}");
                Behind { node: Node::Each(ties, ranks), ordered: true }
            }
            None => match self.window(Kind::Int) {
                Some(window) => {
                    let node = parts([text(" QUALIFY ("), window, text(format!(" <= {rows})"))]);
                    Behind { node: optional(node), ordered: false }
                }
                None => Behind::nothing(),
            },
        }
    }

    /// Names an item; a column mostly keeps its own name, so that queries share names.
    fn named(&mut self, node: Node, kind: Kind, before: &[(String, Kind)], top: bool) -> Named {
        let own = self.own_name(&node).filter(|own| before.iter().all(|(name, _)| name != own));
        if let Some(own) = own.filter(|_| self.random.percent(70)) {
            return (node, own);
        }
        if top && self.random.percent(10) {
            return (node, String::new());
        }
        let is_new = |name: &String| top || before.iter().all(|(other, _)| other != name);
        let names = (before.len()..).map(|number| format!("c{number}"));
        let name = names.into_iter().find(is_new).unwrap_or_default();
        let alias = text(format!(" AS {name}"));
        (parts([expression(kind, node), alias]), name)
    }

    fn own_name(&self, node: &Node) -> Option<String> {
        let text = match node {
            Node::Expression(_, inner) => match &**inner {
                Node::Text(text) => text,
                _ => return None,
            },
            _ => return None,
        };
        let scope = self.scopes.last()?;
        scope.iter().find(|name| name.text == *text).map(|name| name.column.clone())
    }

    fn kinds(&mut self, want: Want) -> Vec<Kind> {
        match want {
            Some(kinds) => kinds.to_vec(),
            None => (0..self.random.between(1, 4)).map(|_| self.some_kind()).collect(),
        }
    }

    /// Returns a kind: mostly that of a column in scope.
    pub(super) fn some_kind(&mut self) -> Kind {
        let scope = self.scopes.last().map(Vec::as_slice).unwrap_or_default();
        if scope.is_empty() || self.random.percent(10) {
            return *self.random.one(&Kind::ALL);
        }
        self.random.one(scope).kind
    }

    /// Returns `SELECT DISTINCT ON (keys) columns ORDER BY keys, all columns`.
    fn distinct_on(&mut self, depth: usize, want: Want, top: bool) -> Columns {
        let scope = self.scopes.last().cloned().unwrap_or_default();
        if scope.is_empty() {
            return self.plain(depth, want, top);
        }
        let count = self.random.between(1, 2.min(scope.len()));
        let places = self.random.some(count, scope.len());
        let keys: Vec<_> = places.iter().map(|place| scope[*place].text.clone()).collect();
        let rest = self.order_but(&keys);
        let direction = if self.random.percent(50) { "ASC" } else { "DESC" };
        let keyed: Vec<_> =
            keys.iter().map(|key| format!("{key} {direction} NULLS LAST")).collect();
        let rest = if rest.is_empty() { rest } else { format!(", {rest}") };
        let order = format!(" ORDER BY {}{rest}", keyed.join(", "));
        let head = text(format!("DISTINCT ON ({}) ", keys.join(", ")));
        let mut columns = Vec::new();
        let mut items = Vec::new();
        for (index, kind) in self.kinds(want).into_iter().enumerate() {
            let node = self.column_of(kind).unwrap_or_else(|| self.constant(kind));
            let name = format!("c{index}");
            let alias = text(format!(" AS {name}"));
            items.push(parts([node, alias]));
            columns.push((name, kind));
        }
        let peers = format!("{order} OFFSET 0");
        (head, items, Behind { node: Node::Each(order, peers), ordered: true }, columns)
    }

    /// Returns an order by all columns in scope: tied rows are equal.
    pub(super) fn total_order(&mut self) -> String {
        let order = self.order_but(&[]);
        if order.is_empty() { "1".to_owned() } else { order }
    }

    /// Returns an order by all columns in scope except the keys, which come before it; in 5 of 100
    /// cases by those again.
    fn order_but(&mut self, keys: &[String]) -> String {
        let scope = self.scopes.last().cloned().unwrap_or_default();
        let again = self.random.percent(5);
        let order = |name: &super::Name| {
            let direction = if self.random.percent(40) { "DESC" } else { "ASC" };
            let nulls = if self.random.percent(50) { "FIRST" } else { "LAST" };
            format!("{} {direction} NULLS {nulls}", name.text)
        };
        let rest = scope.iter().filter(|name| again || !keys.contains(&name.text));
        rest.map(order).collect::<Vec<_>>().join(", ")
    }

    /// Returns a SELECT list over groups.
    fn aggregated(&mut self, depth: usize, want: Want, top: bool) -> Columns {
        let kinds = self.kinds(want);
        let keys: Vec<_> = (0..self.random.below(4)).filter_map(|_| self.key(depth)).collect();
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for kind in kinds {
            let same: Vec<_> = keys.iter().filter(|(other, _)| *other == kind).collect();
            let node = match same.is_empty() || self.random.percent(30) {
                true => self.aggregate(kind, depth),
                false => self.random.one(&same).1.clone(),
            };
            // An item is computed from keys and aggregates.
            let node = if self.random.percent(20) { self.or_constant(kind, node) } else { node };
            let (node, name) = self.named(node, kind, &columns, top);
            items.push(node);
            columns.push((name, kind));
        }
        let having = match self.random.percent(20) {
            true => {
                let node = self.aggregate_comparison(depth);
                optional(parts([text(" HAVING "), node]))
            }
            false => Node::Parts(Vec::new()),
        };
        let groups = self.groups(keys.into_iter().map(|(_, node)| node).collect());
        let behind = Behind { node: parts([groups, having]), ordered: false };
        (text(""), items, behind, columns)
    }

    /// Returns an expression to group by, if there is a suitable one.
    fn key(&mut self, depth: usize) -> Option<(Kind, Node)> {
        let kind = self.some_kind();
        let node = match self.random.percent(80) {
            true => self.column_of(kind)?,
            false => self.scalar(kind, 1, depth.max(2)),
        };
        // GROUP BY takes a constant for the number of a column.
        matches!(&node, Node::Expression(_, inner) if !is_constant(inner)).then_some((kind, node))
    }

    fn groups(&mut self, keys: Vec<Node>) -> Node {
        let list = |head, tail, items| Node::List { head, items, between: ", ", tail, least: 1 };
        if keys.is_empty() {
            return Node::Parts(Vec::new());
        }
        match self.random.below(10) {
            0 => list(" GROUP BY ROLLUP (", ")", keys),
            1 => list(" GROUP BY CUBE (", ")", keys),
            2 => {
                let mut sets: Vec<_> = keys.iter().map(|key| call("", vec![key.clone()])).collect();
                sets.push(parts([text("("), commas(keys), text(")")]));
                if self.random.percent(50) {
                    sets.push(text("()"));
                }
                list(" GROUP BY GROUPING SETS (", ")", sets)
            }
            _ => list(" GROUP BY ", "", keys),
        }
    }
}

fn is_constant(node: &Node) -> bool {
    let text = node.render(Dialect::Duck);
    !text.contains('.')
}

/// The parts of a SELECT: its head, items, clauses after WHERE, and the columns of its result.
type Columns = (Node, Vec<Node>, Behind, Vec<(String, Kind)>);

/// An item of a SELECT list and its name.
type Named = (Node, String);

/// The clauses after FROM and WHERE.
struct Behind {
    node: Node,
    /// True if the clauses contain an ORDER BY.
    ordered: bool,
}

impl Behind {
    fn nothing() -> Self {
        Self { node: Node::Parts(Vec::new()), ordered: false }
    }
}
