//! Keywords: `pg_get_keywords()`, and the names that must be quoted.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
};

/// Keywords that PostgreSQL reserves and that the parser accepts as names in some places.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// True for a name that must be quoted.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The table function `pg_get_keywords()`.
#[derive(Debug)]
pub(in crate::pg_catalog) struct Keywords;

impl TableFunctionImpl for Keywords {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("pg_get_keywords takes no arguments");
        }
        let is_reserved = |index: &usize| {
            ALL_KEYWORDS_INDEX.get(*index).is_some_and(|keyword| {
                RESERVED_FOR_IDENTIFIER.contains(keyword)
                    || RESERVED_FOR_COLUMN_ALIAS.contains(keyword)
            })
        };
        let words = || ALL_KEYWORDS.iter().map(|word| word.to_lowercase());
        let reserved: Vec<bool> = words()
            .zip(0..)
            .map(|(word, index)| self::is_reserved(&word) || is_reserved(&index))
            .collect();
        let by = |yes: &'static str, no: &'static str| -> ArrayRef {
            let of = |is: &bool| Some(if *is { yes } else { no });
            Arc::new(reserved.iter().map(of).collect::<StringArray>())
        };
        let bare = reserved.iter().map(|is| Some(!*is)).collect::<BooleanArray>();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("word", Arc::new(words().map(Some).collect::<StringArray>())),
            ("catcode", by("R", "U")),
            ("barelabel", Arc::new(bare)),
            ("catdesc", by("reserved", "unreserved")),
            ("baredesc", by("requires AS", "can be bare label")),
        ];
        let fields = columns.iter().map(|(name, array)| {
            let is_truth = *array.data_type() == DataType::Boolean;
            Field::new(*name, if is_truth { DataType::Boolean } else { DataType::Utf8 }, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}
