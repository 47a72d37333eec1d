//! The copy of a table that the statements of a case change, and changes of its columns.

use super::super::dialect::Dialect;
use super::super::node::{Node, text};
use super::super::schema::{Column, Table};
use super::super::types::{ColumnType, Kind};
use super::{CHANGED, Generator, Name};

/// The copy of a table, as the statements so far have changed it.
pub(super) struct TableCopy {
    /// The name of the copied table.
    pub(super) source: String,
    /// The columns of the copy that statements may assign.
    pub(super) columns: Vec<Copied>,
    /// The generated column of the copy, if it has one.
    generated: Option<Name>,
}

/// A column of the copy.
#[derive(Clone)]
pub(super) struct Copied {
    /// The column.
    pub(super) own: Column,
    /// Its name in the copied table; `None` if it was added.
    source: Option<String>,
}

impl TableCopy {
    /// Returns the columns that conditions may name.
    pub(super) fn reach(&self) -> Vec<Name> {
        let name = |column: &Copied| Name {
            text: format!("{CHANGED}.{}", column.own.name),
            column: column.own.name.clone(),
            kind: column.own.column.kind(),
            exact: Some(column.own.column),
        };
        self.columns.iter().map(name).chain(self.generated.clone()).collect()
    }

    /// Returns the columns that the copied table has too: their names in the copy, and those in the
    /// copied table with an alias.
    pub(super) fn shared_columns(&self, alias: &str) -> (Vec<String>, Vec<Name>) {
        let both = self.columns.iter().filter_map(|column| {
            let source = column.source.clone()?;
            let name = Name {
                text: format!("{alias}.{source}"),
                column: source,
                kind: column.own.column.kind(),
                exact: Some(column.own.column),
            };
            Some((column.own.name.clone(), name))
        });
        both.unzip()
    }
}

impl Generator<'_> {
    /// Returns a copy of a table, and the statements that create it.
    pub(super) fn copy(&mut self) -> (TableCopy, Vec<Node>) {
        let table = self.random.one(self.tables).clone();
        let copied =
            |column: &Column| Copied { own: column.clone(), source: Some(column.name.clone()) };
        let columns = table.columns.iter().map(copied).collect();
        let mut copy = TableCopy { source: table.name.clone(), columns, generated: None };
        if self.random.percent(20)
            && let Some(statements) = self.with_generated(&table, &mut copy)
        {
            return (copy, statements);
        }
        let temporary = if self.random.percent(25) { "TEMPORARY " } else { "" };
        let create = format!("CREATE {temporary}TABLE {CHANGED} AS SELECT * FROM {}", table.name);
        (copy, vec![text(create)])
    }

    /// Returns the statements that create the copy with a column that is computed from another one;
    /// `None` if no column suits.
    fn with_generated(&mut self, table: &Table, copy: &mut TableCopy) -> Option<Vec<Node>> {
        let is_narrow =
            |column: &ColumnType| matches!(column, ColumnType::Int { bits: 8..=32, .. });
        let suits =
            |column: &&Column| is_narrow(&column.column) || column.column.kind() == Kind::Text;
        let suitable: Vec<_> = table.columns.iter().filter(suits).collect();
        if suitable.is_empty() {
            return None;
        }
        let base = *self.random.one(&suitable);
        let (kind, expression) = match base.column.kind() {
            Kind::Int => (Kind::Int, format!("CAST({} AS BIGINT) * 2 + 1", base.name)),
            kind => (kind, format!("upper({})", base.name)),
        };
        copy.generated = Some(Name {
            text: format!("{CHANGED}.generated"),
            column: "generated".to_owned(),
            kind,
            exact: None,
        });
        // A column that another one is computed from stays.
        let place = copy.columns.iter().position(|it| it.own.name == base.name)?;
        copy.columns.swap(0, place);
        let create = |dialect| {
            let column = |it: &Column| format!("{} {}", it.name, it.column.name(dialect));
            let columns: Vec<_> = table.columns.iter().map(column).collect();
            let (of, stored) = (
                kind.wide().name(dialect),
                match dialect {
                    Dialect::Terrace => " STORED",
                    Dialect::Duck => "",
                },
            );
            format!(
                "CREATE TABLE {CHANGED} ({}, generated {of} GENERATED ALWAYS AS \
                 ({expression}){stored})",
                columns.join(", ")
            )
        };
        let names: Vec<_> = table.columns.iter().map(|it| it.name.as_str()).collect();
        let names = names.join(", ");
        let insert = format!("INSERT INTO {CHANGED} ({names}) SELECT {names} FROM {}", table.name);
        Some(vec![Node::Each(create(Dialect::Terrace), create(Dialect::Duck)), text(insert)])
    }

    /// Returns an ALTER TABLE, and changes the columns of the copy by it; `None` if none suits.
    pub(super) fn alteration(&mut self, copy: &mut TableCopy) -> Option<Node> {
        let count = copy.columns.len();
        // The first column may have another that is computed from it.
        let first = usize::from(copy.generated.is_some());
        let action = match self.random.below(4) {
            0 if !copy.columns.iter().any(|it| it.own.name == "added") => {
                let column = ColumnType::Int { bits: 32, signed: true };
                let own = Column { name: "added".to_owned(), column };
                copy.columns.push(Copied { own, source: None });
                "ADD COLUMN added INTEGER DEFAULT 7".to_owned()
            }
            1 if count > first + 1 => {
                let place = first + self.random.below(count - first);
                let removed = copy.columns.remove(place);
                format!("DROP COLUMN {}", removed.own.name)
            }
            2 if count > first => {
                let place = first + self.random.below(count - first);
                let name = &mut copy.columns[place].own.name;
                let old = name.clone();
                name.push_str("_new");
                format!("RENAME COLUMN {old} TO {name}")
            }
            3 => {
                let is_narrow =
                    |it: &Copied| matches!(it.own.column, ColumnType::Int { bits: 8..=32, .. });
                let place = copy.columns.iter().skip(first).position(is_narrow)? + first;
                copy.columns[place].own.column = ColumnType::Int { bits: 64, signed: true };
                format!("ALTER COLUMN {} TYPE BIGINT", copy.columns[place].own.name)
            }
            _ => return None,
        };
        Some(text(format!("ALTER TABLE {CHANGED} {action}")))
    }
}
