//! The schemas and relations of the database with their OIDs.

use std::collections::HashSet;

use terrace_sql::{Names, Relation, RelationKind, SearchPath, SequenceReport};

use super::definition::{self, Definition};
use super::oids;
use super::schemas::{INFORMATION_SCHEMA, SCHEMA};

/// A schema.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) oid: i64,
    pub(super) name: String,
}

/// A relation.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) oid: i64,
    pub(super) schema_oid: i64,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Kinds of relations.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A relation of the database.
    Own(RelationKind),
    /// A sequence of the database.
    Sequence(SequenceReport),
    /// A relation of `pg_catalog` or `information_schema`.
    Catalog(&'static Definition),
}

impl Object {
    /// `pg_class.relkind`
    pub(super) fn relkind(&self) -> &'static str {
        match &self.kind {
            Kind::Own(RelationKind::Table { .. }) => "r",
            Kind::Own(RelationKind::View(_) | RelationKind::System) => "v",
            Kind::Own(RelationKind::External) => "f",
            Kind::Sequence(_) => "S",
            Kind::Catalog(definition) => definition.kind,
        }
    }

    /// True for a relation that users have created.
    pub(super) fn is_of_user(&self) -> bool {
        match &self.kind {
            Kind::Own(kind) => *kind != RelationKind::System,
            Kind::Sequence(_) => true,
            Kind::Catalog(_) => false,
        }
    }

    /// Returns the number of rows and bytes of a table; `None` for another relation.
    pub(super) fn size(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Own(RelationKind::Table { rows, bytes, .. }) => Some((rows, bytes)),
            _ => None,
        }
    }

    /// Returns the query of a view; `None` for another relation.
    pub(super) fn query(&self) -> Option<&str> {
        match &self.kind {
            Kind::Own(RelationKind::View(query)) => Some(query),
            _ => None,
        }
    }
}

/// The schemas and relations of the database.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) schemas: Vec<Schema>,
    pub(super) relations: Vec<Object>,
}

impl Objects {
    /// Returns the objects that the session's next statement sees.
    pub(super) fn of(names: &Names) -> Self {
        let mut taken = HashSet::new();
        let mut schemas: Vec<Schema> = Vec::new();
        let own = names.schemas();
        let added = [SCHEMA, INFORMATION_SCHEMA];
        for name in own.iter().map(String::as_str).chain(added) {
            let oid = free(oids::of_schema(name), &mut taken);
            schemas.push(Schema { oid, name: name.to_owned() });
        }
        let mut objects = Self { schemas, relations: vec![] };
        let mut taken = HashSet::new();
        for definition in definition::all() {
            let (schema, name) = (definition.schema.to_owned(), definition.name.to_owned());
            taken.insert(definition.oid);
            objects.add(definition.oid, schema, name, Kind::Catalog(definition));
        }
        for Relation { schema, name, kind } in names.relations() {
            let oid = match &kind {
                RelationKind::Table { number, .. } => oids::of_table(*number),
                _ => oids::hashed(&[&schema, &name]),
            };
            objects.add(free(oid, &mut taken), schema, name, Kind::Own(kind));
        }
        for report in names.sequences() {
            let oid = free(oids::of_table(report.number), &mut taken);
            let (schema, name) = (report.schema.clone(), report.name.clone());
            objects.add(oid, schema, name, Kind::Sequence(report));
        }
        objects
    }

    fn add(&mut self, oid: i64, schema: String, name: String, kind: Kind) {
        let schema_oid = self.schema_oid(&schema).unwrap_or(0);
        self.relations.push(Object { oid, schema_oid, schema, name, kind });
    }

    /// Returns the OID of a schema.
    pub(super) fn schema_oid(&self, name: &str) -> Option<i64> {
        self.schemas.iter().find(|schema| schema.name == name).map(|schema| schema.oid)
    }

    /// Returns the relation with an OID.
    pub(super) fn relation(&self, oid: i64) -> Option<&Object> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }

    /// Returns the relation with a name: in `schema` if it is given, else in the first of these
    /// that has one: the temporary schema, `pg_catalog`, and the schemas of `path`.
    pub(super) fn named(
        &self,
        schema: Option<&str>,
        name: &str,
        path: &SearchPath,
    ) -> Option<&Object> {
        let path: Vec<&str> = match schema {
            Some(schema) => vec![schema],
            None => {
                let schemas = self.schemas.iter().map(|schema| schema.name.as_str());
                let temporary = schemas.filter(|schema| is_temporary(schema));
                let others = path.schemas().iter().map(String::as_str);
                temporary.chain([SCHEMA]).chain(others).collect()
            }
        };
        path.iter().find_map(|schema| {
            let is_it = |object: &&Object| object.schema == *schema && object.name == name;
            self.relations.iter().find(is_it)
        })
    }
}

/// True for the schema of the session's temporary objects; those of other sessions are hidden.
pub(super) fn is_temporary(schema: &str) -> bool {
    schema.starts_with("pg_temp_")
}

/// Returns `oid`, or the next one that is not taken, and adds it to `taken`.
fn free(mut oid: i64, taken: &mut HashSet<i64>) -> i64 {
    while !taken.insert(oid) {
        oid = oids::next(oid);
    }
    oid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oid_is_given_once() {
        let mut taken = HashSet::new();
        assert_eq!([7, 7, 7, 8].map(|oid| free(oid, &mut taken)), [7, 8, 9, 10]);
    }
}
