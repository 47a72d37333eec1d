//! Relations in FROM whose rows depend on the order of other rows, or whose columns depend on
//! values: POSITIONAL JOIN, ASOF JOIN and PIVOT. Each is a subquery, so that its columns have
//! names.

use super::super::node::{Node, text};
use super::super::schema::{Column, Table};
use super::super::types::Kind;
use super::{Generator, Name};

/// The kinds by which ASOF joins order: their values are ordered in the same way everywhere.
const ORDERED: [Kind; 4] = [Kind::Int, Kind::Decimal, Kind::Date, Kind::Timestamp];

impl Generator<'_> {
    /// Returns one of these relations and its columns; `None` if no table has the columns for it.
    pub(super) fn relation(&mut self) -> Option<(Node, Vec<Name>)> {
        let (query, columns) = match self.random.below(3) {
            0 => self.positional(),
            1 => self.asof()?,
            _ => self.pivot()?,
        };
        let alias = self.alias();
        let names = columns.into_iter().map(|(column, kind)| Name {
            text: format!("{alias}.{column}"),
            column,
            kind,
            exact: None,
        });
        Some((text(format!("({query}) AS {alias}")), names.collect()))
    }

    /// Returns a query that joins two tables by position, each in an order of all columns, and its
    /// columns.
    fn positional(&mut self) -> (String, Vec<(String, Kind)>) {
        let left = self.random.one(self.tables).clone();
        let right = self.random.one(self.tables).clone();
        let (one, other) = (self.random.one(&left.columns), self.random.one(&right.columns));
        let join = format!("{} l POSITIONAL JOIN {} r", in_order(&left), in_order(&right));
        let query = format!("SELECT l.{} AS c0, r.{} AS c1 FROM {join}", one.name, other.name);
        (query, vec![("c0".to_owned(), kind(one)), ("c1".to_owned(), kind(other))])
    }

    /// Returns a query that joins each row of a table with the last row of another up to its key,
    /// and its columns; `None` if no columns suit.
    fn asof(&mut self) -> Option<(String, Vec<(String, Kind)>)> {
        let left = self.random.one(self.tables).clone();
        let right = self.random.one(self.tables).clone();
        let pairs = left.columns.iter().flat_map(|one| {
            let same = right.columns.iter().filter(|other| other.column == one.column);
            same.map(move |other| (one, other))
        });
        let pairs: Vec<_> = pairs.filter(|(one, _)| ORDERED.contains(&kind(one))).collect();
        let (one, other) = (!pairs.is_empty()).then(|| *self.random.one(&pairs))?;
        let value = self.random.one(&right.columns);
        let beside = self.random.one(&left.columns);
        // Of several rows with one key, any could be joined.
        let grouped = format!(
            "(SELECT {} AS kk, count({}) AS nn FROM {} GROUP BY {})",
            other.name, value.name, right.name, other.name
        );
        let join = *self.random.one(&["ASOF JOIN", "ASOF LEFT JOIN"]);
        let operator = *self.random.one(&[">=", ">", "<=", "<"]);
        let query = format!(
            "SELECT l.{} AS c0, r.kk AS c1, r.nn AS c2 FROM {} l {join} {grouped} r \
             ON l.{} {operator} r.kk",
            beside.name, left.name, one.name
        );
        let columns = vec![
            ("c0".to_owned(), kind(beside)),
            ("c1".to_owned(), kind(other)),
            ("c2".to_owned(), Kind::Int),
        ];
        Some((query, columns))
    }

    /// Returns a query with a column for each of two values of a table's column, and its columns;
    /// `None` if the table has fewer than three columns.
    fn pivot(&mut self) -> Option<(String, Vec<(String, Kind)>)> {
        let table = self.random.one(self.tables).clone();
        if table.columns.len() < 3 {
            return None;
        }
        let places = self.random.some(3, table.columns.len());
        let [group, key, value] = [0, 1, 2].map(|place| &table.columns[places[place]]);
        let values = match kind(key) {
            Kind::Int => ["1", "2"],
            Kind::Text => ["'a'", "'b'"],
            _ => return None,
        };
        let (aggregate, kind_of) = match kind(value) {
            Kind::Bool => ("count", Kind::Int),
            kind => (*self.random.one(&["min", "max"]), kind),
        };
        let query = format!(
            "SELECT * FROM (SELECT {} AS c0, {} AS kk, {} AS nn FROM {}) s \
             PIVOT ({aggregate}(nn) FOR kk IN ({} AS p0, {} AS p1))",
            group.name, key.name, value.name, table.name, values[0], values[1]
        );
        let pivoted = ["p0", "p1"].map(|name| (name.to_owned(), kind_of));
        Some((query, [("c0".to_owned(), kind(group))].into_iter().chain(pivoted).collect()))
    }
}

fn kind(column: &Column) -> Kind {
    column.column.kind()
}

/// Returns a subquery of a table in an order of all its columns.
fn in_order(table: &Table) -> String {
    let keys = table.columns.iter().map(|column| format!("{} ASC NULLS LAST", column.name));
    let keys: Vec<_> = keys.collect();
    format!("(SELECT * FROM {} ORDER BY {})", table.name, keys.join(", "))
}
