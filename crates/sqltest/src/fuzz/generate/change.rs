//! Statements that change a table of the case, and the query that reads it.

use super::super::node::{Node, commas, optional, parts, text};
use super::super::types::{ColumnType, Kind};
use super::copy::TableCopy;
use super::{CHANGED, Case, Generator};

impl Generator<'_> {
    /// Returns a case that copies a table, changes the copy one to three times and reads all its
    /// rows, or those that a last change returns.
    pub(super) fn change(&mut self) -> Case {
        let (mut copy, mut statements) = self.copy();
        for _ in 0..self.random.between(1, 3) {
            let statement = match self.random.below(14) {
                0..=3 => self.update(&copy),
                4..=6 => self.delete(&copy),
                7..=9 => self.insert(&copy),
                10 | 11 => self.merge(&copy),
                _ => self.alteration(&mut copy),
            };
            statements.extend(statement);
        }
        let last = match self.random.percent(25) {
            true => self.returning(&copy),
            false => None,
        };
        statements.push(last.unwrap_or_else(|| text(format!("SELECT * FROM {CHANGED}"))));
        Case { statements }
    }

    /// Returns a change that returns columns of the changed rows. The peer reads moments with a
    /// time zone by running the statement within a query, where a change cannot be.
    fn returning(&mut self, copy: &TableCopy) -> Option<Node> {
        let columns = copy.columns.iter().map(|it| &it.own);
        let columns = columns.filter(|it| it.column.kind() != Kind::TimestampTz);
        let columns: Vec<_> = columns.map(|it| text(it.name.clone())).collect();
        if columns.is_empty() {
            return None;
        }
        let change = match self.random.below(3) {
            0 => self.delete(copy),
            1 => self.insert(copy),
            _ => self.update(copy),
        };
        Some(parts([change?, text(" RETURNING "), commas(columns)]))
    }

    fn update(&mut self, copy: &TableCopy) -> Option<Node> {
        self.scopes.push(copy.reach());
        let count = self.random.between(1, 2);
        let places = self.random.some(count, copy.columns.len());
        let mut items = Vec::new();
        for place in places {
            let column = copy.columns[place].own.clone();
            let value = self.assigned(column.column);
            items.push(parts([text(format!("{} = ", column.name)), value]));
        }
        let list = Node::List { head: "", items, between: ", ", tail: "", least: 1 };
        let filter = self.changed_rows();
        self.scopes.pop();
        Some(parts([text(format!("UPDATE {CHANGED} SET ")), list, filter]))
    }

    /// Returns a value of the column's own type, so that nothing overflows or is rounded.
    fn assigned(&mut self, column: ColumnType) -> Node {
        let scope = self.scopes.last().cloned().unwrap_or_default();
        let same: Vec<_> = scope.iter().filter(|name| name.exact == Some(column)).collect();
        let own = self.random.one(&same).text.clone();
        let value = match self.random.percent(15) {
            true => text("NULL"),
            false => {
                let value = column.value(self.random);
                let literal = |dialect| value.literal(column, dialect);
                use super::super::dialect::Dialect::{Duck, Terrace};
                Node::Each(literal(Terrace), literal(Duck))
            }
        };
        match self.random.below(3) {
            0 => value,
            1 => text(own),
            _ => {
                let predicate = self.simple_predicate();
                parts([
                    text("CASE WHEN "),
                    predicate,
                    text(" THEN "),
                    value,
                    text(format!(" ELSE {own} END")),
                ])
            }
        }
    }

    fn changed_rows(&mut self) -> Node {
        if self.random.percent(10) {
            return Node::Parts(Vec::new());
        }
        // Depth 1 allows a subquery, in a quarter of the conditions.
        let depth = if self.random.percent(25) { 1 } else { super::DEPTH_MAX };
        let predicate = self.predicate(depth, 1);
        optional(parts([text(" WHERE "), predicate]))
    }

    fn delete(&mut self, copy: &TableCopy) -> Option<Node> {
        self.scopes.push(copy.reach());
        let filter = self.changed_rows();
        self.scopes.pop();
        Some(parts([text(format!("DELETE FROM {CHANGED}")), filter]))
    }

    /// Returns an INSERT of rows of the copied table; `None` if the copy has none of its columns
    /// any more.
    fn insert(&mut self, copy: &TableCopy) -> Option<Node> {
        let (own, scope) = copy.shared_columns("s");
        if own.is_empty() {
            return None;
        }
        let sources: Vec<_> = scope.iter().map(|name| name.text.clone()).collect();
        self.scopes.push(scope);
        let filter = self.changed_rows();
        self.scopes.pop();
        let (own, sources) = (own.join(", "), sources.join(", "));
        let head = format!("INSERT INTO {CHANGED} ({own}) SELECT {sources} FROM {} s", copy.source);
        Some(parts([text(head), filter]))
    }

    /// Returns a MERGE of rows of the copied table, one for each key; `None` without two columns of
    /// it. Nulls among the keys match nothing, and are inserted.
    fn merge(&mut self, copy: &TableCopy) -> Option<Node> {
        let (own, scope) = copy.shared_columns("s");
        let is_key = |kind: Kind| matches!(kind, Kind::Int | Kind::Text | Kind::Date);
        let keys: Vec<_> = (0..own.len()).filter(|at| is_key(scope[*at].kind)).collect();
        let values: Vec<_> = (0..own.len()).filter(|at| scope[*at].kind != Kind::Bool).collect();
        if keys.is_empty() || values.len() < 2 {
            return None;
        }
        let key = *self.random.one(&keys);
        let values: Vec<_> = values.into_iter().filter(|at| *at != key).collect();
        let value = *self.random.one(&values);
        let (key_source, value_source) = (scope[key].text.clone(), scope[value].text.clone());
        self.scopes.push(scope);
        let filter = self.changed_rows();
        self.scopes.pop();
        self.scopes.push(copy.reach());
        let condition = optional(parts([text(" AND "), self.simple_predicate()]));
        self.scopes.pop();
        let (key, value) = (&own[key], &own[value]);
        let aggregate = *self.random.one(&["min", "max"]);
        let head = format!(
            "MERGE INTO {CHANGED} USING (SELECT {key_source} AS mk, \
             {aggregate}({value_source}) AS mv FROM {} s",
            copy.source
        );
        let matched = *self.random.one(&["DELETE", "UPDATE"]);
        let matched = match matched {
            "DELETE" => " THEN DELETE".to_owned(),
            _ => format!(" THEN UPDATE SET {value} = m.mv"),
        };
        let insert = format!(" WHEN NOT MATCHED THEN INSERT ({key}, {value}) VALUES (m.mk, m.mv)");
        Some(parts([
            text(head),
            filter,
            text(format!(" GROUP BY {key_source}) m ON {CHANGED}.{key} = m.mk WHEN MATCHED")),
            condition,
            text(matched),
            optional(text(insert)),
        ]))
    }
}
