//! FROM clauses: tables, subqueries and their joins.

use super::super::node::{Node, expression, optional, parts, text};
use super::super::types::Kind;
use super::expression::cast;
use super::{Generator, Name};

/// An operand of a join and its columns.
struct Source {
    node: Node,
    names: Vec<Name>,
}

/// Replaces the columns of one name, which an outer join has merged, by one that is named without a
/// table.
fn merge(scope: &mut Vec<Name>, column: &str) {
    let Some(first) = scope.iter().position(|name| name.column == column) else { return };
    let kind = scope[first].kind;
    scope.retain(|name| name.column != column);
    let (text, column) = (column.to_owned(), column.to_owned());
    scope.push(Name { text, column, kind, exact: None });
}

impl Generator<'_> {
    /// Returns a FROM clause of up to four sources, and the columns that later clauses may name.
    pub(super) fn from(&mut self, depth: usize) -> (Node, Vec<Name>) {
        let first = self.source(depth);
        let (mut nodes, mut scope) = (vec![text(" FROM "), first.node], first.names);
        let most = if depth == 0 { 3 } else { 1 };
        let joins = if self.random.percent(65) { self.random.between(1, most) } else { 0 };
        let joins = if self.random.percent(85) { joins.min(2) } else { joins };
        for _ in 0..joins {
            let right = self.source(depth);
            nodes.push(self.join(&mut scope, right, depth));
        }
        (Node::Parts(nodes), scope)
    }

    fn source(&mut self, depth: usize) -> Source {
        let nested = depth + 1 < super::DEPTH_MAX;
        match self.random.below(10) {
            0 if nested => self.derived(depth),
            // These relations read tables only, and name no columns of enclosing queries.
            5 if nested && self.random.percent(40) => match self.relation() {
                Some((node, names)) => Source { node, names },
                None => self.table(),
            },
            1..=4 if !self.common.is_empty() => self.common(),
            _ => self.table(),
        }
    }

    fn table(&mut self) -> Source {
        let table = self.random.one(self.tables).clone();
        let alias = self.alias();
        let name = |column: &super::super::schema::Column| Name {
            text: format!("{alias}.{}", column.name),
            column: column.name.clone(),
            kind: column.column.kind(),
            exact: Some(column.column),
        };
        let names = table.columns.iter().map(name).collect();
        Source { node: text(format!("{} {alias}", table.name)), names }
    }

    fn common(&mut self) -> Source {
        let (name, columns) = self.random.one(&self.common).clone();
        let alias = self.alias();
        let names = names(&alias, &columns);
        Source { node: text(format!("{name} {alias}")), names }
    }

    fn derived(&mut self, depth: usize) -> Source {
        // A subquery in FROM does not see the columns beside it; it names none of enclosing
        // queries, either.
        let outer = std::mem::take(&mut self.scopes);
        let made = self.query(depth + 1, None, false);
        self.scopes = outer;
        let alias = self.alias();
        let names = names(&alias, &made.columns);
        let node = parts([text("("), made.node, text(format!(") AS {alias}"))]);
        Source { node, names }
    }

    /// Returns a join that may be omitted. Adds its columns to the scope.
    fn join(&mut self, scope: &mut Vec<Name>, right: Source, depth: usize) -> Node {
        let kind = self.random.below(16);
        let (terrace, duck) = match kind {
            0..=5 => (" JOIN ", " JOIN "),
            6..=8 => (" LEFT JOIN ", " LEFT JOIN "),
            9 | 10 => (" RIGHT JOIN ", " RIGHT JOIN "),
            11 | 12 => (" FULL JOIN ", " FULL JOIN "),
            13 => (" LEFT SEMI JOIN ", " SEMI JOIN "),
            14 => (" LEFT ANTI JOIN ", " ANTI JOIN "),
            _ => {
                scope.extend(right.names);
                return optional(parts([text(" CROSS JOIN "), right.node]));
            }
        };
        let head = Node::Each(terrace.to_owned(), duck.to_owned());
        let using =
            if self.random.percent(25) { self.using(scope, &right.names) } else { Vec::new() };
        let condition = match using.is_empty() {
            true => self.condition(scope, &right.names, depth),
            false => text(format!(" USING ({})", using.join(", "))),
        };
        let is_outer = (9..=12).contains(&kind);
        if kind < 13 {
            scope.extend(right.names);
        }
        if is_outer {
            using.iter().for_each(|column| merge(scope, column));
        }
        optional(parts([head, right.node, condition]))
    }

    fn condition(&mut self, left: &[Name], right: &[Name], depth: usize) -> Node {
        let mut terms = Vec::new();
        let equal = if self.random.percent(92) { self.random.between(1, 2) } else { 0 };
        for _ in 0..equal {
            terms.extend(self.equality(left, right));
        }
        if terms.is_empty() && self.random.percent(50) {
            terms.extend(self.inequality(left, right));
        }
        if terms.is_empty() || self.random.percent(20) {
            let both = left.iter().chain(right).cloned().collect();
            self.scopes.push(both);
            // This depth prevents subqueries, which are of no use in the condition of a join.
            terms.push(self.predicate(depth.max(super::DEPTH_MAX), 1));
            self.scopes.pop();
        }
        let all = Node::List { head: "", items: terms, between: " AND ", tail: "", least: 1 };
        parts([text(" ON "), expression(Kind::Bool, all)])
    }

    /// Returns columns for USING, whose names are unambiguous and of one kind; empty if there are
    /// none.
    fn using(&mut self, left: &[Name], right: &[Name]) -> Vec<String> {
        let fits = |name: &&Name| {
            let same: Vec<_> = left.iter().filter(|other| other.column == name.column).collect();
            same.len() == 1 && same[0].kind == name.kind
        };
        let shared: Vec<_> = right.iter().filter(fits).collect();
        if shared.is_empty() {
            return Vec::new();
        }
        let count = self.random.between(1, 2.min(shared.len()));
        let places = self.random.some(count, shared.len());
        places.iter().map(|place| shared[*place].column.clone()).collect()
    }

    fn equality(&mut self, left: &[Name], right: &[Name]) -> Option<Node> {
        let pairs: Vec<_> = left
            .iter()
            .flat_map(|left| right.iter().map(move |right| (left, right)))
            .filter(|(left, right)| left.kind == right.kind || numbers(left.kind, right.kind))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        // Half of the joins with such a choice use columns of one name, as people write them.
        let named: Vec<_> = pairs.iter().filter(|(l, r)| l.column == r.column).copied().collect();
        let pairs = if named.is_empty() || self.random.percent(50) { pairs } else { named };
        let (one, right) = *self.random.one(&pairs);
        let operator = if self.random.percent(90) { "=" } else { "IS NOT DISTINCT FROM" };
        let key = match one.kind {
            Kind::Int if self.random.percent(15) => self.sum_of(one, left),
            _ => text(one.text.clone()),
        };
        let node = parts([
            expression(one.kind, key),
            text(format!(" {operator} ")),
            expression(right.kind, text(right.text.clone())),
        ]);
        let node = match operator {
            "=" => node,
            _ => parts([text("("), node, text(")")]),
        };
        Some(expression(Kind::Bool, node))
    }

    /// Returns a comparison of columns of both sides by their order.
    fn inequality(&mut self, left: &[Name], right: &[Name]) -> Option<Node> {
        let pairs: Vec<_> = left
            .iter()
            .flat_map(|left| right.iter().map(move |right| (left, right)))
            .filter(|(left, right)| left.kind == right.kind && left.kind != Kind::Bool)
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let (one, other) = *self.random.one(&pairs);
        let operator = *self.random.one(&["<", "<=", ">", ">="]);
        let node = parts([
            expression(one.kind, text(one.text.clone())),
            text(format!(" {operator} ")),
            expression(other.kind, text(other.text.clone())),
        ]);
        Some(expression(Kind::Bool, node))
    }

    /// Returns the sum of a column and another, mostly of another table, as a join key.
    fn sum_of(&mut self, one: &Name, names: &[Name]) -> Node {
        let others: Vec<_> = names.iter().filter(|name| name.kind == Kind::Int).collect();
        let other = *self.random.one(&others);
        parts([text("("), wide(one), text(" + "), wide(other), text(")")])
    }
}

/// Casts a column of whole numbers to the widest type.
fn wide(name: &Name) -> Node {
    cast(Kind::Int, text(name.text.clone()))
}

fn numbers(left: Kind, right: Kind) -> bool {
    matches!((left, right), (Kind::Int, Kind::Decimal) | (Kind::Decimal, Kind::Int))
}

fn names(alias: &str, columns: &[(String, Kind)]) -> Vec<Name> {
    let name = |(column, kind): &(String, Kind)| Name {
        text: format!("{alias}.{column}"),
        column: column.clone(),
        kind: *kind,
        exact: None,
    };
    columns.iter().map(name).collect()
}
