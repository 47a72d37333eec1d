//! DataFusion's functions of texts extended to bytes, `length` also to lists; and `LIKE` of bytes.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::{core, string, unicode};
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::bytes::{FORMS, LENGTH, LIKE};
use crate::adapter::{Scalar as _, function};
use crate::lists;
use crate::scalar::Definition;

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let stock = [
        string::octet_length(),
        string::bit_length(),
        unicode::substr(),
        unicode::strpos(),
        string::btrim(),
        string::ltrim(),
        string::rtrim(),
        core::overlay(),
    ];
    let of_both = |texts: Arc<ScalarUDF>| {
        let form = FORMS.iter().find(|form| form.name() == texts.name());
        match form {
            Some(form) => Forms::function(texts, form, None),
            None => texts,
        }
    };
    let length = Forms::function(unicode::character_length(), &LENGTH, Some(lists::length()));
    stock.into_iter().map(of_both).chain([length]).collect()
}

/// A function of texts and its forms for bytes and lists.
#[derive(Debug)]
struct Forms {
    texts: Arc<ScalarUDF>,
    bytes: Arc<ScalarUDF>,
    lists: Option<Arc<ScalarUDF>>,
    signature: Signature,
}

impl Forms {
    fn function(
        texts: Arc<ScalarUDF>,
        bytes: &'static Definition,
        lists: Option<Arc<ScalarUDF>>,
    ) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        let bytes = function(bytes);
        Arc::new(ScalarUDF::new_from_impl(Self { texts, bytes, lists, signature }))
    }

    /// The form for a first argument of a type.
    fn of(&self, first: Option<&DataType>) -> &Arc<ScalarUDF> {
        match (first, &self.lists) {
            (Some(first), _) if is_bytes(first) => &self.bytes,
            (Some(first), Some(lists)) if first.is_list() => lists,
            _ => &self.texts,
        }
    }
}

fn is_bytes(of: &DataType) -> bool {
    matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

impl PartialEq for Forms {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Forms {}

impl Hash for Forms {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texts.hash(state);
    }
}

impl ScalarUDFImpl for Forms {
    fn name(&self) -> &str {
        self.texts.name()
    }

    fn aliases(&self) -> &[String] {
        self.texts.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let fields = given.iter().map(|of| Arc::new(Field::new("", of.clone(), true)));
        let fields: Vec<FieldRef> = fields.collect();
        let fields = fields_with_udf(&fields, self.of(given.first()).as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.of(given.first()).return_type(given)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let first = args.arg_fields.first().map(|field| field.data_type().clone());
        self.of(first.as_ref()).return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let first = args.first().and_then(|first| info.get_data_type(first).ok());
        self.of(first.as_ref()).simplify(args, info)
    }

    fn is_strict(&self) -> bool {
        self.texts.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = args.arg_fields.first().map(|field| field.data_type().clone());
        self.of(first.as_ref()).invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.texts.documentation()
    }
}

static BYTES_LIKE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(&LIKE));

/// Rewrites `LIKE` whose left side is bytes to a call of `bytes_like`.
#[derive(Debug)]
pub(crate) struct BytesLike;

impl FunctionRewrite for BytesLike {
    fn name(&self) -> &str {
        "bytes_like"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::Like(like) = expr else { return Ok(Transformed::no(expr)) };
        let is_of_bytes = like.expr.get_type(schema).is_ok_and(|of| is_bytes(&of));
        if like.case_insensitive || !is_of_bytes {
            return Ok(Transformed::no(Expr::Like(like)));
        }
        let Like { negated, expr, pattern, escape_char, .. } = like;
        let mut args = vec![*expr, *pattern];
        if let Some(escape) = escape_char {
            args.push(lit(ScalarValue::Binary(Some(escape.to_string().into_bytes()))));
        }
        let matches = BYTES_LIKE.call(args);
        Ok(Transformed::yes(if negated { !matches } else { matches }))
    }
}
