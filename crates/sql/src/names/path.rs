//! Search path: the schemas in which names without a schema are looked up, in order.
//!
//! The path is the session's default schema: one schema by its name, several as a list that
//! [`SearchPath::text`] formats. DataFusion looks up a name without a schema in the schema of that
//! name, which the catalog resolves to the schemas of the list.

use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::config::ConfigOptions;
use terrace_table::catalog::Snapshot;

use super::reserved::SYSTEM_SCHEMA;
use super::temporary::{TEMPORARY, is_temporary};

/// The schemas in which names without a schema are looked up, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    schemas: Vec<String>,
    /// Schema of the session's temporary objects, which is searched first.
    temporary: Option<String>,
}

impl SearchPath {
    /// Creates a path of these schemas.
    #[must_use]
    pub fn new(schemas: Vec<String>) -> Self {
        Self { schemas, temporary: None }
    }

    /// Parses names that are separated by commas. A name that has a comma in it is quoted.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (mut schemas, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
        for letter in text.chars() {
            match letter {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => schemas.push(std::mem::take(&mut name)),
                _ => {}
            }
            if letter != ',' || is_quoted {
                name.push(letter);
            }
        }
        schemas.push(name);
        let schemas = schemas.iter().map(|name| unquoted(name.trim()));
        let mut schemas: Vec<String> = schemas.filter(|name| !name.is_empty()).collect();
        let is_first = schemas.first().is_some_and(|name| is_temporary(name));
        let temporary = is_first.then(|| schemas.remove(0));
        Self { schemas, temporary }
    }

    /// The path of a session's settings.
    #[must_use]
    pub fn of(options: &ConfigOptions) -> Self {
        Self::parse(&options.catalog.default_schema)
    }

    /// The schema of the session's temporary objects, once there are any.
    #[must_use]
    pub(crate) fn temporary(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// The schemas, in order, without the one of temporary objects. They need not exist.
    #[must_use]
    pub fn schemas(&self) -> &[String] {
        &self.schemas
    }

    /// The names separated by commas, as [`SearchPath::parse`] reads them. A name is quoted if it
    /// contains a comma or a quote, or begins or ends with a blank.
    #[must_use]
    pub fn text(&self) -> String {
        let is_plain = |name: &String| !name.contains([',', '"']) && name.trim() == name;
        let quoted = |name: &String| match is_plain(name) {
            true => name.clone(),
            false => format!("\"{}\"", name.replace('"', "\"\"")),
        };
        self.schemas.iter().map(quoted).collect::<Vec<_>>().join(", ")
    }

    /// The text of the path after the schema `from` has been renamed `to`, a name that no schema
    /// had.
    #[must_use]
    pub(crate) fn renamed(&self, from: &str, to: &str) -> String {
        let known = self.schemas.iter().filter(|name| *name != to);
        let known = known.map(|name| if name == from { to } else { name.as_str() });
        let text = Self::new(known.map(str::to_owned).collect()).text();
        match &self.temporary {
            Some(temporary) => format!("{temporary}, {text}"),
            None => text,
        }
    }

    /// The first schema of the path that exists, in which objects are created.
    #[must_use]
    pub(crate) fn first(&self, snapshot: &Snapshot) -> Option<&str> {
        self.existing(snapshot).next()
    }

    /// The schemas of the path that exist, in order, without that of temporary objects.
    pub(crate) fn existing<'a>(&'a self, snapshot: &Snapshot) -> impl Iterator<Item = &'a str> {
        let exists = |name: &&str| *name == SYSTEM_SCHEMA || snapshot.has_schema(name);
        self.schemas.iter().map(String::as_str).filter(exists)
    }

    /// The first schema of the path that has a table or view of this name.
    fn home(&self, snapshot: &Snapshot, name: &str) -> Option<&str> {
        let has = |schema: &&String| match schema.as_str() {
            SYSTEM_SCHEMA => crate::system::names().any(|known| known == name),
            schema => snapshot.has_object(schema, name),
        };
        self.temporary.iter().chain(&self.schemas).find(has).map(String::as_str)
    }

    /// Resolves a reference, as [`resolve`].
    pub(crate) fn resolve(
        &self,
        catalog: &str,
        snapshot: &Snapshot,
        reference: TableReference,
    ) -> ResolvedTableReference {
        let schema = match &reference {
            TableReference::Bare { table } => self.home(snapshot, table),
            _ => None,
        };
        let schema = schema.or_else(|| self.first(snapshot));
        let schema = schema.unwrap_or_else(|| self.schemas.first().map_or("", String::as_str));
        let mut full = reference.resolve(catalog, schema);
        if let (TEMPORARY, Some(temporary)) = (full.schema.as_ref(), &self.temporary) {
            full.schema = temporary.as_str().into();
        }
        full
    }
}

/// Resolves a reference to the catalog and schema of an existing table or view, by the search path
/// of a session. Without such an object the schema is the one in which it would be created.
pub(crate) fn resolve(
    options: &ConfigOptions,
    snapshot: &Snapshot,
    reference: TableReference,
) -> ResolvedTableReference {
    SearchPath::of(options).resolve(&options.catalog.default_catalog, snapshot, reference)
}

/// A name without its quotes.
fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("\"\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_and_formatted() {
        for (text, schemas, formatted) in [
            ("public", vec!["public"], "public"),
            ("s1,public", vec!["s1", "public"], "s1, public"),
            (" s1 , \"a, b\" ", vec!["s1", "a, b"], "s1, \"a, b\""),
            ("\"it\"\"s\"", vec!["it\"s"], "\"it\"\"s\""),
            ("My Schema", vec!["My Schema"], "My Schema"),
            ("", vec![], ""),
            (",,", vec![], ""),
            ("\"", vec!["\""], "\"\"\"\""),
            ("s1, pg_temp_3", vec!["s1", "pg_temp_3"], "s1, pg_temp_3"),
        ] {
            let path = SearchPath::parse(text);
            assert_eq!(path.schemas(), schemas, "{text}");
            assert_eq!(path.text(), formatted, "{text}");
            assert_eq!(SearchPath::parse(&path.text()), path, "{text}");
        }
        let path = SearchPath::parse("pg_temp_3, s1");
        assert_eq!((path.temporary(), path.text().as_str()), (Some("pg_temp_3"), "s1"));
    }
}
