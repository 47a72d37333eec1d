//! Statements that change a table of the case, and the query that reads it.

use super::super::node::{Node, optional, parts, text};
use super::super::schema::Table;
use super::super::types::ColumnType;
use super::{CHANGED, Case, Generator, Name};

impl Generator<'_> {
    /// Returns a case that copies a table, changes the copy one to three times and reads all its
    /// rows.
    pub(super) fn change(&mut self) -> Case {
        let table = self.random.one(self.tables).clone();
        let mut statements =
            vec![text(format!("CREATE TABLE {CHANGED} AS SELECT * FROM {}", table.name))];
        for _ in 0..self.random.between(1, 3) {
            let statement = match self.random.below(10) {
                0..=3 => self.update(&table),
                4..=7 => self.delete(&table),
                _ => self.insert(&table),
            };
            statements.push(statement);
        }
        statements.push(text(format!("SELECT * FROM {CHANGED}")));
        Case { statements }
    }

    /// Returns the columns of the changed table.
    fn reach(table: &Table) -> Vec<Name> {
        let name = |column: &super::super::schema::Column| Name {
            text: format!("{CHANGED}.{}", column.name),
            column: column.name.clone(),
            kind: column.column.kind(),
            exact: Some(column.column),
        };
        table.columns.iter().map(name).collect()
    }

    fn update(&mut self, table: &Table) -> Node {
        self.scopes.push(Self::reach(table));
        let places = self.random.some(self.random.clone().between(1, 2), table.columns.len());
        let mut items = Vec::new();
        for place in places {
            let column = table.columns[place].clone();
            let value = self.assigned(column.column);
            items.push(parts([text(format!("{} = ", column.name)), value]));
        }
        let list = Node::List { head: "", items, between: ", ", tail: "", least: 1 };
        let filter = self.changed_rows();
        self.scopes.pop();
        parts([text(format!("UPDATE {CHANGED} SET ")), list, filter])
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

    fn delete(&mut self, table: &Table) -> Node {
        self.scopes.push(Self::reach(table));
        let filter = self.changed_rows();
        self.scopes.pop();
        parts([text(format!("DELETE FROM {CHANGED}")), filter])
    }

    fn insert(&mut self, table: &Table) -> Node {
        let alias = "s";
        let mut scope = Self::reach(table);
        for name in &mut scope {
            name.text = format!("{alias}.{}", name.column);
        }
        let columns: Vec<_> = scope.iter().map(|name| name.text.clone()).collect();
        self.scopes.push(scope);
        let filter = self.changed_rows();
        self.scopes.pop();
        let columns = columns.join(", ");
        let head = format!("INSERT INTO {CHANGED} SELECT {columns} FROM {} {alias}", table.name);
        parts([text(head), filter])
    }
}
