//! A statement as a tree that can be rendered for each database and be shrunk.
//!
//! The tree records which parts can be omitted or replaced, not what SQL means: an invalid smaller
//! statement is refused by both databases, so it is no candidate.

use super::dialect::Dialect;
use super::types::Kind;

/// A part of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A text that is the same for all databases.
    Text(String),
    /// A text for Terrace and one for DuckDB.
    Each(String, String),
    /// A sequence of parts that belong together.
    Parts(Vec<Node>),
    /// A part that may be omitted.
    Optional(Box<Node>),
    /// A list that must keep at least `least` items; an empty list is not written at all.
    List {
        /// Text before the first item.
        head: &'static str,
        /// The items.
        items: Vec<Node>,
        /// Text between two items.
        between: &'static str,
        /// Text after the last item.
        tail: &'static str,
        /// Minimum number of items.
        least: usize,
    },
    /// An expression; a part of the same kind, or a constant, may replace it.
    Expression(Kind, Box<Node>),
    /// A query; a part whose columns have the same kinds may replace it.
    Query(Vec<Kind>, Box<Node>),
    /// An expansion of a rule of a grammar; a part of the same rule, or a plain text, may replace
    /// it.
    Rule {
        /// The number of the rule.
        rule: usize,
        /// The plain text.
        plain: String,
        /// The expansion.
        node: Box<Node>,
    },
    /// `SELECT head items rest`, with the order and limit of its rows.
    Select {
        /// `DISTINCT`, or nothing.
        head: Box<Node>,
        /// The columns.
        items: Vec<Node>,
        /// The clauses from FROM on.
        rest: Box<Node>,
        /// The order by all columns, and the limit.
        top: Option<Top>,
    },
}

/// An order by every column of a result, so that tied rows are equal, and a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Top {
    /// For each column: true for descending, and true for nulls first.
    pub orders: Vec<(bool, bool)>,
    /// Number of rows, if limited.
    pub limit: Option<usize>,
    /// Number of rows skipped before them.
    pub offset: usize,
}

/// Makes a text.
pub fn text(text: impl Into<String>) -> Node {
    Node::Text(text.into())
}

/// Makes a sequence of parts that belong together.
pub fn parts(parts: impl IntoIterator<Item = Node>) -> Node {
    Node::Parts(parts.into_iter().collect())
}

/// Makes a part that may be omitted.
pub fn optional(node: Node) -> Node {
    Node::Optional(Box::new(node))
}

/// Makes an expression of a kind.
pub fn expression(kind: Kind, node: Node) -> Node {
    Node::Expression(kind, Box::new(node))
}

/// Makes a function call, or another construct with arguments in parentheses.
pub fn call(name: &str, arguments: Vec<Node>) -> Node {
    let mut nodes = vec![text(format!("{name}("))];
    for (index, argument) in arguments.into_iter().enumerate() {
        if index > 0 {
            nodes.push(text(", "));
        }
        nodes.push(argument);
    }
    nodes.push(text(")"));
    Node::Parts(nodes)
}

/// Makes a list with commas between its items, of which at least one must stay.
pub fn commas(items: Vec<Node>) -> Node {
    Node::List { head: "", items, between: ", ", tail: "", least: 1 }
}

impl Node {
    /// Returns the text for a database.
    #[must_use]
    pub fn render(&self, dialect: Dialect) -> String {
        let mut text = String::new();
        self.write(dialect, &mut text);
        text
    }

