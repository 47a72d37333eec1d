//! `if(condition, a, b)`, which is planned as CASE.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::conditional_expressions::CaseBuilder;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The value `a` where a condition is true, else the value `b`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Branch {
    signature: Signature,
    aliases: Vec<String>,
}

/// Returns the function.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let aliases = vec!["iff".to_owned()];
    Arc::new(ScalarUDF::new_from_impl(Branch { signature, aliases }))
}

impl ScalarUDFImpl for Branch {
    fn name(&self) -> &str {
        "if"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [condition, left, right] = arg_types else {
            return plan_err!("if takes a condition and two values");
        };
        if !matches!(condition, DataType::Boolean | DataType::Null) {
            return plan_err!("the condition of if is a boolean, not {condition}");
        }
        let Some(common) = type_union_coercion(left, right) else {
            return plan_err!("the values of if, {left} and {right}, have no common type");
        };
        Ok(vec![DataType::Boolean, common.clone(), common])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, value, _] => Ok(value.clone()),
            _ => internal_err!("if takes 3 values"),
        }
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [condition, left, right] = <[Expr; 3]>::try_from(args)
            .or_else(|args| internal_err!("if takes 3 values, not {}", args.len()))?;
        let otherwise = Some(Box::new(right));
        let case = CaseBuilder::new(None, vec![condition], vec![left], otherwise).end()?;
        Ok(ExprSimplifyResult::Simplified(case))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("if is planned as CASE")
    }
}
