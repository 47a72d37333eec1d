//! Objects of the catalog that others may depend on.

use terrace_table::catalog::{Draft, Snapshot, TextKind};
use terrace_table::error::SqlError;

use crate::names::SearchPath;
use crate::session::routines::lookup::stored;
use crate::session::routines::routine::Routine;
use crate::session::sql_type::identifier;

/// Kind of an object. The parts of a table are objects under the name of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum Kind {
    Table,
    View,
    Sequence,
    Type,
    /// A function or macro; its name is its key in the catalog.
    Routine,
    /// A column of a table.
    Column(String),
    /// The default of a column of a table.
    Default(String),
    /// A constraint of a table.
    Constraint(String),
}

/// An object, by its kind and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) struct Object {
    pub(super) kind: Kind,
    pub(super) schema: String,
    pub(super) name: String,
}

impl Object {
    pub(in crate::session) fn new(kind: Kind, schema: &str, name: &str) -> Self {
        Self { kind, schema: schema.to_owned(), name: name.to_owned() }
    }

    /// The table, view or sequence of a name; `None` if there is none.
    pub(in crate::session) fn relation(
        snapshot: &Snapshot,
        schema: &str,
        name: &str,
    ) -> Option<Self> {
        let kind = if snapshot.table(schema, name).is_some() {
            Kind::Table
        } else if snapshot.view(schema, name).is_some() {
            Kind::View
        } else {
            snapshot.sequence(schema, name).map(|_| Kind::Sequence)?
        };
        Some(Self::new(kind, schema, name))
    }

    pub(in crate::session) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The schema and the name. The name of a function is its key in the catalog, that of a part of
    /// a table is the name of the table.
    pub(in crate::session) fn full_name(&self) -> (&str, &str) {
        (&self.schema, &self.name)
    }

    /// All objects of a schema.
    pub(in crate::session) fn all_of(snapshot: &Snapshot, schema: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (kind, names) in
            [(Kind::Table, snapshot.table_names(schema)), (Kind::View, snapshot.view_names(schema))]
        {
            all.extend(names.iter().map(|name| Self::new(kind.clone(), schema, name)));
        }
        let sequences = snapshot.sequences(schema).into_iter();
        all.extend(sequences.map(|it| Self::new(Kind::Sequence, schema, it.name())));
        for (kind, texts) in [(Kind::Routine, TextKind::Function), (Kind::Type, TextKind::Type)] {
            let texts = snapshot.texts(texts, schema).into_iter();
            all.extend(texts.map(|(name, _)| Self::new(kind.clone(), schema, &name)));
        }
        all
    }

    /// True for a column, a default or a constraint.
    pub(super) fn is_part(&self) -> bool {
        self.table().is_some()
    }

    /// The table that the object is a part of; `None` for other objects.
    pub(super) fn table(&self) -> Option<Self> {
        match self.kind {
            Kind::Column(_) | Kind::Default(_) | Kind::Constraint(_) => {
                Some(Self::new(Kind::Table, &self.schema, &self.name))
            }
            _ => None,
        }
    }

    /// The name with its schema, quoted for a statement.
    pub(super) fn written(&self) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(&self.name))
    }

    /// The action of ALTER TABLE that drops the part of a table. `None` for any other object, and
    /// for the default of a column that is dropped too, as one of `others`.
    pub(super) fn dropping(&self, others: &[Self]) -> Option<String> {
        match &self.kind {
            Kind::Column(column) => {
                Some(format!("DROP COLUMN IF EXISTS {} CASCADE", identifier(column)))
            }
            Kind::Default(column) => {
                let whole = Self { kind: Kind::Column(column.clone()), ..self.clone() };
                let is_alone = !others.contains(&whole);
                is_alone.then(|| format!("ALTER COLUMN {} DROP DEFAULT", identifier(column)))
            }
            Kind::Constraint(name) => {
                Some(format!("DROP CONSTRAINT IF EXISTS {}", identifier(name)))
            }
            _ => None,
        }
    }

    /// The sequences of the columns of a table, which are dropped with it.
    pub(super) fn owned(&self, snapshot: &Snapshot) -> Vec<Self> {
        let found = snapshot.table(&self.schema, &self.name).filter(|_| self.kind == Kind::Table);
        let Some((table, _)) = found else { return Vec::new() };
        let sequences = table.properties().columns.values().filter_map(|it| it.sequence.as_ref());
        sequences.map(|name| Self::new(Kind::Sequence, &self.schema, name)).collect()
    }

    /// The name as it appears in texts of definitions: without schema and parameters.
    pub(super) fn bare_name(&self) -> &str {
        match self.kind {
            Kind::Routine => Routine::name_in(&self.name),
            _ => &self.name,
        }
    }

    /// The object in a message, such as `view v`. The schema is left out if it is on the path.
    pub(in crate::session) fn named(&self, path: &SearchPath, snapshot: &Snapshot) -> String {
        let is_visible = path.schemas().contains(&self.schema)
            || path.temporary().is_some_and(|temporary| temporary == self.schema);
        let schema = if is_visible { String::new() } else { format!("{}.", self.schema) };
        let name = &self.name;
        match &self.kind {
            Kind::Table => format!("table {schema}{name}"),
            Kind::View => format!("view {schema}{name}"),
            Kind::Sequence => format!("sequence {schema}{name}"),
            Kind::Type => format!("type {schema}{name}"),
            Kind::Column(column) => format!("column {column} of table {schema}{name}"),
            Kind::Default(column) => {
                format!("default value for column {column} of table {schema}{name}")
            }
            Kind::Constraint(constraint) => {
                format!("constraint {constraint} on table {schema}{name}")
            }
            Kind::Routine => {
                let object = snapshot.text(TextKind::Function, &self.schema, name);
                let routine = object.and_then(|object| stored(&object.text).ok());
                match routine {
                    Some(routine) => {
                        format!("{} {schema}{}", routine.noun(), routine.signature())
                    }
                    None => format!("function {schema}{}", identifier(self.bare_name())),
                }
            }
        }
    }

    /// Drops the object.
    ///
    /// # Errors
    /// Errors of the draft; [`SqlError::Task`] for a part of a table.
    pub(in crate::session) fn drop_from(&self, draft: &mut Draft) -> Result<(), SqlError> {
        let (schema, name) = (self.schema.as_str(), self.name.as_str());
        match &self.kind {
            Kind::Table => draft.drop_table(schema, name),
            Kind::View => draft.drop_view(schema, name),
            Kind::Sequence => draft.drop_sequence(schema, name),
            Kind::Type => draft.drop_text(TextKind::Type, (schema, name)),
            Kind::Routine => draft.drop_text(TextKind::Function, (schema, name)),
            Kind::Column(part) | Kind::Default(part) | Kind::Constraint(part) => {
                Err(SqlError::Task(format!("{part} of {schema}.{name} is dropped by ALTER TABLE")))
            }
        }
        .map(drop)
    }
}