    fn write(&self, dialect: Dialect, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Each(terrace, _) if dialect == Dialect::Terrace => out.push_str(terrace),
            Self::Each(_, duck) => out.push_str(duck),
            Self::Parts(nodes) => nodes.iter().for_each(|node| node.write(dialect, out)),
            Self::Optional(node)
            | Self::Expression(_, node)
            | Self::Query(_, node)
            | Self::Rule { node, .. } => node.write(dialect, out),
            Self::List { head, items, between, tail, .. } if !items.is_empty() => {
                out.push_str(head);
                write_joined(items, between, dialect, out);
                out.push_str(tail);
            }
            Self::List { .. } => {}
            Self::Select { head, items, rest, top } => {
                out.push_str("SELECT ");
                head.write(dialect, out);
                write_joined(items, ", ", dialect, out);
                rest.write(dialect, out);
                if let Some(top) = top {
                    out.push_str(&top.render(items.len()));
                }
            }
        }
    }

    /// Returns all trees that are this one with one part omitted or replaced, the largest cuts
    /// first.
    #[must_use]
    pub fn smaller(&self) -> Vec<Node> {
        let mut found = self.cuts();
        match self {
            Self::Text(_) | Self::Each(..) => {}
            Self::Parts(nodes) => {
                found.extend(in_place(nodes).map(Self::Parts));
            }
            Self::Optional(node) => {
                found.extend(node.smaller().into_iter().map(|it| Self::Optional(Box::new(it))));
            }
            Self::Expression(kind, node) => {
                found.extend(node.smaller().into_iter().map(|it| expression(*kind, it)));
            }
            Self::Query(kinds, node) => {
                let smaller = node.smaller().into_iter();
                found.extend(smaller.map(|it| Self::Query(kinds.clone(), Box::new(it))));
            }
            Self::Rule { rule, plain, node } => {
                let smaller = node.smaller().into_iter();
                found.extend(smaller.map(|it| Self::Rule {
                    rule: *rule,
                    plain: plain.clone(),
                    node: Box::new(it),
                }));
            }
            Self::List { head, items, between, tail, least } => {
                let (head, between, tail, least) = (*head, *between, *tail, *least);
                let list = |items| Self::List { head, items, between, tail, least };
                found.extend(in_place(items).map(list));
            }
            Self::Select { head, items, rest, top } => {
                let select = |head: &Node, items: &[Node], rest: &Node| Self::Select {
                    head: Box::new(head.clone()),
                    items: items.to_vec(),
                    rest: Box::new(rest.clone()),
                    top: top.clone(),
                };
                found.extend(rest.smaller().into_iter().map(|it| select(head, items, &it)));
                found.extend(head.smaller().into_iter().map(|it| select(&it, items, rest)));
                found.extend(in_place(items).map(|it| select(head, &it, rest)));
            }
        }
        found
    }

    /// Returns the nodes that may replace this one.
    fn cuts(&self) -> Vec<Node> {
        match self {
            Self::Optional(_) => vec![Self::Parts(Vec::new())],
            Self::Expression(kind, node) => {
                let mut found =
                    node.within(|it| matches!(it, Self::Expression(other, _) if other == kind));
                let constants = kind.constants();
                let literal = matches!(&**node, Self::Text(_) | Self::Each(..));
                if !literal {
                    found.extend(constants.iter().map(|it| expression(*kind, text(*it))));
                }
                found
            }
            Self::Query(kinds, node) => {
                node.within(|it| matches!(it, Self::Query(other, _) if other == kinds))
            }
            Self::Rule { rule, plain, node } => {
                let mut found = Vec::new();
                if node.render(Dialect::Terrace) != *plain {
                    found.push(text(plain.clone()));
                }
                let same =
                    |it: &Self| matches!(it, Self::Rule { rule: other, .. } if other == rule);
                found.extend(node.within(same));
                found
            }
            Self::List { head, items, between, tail, least } if items.len() > *least => {
                let without = |index: usize| {
                    let mut items = items.clone();
                    items.remove(index);
                    Self::List { head, items, between, tail, least: *least }
                };
                (0..items.len()).map(without).collect()
            }
            Self::Select { head, items, rest, top } => {
                let select = |items: Vec<Node>, top: Option<Top>| Self::Select {
                    head: head.clone(),
                    items,
                    rest: rest.clone(),
                    top,
                };
                let mut found = Vec::new();
                if top.is_some() {
                    found.push(select(items.clone(), None));
                }
                for index in (0..items.len()).filter(|_| items.len() > 1) {
                    let (mut items, mut top) = (items.clone(), top.clone());
                    items.remove(index);
                    if let Some(top) = top.as_mut().filter(|top| index < top.orders.len()) {
                        top.orders.remove(index);
                    }
                    found.push(select(items, top));
                }
                found
            }
            _ => Vec::new(),
        }
    }

    /// Returns the nodes of this tree that are wanted.
    fn within(&self, is_wanted: impl Fn(&Node) -> bool) -> Vec<Node> {
        let mut found = Vec::new();
        self.inner(&mut |node| {
            if is_wanted(node) {
                found.push(node.clone());
            }
        });
        found
    }

    /// Visits this node and every node below it.
    fn inner(&self, visit: &mut dyn FnMut(&Node)) {
        visit(self);
        match self {
            Self::Text(_) | Self::Each(..) => {}
            Self::Parts(nodes) | Self::List { items: nodes, .. } => {
                nodes.iter().for_each(|node| node.inner(visit));
            }
            Self::Optional(node)
            | Self::Expression(_, node)
            | Self::Query(_, node)
            | Self::Rule { node, .. } => node.inner(visit),
            Self::Select { head, items, rest, .. } => {
                head.inner(visit);
                items.iter().for_each(|node| node.inner(visit));
                rest.inner(visit);
            }
        }
    }
}

