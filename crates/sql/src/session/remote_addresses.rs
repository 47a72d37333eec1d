//! The addresses of remote files that a statement reads, itself or by its views.
//!
//! The planner looks one relation up after the other, and each file takes a request to its server.
//! The requests for all of a statement are sent at the same time before it is planned.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor, Value, ValueWithSpan, VisitorMut,
};
use terrace_cloud::address::Address;
use terrace_table::catalog::Snapshot;

use super::own_settings::text;
use super::walk::Walk as _;
use crate::names::SearchPath;
use crate::view;

/// Maximum depth of views within views that are searched.
const DEPTH_MAX: usize = 16;

/// Returns the addresses in a statement, and in the views that it names.
pub(super) fn all(statement: &Statement, path: &SearchPath, snapshot: &Snapshot) -> Vec<Address> {
    let mut search = Search {
        snapshot,
        path: path.clone(),
        views: HashSet::new(),
        depth: 0,
        found: BTreeSet::new(),
    };
    search.search(statement.clone());
    search.found.iter().filter_map(|text| Address::parse(text).ok().flatten()).collect()
}

/// Search for addresses.
struct Search<'a> {
    snapshot: &'a Snapshot,
    /// The schemas of names without one, in the statement or view that is searched.
    path: SearchPath,
    /// Schemas and names of the views that have been searched.
    views: HashSet<(String, String)>,
    depth: usize,
    found: BTreeSet<String>,
}

impl Search<'_> {
    fn search(&mut self, mut statement: Statement) {
        let _ = statement.walk(self);
    }

    /// Searches the views that a name may stand for.
    fn search_views(&mut self, name: &ObjectName) {
        let name = text(name);
        let mut parts = name.rsplit('.');
        let (Some(name), schema) = (parts.next(), parts.next()) else { return };
        let schemas = match schema {
            Some(schema) => vec![schema.to_owned()],
            None => self.path.schemas().to_vec(),
        };
        for schema in schemas {
            let Some(text) = self.snapshot.view(&schema, name) else { continue };
            let is_new = self.views.insert((schema, name.to_owned()));
            if !is_new || self.depth == DEPTH_MAX {
                continue;
            }
            let Ok((path, statement)) = view::written_query(&text) else { continue };
            let path = std::mem::replace(&mut self.path, SearchPath::parse(path));
            self.depth += 1;
            self.search(statement);
            self.depth -= 1;
            self.path = path;
        }
    }
}

impl VisitorMut for Search<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { name, args: None, .. } => {
                note(&mut self.found, &text(name));
                self.search_views(name);
            }
            // The log of a Delta table is read otherwise.
            TableFactor::Table { name, args: Some(args), .. }
                if !text(name).eq_ignore_ascii_case("delta_scan") =>
            {
                for arg in &mut args.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                        let _ = expr.walk(&mut Texts(&mut self.found));
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Notes the addresses among the texts of an argument, which may be a list.
struct Texts<'a>(&'a mut BTreeSet<String>);

impl VisitorMut for Texts<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = expr {
            note(self.0, text);
        }
        ControlFlow::Continue(())
    }
}

fn note(found: &mut BTreeSet<String>, text: &str) {
    if text.contains("://") {
        found.insert(text.to_owned());
    }
}
