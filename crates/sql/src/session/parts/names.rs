//! Names of WITH queries in the parts of a statement.

use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, TableFactor, VisitorMut};

use super::super::column_options::normalized;
use super::super::walk::Walk;

/// The names of the relations that a part reads, of those that are not qualified by a schema.
pub(super) fn uses(node: &mut impl Walk) -> HashSet<String> {
    let mut uses = Uses::default();
    let _ = node.walk(&mut uses);
    uses.names
}

#[derive(Default)]
struct Uses {
    names: HashSet<String>,
    /// True until the walk has passed the target table of a change, which is no query of WITH.
    is_target: bool,
}

impl VisitorMut for Uses {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        self.is_target = matches!(
            statement,
            SqlStatement::Update(_) | SqlStatement::Delete(_) | SqlStatement::Merge(_)
        );
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && !mem::take(&mut self.is_target)
            && let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident()
        {
            self.names.insert(normalized(name.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// The queries of a WITH: the names of all, and those that each uses.
pub(super) struct Queries {
    pub(super) names: Vec<String>,
    pub(super) uses: Vec<HashSet<String>>,
}

impl Queries {
    /// For each query, true if a statement that uses these names needs it, directly or through
    /// other queries. Queries that are parts of their own are not searched for further uses.
    pub(super) fn needed(&self, uses: &HashSet<String>, is_part: &[bool]) -> Vec<bool> {
        let mut needed = vec![false; self.names.len()];
        let mut open = vec![uses];
        while let Some(uses) = open.pop() {
            for (place, name) in self.names.iter().enumerate() {
                if uses.contains(name) && !mem::replace(&mut needed[place], true) && !is_part[place]
                {
                    open.push(&self.uses[place]);
                }
            }
        }
        needed
    }
}