impl Top {
    fn render(&self, columns: usize) -> String {
        let order = |(index, (descending, nulls_first)): (usize, &(bool, bool))| {
            let direction = if *descending { "DESC" } else { "ASC" };
            let nulls = if *nulls_first { "FIRST" } else { "LAST" };
            format!("{} {direction} NULLS {nulls}", index + 1)
        };
        let orders: Vec<_> = self.orders.iter().take(columns).enumerate().map(order).collect();
        let mut text = format!(" ORDER BY {}", orders.join(", "));
        if let Some(limit) = self.limit {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        if self.offset > 0 {
            text.push_str(&format!(" OFFSET {}", self.offset));
        }
        text
    }
}

fn write_joined(items: &[Node], between: &str, dialect: Dialect, out: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        item.write(dialect, out);
    }
}

/// Returns the lists that are `nodes` with one node replaced by a smaller one.
fn in_place(nodes: &[Node]) -> impl Iterator<Item = Vec<Node>> {
    nodes.iter().enumerate().flat_map(move |(index, node)| {
        node.smaller().into_iter().map(move |smaller| {
            let mut nodes = nodes.to_vec();
            nodes[index] = smaller;
            nodes
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Node {
        let sum = parts([
            text("("),
            expression(Kind::Int, text("a")),
            text(" + "),
            expression(Kind::Int, text("b")),
            text(")"),
        ]);
        let items = vec![expression(Kind::Int, sum), expression(Kind::Text, text("c"))];
        let filter = expression(Kind::Bool, text("a > 1"));
        let rest = parts([text(" FROM t"), optional(parts([text(" WHERE "), filter]))]);
        let top = Some(Top { orders: vec![(true, false); 2], limit: Some(3), offset: 0 });
        Node::Select { head: Box::new(text("")), items, rest: Box::new(rest), top }
    }

    #[test]
    fn smaller_trees_lack_one_part_each() {
        let want = "SELECT (a + b), c FROM t WHERE a > 1 ORDER BY 1 DESC NULLS LAST, \
                    2 DESC NULLS LAST LIMIT 3";
        assert_eq!(tree().render(Dialect::Duck), want);
        let smaller = tree().smaller();
        let texts: Vec<_> = smaller.iter().map(|node| node.render(Dialect::Duck)).collect();
        assert!(texts.contains(&"SELECT (a + b), c FROM t WHERE a > 1".to_owned()));
        let one = "SELECT c FROM t WHERE a > 1 ORDER BY 1 DESC NULLS LAST LIMIT 3";
        assert!(texts.contains(&one.to_owned()), "{texts:?}");
        assert!(texts.iter().any(|text| text.starts_with("SELECT a, c FROM t WHERE")));
        assert!(texts.iter().any(|text| text.starts_with("SELECT (a + b), c FROM t ORDER")));
        assert!(!texts.contains(&want.to_owned()));
    }
}
