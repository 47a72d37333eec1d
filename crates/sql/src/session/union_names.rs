//! One name for each column of a union, in all of its inputs.
//!
//! The columns of a union have the names of its first input. DataFusion moves a projection above a
//! union into each of its inputs as it is, with these names, and then refuses the plan with an
//! internal error where an input has others. This rule, which runs before projections are moved,
//! renames the columns of such inputs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;

/// Gives the columns of the inputs of unions the names of the union.
#[derive(Debug)]
pub(super) struct UnionNames;

impl PhysicalOptimizerRule for UnionNames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let renamed = plan.transform_up(|node| {
            let Some(union) = node.downcast_ref::<UnionExec>() else {
                return Ok(Transformed::no(node));
            };
            if union.inputs().iter().all(|input| has_names_of(input, &node)) {
                return Ok(Transformed::no(node));
            }
            let inputs = union.inputs().iter().map(|input| renamed(input, &node));
            Ok(Transformed::yes(UnionExec::try_new(inputs.collect::<Result<_>>()?)?))
        });
        renamed.map(|renamed| renamed.data)
    }

    fn name(&self) -> &str {
        "UnionNames"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_names_of(input: &Arc<dyn ExecutionPlan>, union: &Arc<dyn ExecutionPlan>) -> bool {
    let (own, wanted) = (input.schema(), union.schema());
    own.fields().iter().zip(wanted.fields()).all(|(own, wanted)| own.name() == wanted.name())
}

/// Returns an input with the names of the union's columns.
fn renamed(
    input: &Arc<dyn ExecutionPlan>,
    union: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if has_names_of(input, union) {
        return Ok(Arc::clone(input));
    }
    let (own, wanted) = (input.schema(), union.schema());
    let columns = own.fields().iter().zip(wanted.fields()).enumerate();
    let columns = columns.map(|(index, (own, wanted))| ProjectionExpr {
        expr: Arc::new(Column::new(own.name(), index)),
        alias: wanted.name().clone(),
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(input))?))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn table(names: [&str; 2]) -> Arc<dyn ExecutionPlan> {
        let fields = names.map(|name| Field::new(name, DataType::Int64, true));
        Arc::new(EmptyExec::new(Arc::new(Schema::new(fields.to_vec()))))
    }

    fn projected() -> Arc<dyn ExecutionPlan> {
        let union = UnionExec::try_new(vec![table(["a", "b"]), table(["b", "a"])]).expect("union");
        let column = ProjectionExpr { expr: Arc::new(Column::new("b", 1)), alias: "b".to_owned() };
        Arc::new(ProjectionExec::try_new([column], union).expect("projection"))
    }

    #[test]
    fn a_projection_moves_into_inputs_of_other_names() {
        let config = ConfigOptions::default();
        let plan = UnionNames.optimize(projected(), &config).expect("renamed");
        let plan = ProjectionPushdown::new().optimize(plan, &config).expect("moved");
        assert_eq!(plan.schema().field(0).name(), "b");
    }

    #[test]
    fn datafusion_still_confuses_them() {
        let moved = ProjectionPushdown::new().optimize(projected(), &ConfigOptions::default());
        assert!(moved.is_err(), "this rule is no longer needed");
    }
}
