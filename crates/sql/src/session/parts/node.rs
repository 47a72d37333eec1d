//! Logical plan of a statement of several parts.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// The name of the node.
const NAME: &str = "StatementParts";

/// A part before the statement behind the WITH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Part {
    /// The name of the query of WITH.
    pub(super) name: String,
    pub(super) plan: LogicalPlan,
    /// The columns of its rows, if another part reads them.
    pub(super) rows: Option<SchemaRef>,
}

/// The parts of a statement, in the order in which they run.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct PartsNode {
    pub(super) parts: Vec<Part>,
    /// The statement behind the WITH, whose columns are those of the node.
    pub(super) main: LogicalPlan,
}

impl PartsNode {
    /// A plan of this node.
    pub(super) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The statement behind the WITH.
    pub(in super::super) fn main(&self) -> &LogicalPlan {
        &self.main
    }

    /// The same parts with another main statement.
    pub(in super::super) fn with_main(&self, main: LogicalPlan) -> LogicalPlan {
        Self { parts: self.parts.clone(), main }.into_plan()
    }

    /// True if the statement behind the WITH makes a table.
    pub(in super::super) fn is_definition(&self) -> bool {
        matches!(self.main, LogicalPlan::Ddl(_))
    }
}

/// The node of a plan, if it is that of a statement of several parts.
pub(in super::super) fn of(plan: &LogicalPlan) -> Option<&PartsNode> {
    match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

impl UserDefinedLogicalNodeCore for PartsNode {
    fn name(&self) -> &str {
        NAME
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.parts.iter().map(|part| &part.plan).chain([&self.main]).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.main.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parts.iter().map(|part| part.name.as_str()).collect();
        write!(f, "{NAME}: {}", names.join(", "))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(main) = inputs.pop().filter(|_| inputs.len() == self.parts.len()) else {
            return internal_err!("{NAME} has {} inputs", self.parts.len() + 1);
        };
        let parts = self.parts.iter().zip(inputs);
        let parts = parts.map(|(part, plan)| Part { plan, ..part.clone() }).collect();
        Ok(Self { parts, main })
    }
}

impl Hash for PartsNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inputs().hash(state);
    }
}

impl PartialOrd for PartsNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}
