//! The SQLSTATE of an error: PostgreSQL's code by which clients tell errors apart.
//!
//! The SQLSTATE of a [`SqlError`] follows from its variant, even where a DataFusion error wraps it.
//! Errors of DataFusion, Arrow and functions that consist of a text are classified by parts of that
//! text.

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError, TableReference};
use terrace_sql::SqlError;

use crate::failure::Failure;
use crate::sql_state::SqlState;

/// A part of the text of an error, and the SQLSTATE of errors that contain it.
type Class = (&'static str, SqlState);

/// SQLSTATEs of errors of planning. The first entry counts whose part occurs in the text.
const PLANNING: &[Class] = &[
    ("must appear in the GROUP BY clause", SqlState::GROUPING),
    ("must be in GROUP BY or an aggregate function", SqlState::GROUPING),
    ("ggregate functions are not allowed", SqlState::GROUPING),
    ("Aggregate function calls cannot be nested", SqlState::GROUPING),
    ("indow functions are not allowed", SqlState::WINDOW),
    ("Window function calls cannot be nested", SqlState::WINDOW),
    ("RANGE with offset PRECEDING/FOLLOWING is not supported", SqlState::UNSUPPORTED),
    ("RANGE with offset PRECEDING/FOLLOWING requires", SqlState::WINDOW),
    ("GROUPS mode requires an ORDER BY clause", SqlState::WINDOW),
    ("Order by column out of bounds", SqlState::MISPLACED_COLUMN),
    ("Order by index starts at 1", SqlState::MISPLACED_COLUMN),
    ("Cannot find column with position ", SqlState::MISPLACED_COLUMN),
    ("For SELECT DISTINCT, ORDER BY expressions ", SqlState::MISPLACED_COLUMN),
    ("SELECT DISTINCT ON expressions must match", SqlState::MISPLACED_COLUMN),
    (" columns available but ", SqlState::MISPLACED_COLUMN),
    (" must not contain variables", SqlState::MISPLACED_COLUMN),
    // Syntax of PostgreSQL, with a type for all arguments.
    ("Failed to unify argument types", SqlState::TYPE_MISMATCH),
    ("No function matches the given name and argument types 'coalesce(", SqlState::TYPE_MISMATCH),
    ("No function matches the given name and argument types 'greatest(", SqlState::TYPE_MISMATCH),
    ("No function matches the given name and argument types 'least(", SqlState::TYPE_MISMATCH),
    ("No function matches the given name and argument types", SqlState::NO_FUNCTION),
    ("; cast the arguments", SqlState::NO_FUNCTION),
    (" argument but received ", SqlState::NO_FUNCTION),
    (" arguments but received ", SqlState::NO_FUNCTION),
    ("Cannot coerce arithmetic expression", SqlState::NO_FUNCTION),
    ("Cannot get result type for temporal operation", SqlState::NO_FUNCTION),
    ("There isn't a common type to coerce", SqlState::NO_FUNCTION),
    ("Cannot infer common argument type for comparison", SqlState::NO_FUNCTION),
    ("Unary operator '-'", SqlState::NO_FUNCTION),
    ("Unary operator 'NOT'", SqlState::TYPE_MISMATCH),
    ("Cannot infer common argument type for logical", SqlState::TYPE_MISMATCH),
    ("Cannot create filter with non-boolean predicate", SqlState::TYPE_MISMATCH),
    ("to common types in CASE WHEN expression", SqlState::TYPE_MISMATCH),
    ("LIMIT to be an integer or null, but got Utf8", SqlState::INVALID_TEXT),
    ("OFFSET to be an integer or null, but got Utf8", SqlState::INVALID_TEXT),
    (" to be an integer or null, but got ", SqlState::TYPE_MISMATCH),
    (" must be type bigint, not type ", SqlState::TYPE_MISMATCH),
    ("Unsupported CAST from ", SqlState::NO_CAST),
    (" queries have different number of columns", SqlState::SYNTAX),
    ("Inconsistent data length across values list", SqlState::SYNTAX),
    ("Column count doesn't match insert query", SqlState::SYNTAX),
    ("The subquery should only return one column", SqlState::SYNTAX),
    ("SELECT * with no tables specified", SqlState::SYNTAX),
    ("WITH query name ", SqlState::DUPLICATE_ALIAS),
    ("Invalid qualifier ", SqlState::NO_TABLE),
    ("Unsupported SQL type", SqlState::NO_OBJECT),
    ("is not a variable which can be viewed", SqlState::NO_OBJECT),
    ("LIMIT must be >= 0", SqlState::INVALID_LIMIT),
    ("OFFSET must be >=0", SqlState::INVALID_OFFSET),
    ("ESCAPE takes one character", SqlState::INVALID_ESCAPE),
    ("' is no time zone", SqlState::INVALID_PARAMETER),
    ("Step cannot be zero", SqlState::INVALID_PARAMETER),
    (" cannot be less than MINVALUE ", SqlState::INVALID_PARAMETER),
    (" cannot be greater than MAXVALUE ", SqlState::INVALID_PARAMETER),
    (" must be less than MAXVALUE ", SqlState::INVALID_PARAMETER),
    ("setting \"", SqlState::NO_OBJECT),
    ("Invalid function", SqlState::NO_FUNCTION),
    ("not found", SqlState::NO_TABLE),
];

/// SQLSTATEs of errors of values. The first entry counts whose part occurs in the text.
const VALUES: &[Class] = &[
    ("regex parse error", SqlState::INVALID_REGEX),
    ("malformed array literal", SqlState::INVALID_TEXT),
    ("invalid JSON at ", SqlState::INVALID_TEXT),
    ("date/time field value out of range", SqlState::DATE_OUT_OF_RANGE),
    (" in the text is out of range", SqlState::DATE_OUT_OF_RANGE),
    ("Unable to parse date from ", SqlState::DATE_OUT_OF_RANGE),
    ("invalid value \"", SqlState::INVALID_DATE),
    ("conflicting values for \"", SqlState::INVALID_DATE),
    ("ivide by zero", SqlState::ZERO_DIVISION),
    ("ivision by zero", SqlState::ZERO_DIVISION),
    ("cannot take logarithm of ", SqlState::INVALID_LOGARITHM),
    ("cannot take square root of a negative", SqlState::INVALID_POWER),
    ("zero raised to a negative power", SqlState::INVALID_POWER),
    ("a negative number raised to a non-integer", SqlState::INVALID_POWER),
    ("factorial of a negative number", SqlState::OUT_OF_RANGE),
    ("is too large to store in a Decimal", SqlState::OUT_OF_RANGE),
    ("verflow", SqlState::OUT_OF_RANGE),
    ("out of range", SqlState::OUT_OF_RANGE),
    ("value too long for type", SqlState::TOO_LONG),
    ("program limit exceeded", SqlState::TOO_LARGE),
    ("the texts of a batch of rows would have ", SqlState::TOO_LARGE),
    ("negative count not allowed", SqlState::INVALID_SUBSTRING),
    ("non-nullable", SqlState::NOT_NULL),
    ("cancelled", SqlState::CANCELLED),
    // The first is the error of a correlated subquery, the second that of any other subquery.
    ("more than one row returned by a subquery", SqlState::CARDINALITY),
    ("subquery returned more than one row", SqlState::CARDINALITY),
    ("invalid preceding or following size", SqlState::INVALID_DISTANCE),
    ("ing offset must not be negative", SqlState::INVALID_DISTANCE),
    ("ing offset must not be null", SqlState::NULL_DISTANCE),
    ("unrecognized privilege type", SqlState::INVALID_PARAMETER),
    ("Unsupported date_trunc granularity", SqlState::INVALID_PARAMETER),
    ("Date part '", SqlState::INVALID_PARAMETER),
    ("invalid Unicode scalar value", SqlState::INVALID_PARAMETER),
    (" is not in the format ", SqlState::INVALID_PARAMETER),
    ("was not provided a value for execution", SqlState::NO_PARAMETER),
];

/// Returns the SQLSTATE of the first entry of `classes` whose part occurs in `text`.
fn listed(classes: &[Class], text: &str) -> Option<SqlState> {
    classes.iter().find(|(part, _)| text.contains(part)).map(|(_, state)| *state)
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let state = state_of(&error);
        match error {
            SqlError::Dependents { what, details } => Self::new(state, format!("cannot {what}"))
                .with_detail(details.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."),
            error => Self::new(state, error.to_string()),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::from(SqlError::from(error))
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::from(SqlError::from(error))
    }
}

/// Returns the SQLSTATE of an error.
fn state_of(error: &SqlError) -> SqlState {
    match error {
        SqlError::DataFusion(error) => state_of_datafusion(error),
        SqlError::Arrow(error) => state_of_arrow(error),
        SqlError::NotNull { .. } => SqlState::NOT_NULL,
        SqlError::CheckViolated { .. } => SqlState::CHECK,
        SqlError::AffectedTwice => SqlState::CARDINALITY,
        SqlError::SequenceEnd { .. } => SqlState::SEQUENCE_END,
        SqlError::SequenceBounds { .. } => SqlState::OUT_OF_RANGE,
        SqlError::SequenceUnused { .. } => SqlState::STATE,
        SqlError::GeneratedAlways { .. } => SqlState::GENERATED_ALWAYS,
        SqlError::MissingColumn { .. } => SqlState::NO_COLUMN,
        SqlError::ColumnExists { .. } => SqlState::DUPLICATE_COLUMN,
        SqlError::MissingConstraint { .. } => SqlState::NO_OBJECT,
        SqlError::ConstraintExists { .. } => SqlState::DUPLICATE_OBJECT,
        SqlError::InUse { .. } | SqlError::TypeInUse { .. } | SqlError::Dependents { .. } => {
            SqlState::NOT_EMPTY
        }
        SqlError::Ambiguous { .. } => SqlState::AMBIGUOUS_FUNCTION,
        SqlError::Columns { .. } | SqlError::Sla(_) => SqlState::RULE,
        SqlError::ValueTooLarge { .. } => SqlState::TOO_LARGE,
        SqlError::Exists { name } => match name.split_once(' ') {
            Some(("function" | "macro", _)) => SqlState::DUPLICATE_FUNCTION,
            Some(("type" | "enum", _)) => SqlState::DUPLICATE_OBJECT,
            _ => SqlState::DUPLICATE_TABLE,
        },
        SqlError::SchemaExists { .. } => SqlState::DUPLICATE_SCHEMA,
        SqlError::TenantExists { .. }
        | SqlError::RoleExists { .. }
        | SqlError::HeapExists { .. } => SqlState::DUPLICATE_OBJECT,
        SqlError::TenantFull { .. } => SqlState::TOO_MANY,
        SqlError::TenantBusy { .. } | SqlError::TenantLimit { .. } => SqlState::LIMIT,
        SqlError::Denied { .. } | SqlError::NoAdminOption { .. } | SqlError::NoSuperuser => {
            SqlState::DENIED
        }
        SqlError::MembershipCycle { .. } => SqlState::INVALID_GRANT,
        SqlError::MissingQuery { .. }
        | SqlError::MissingTenant { .. }
        | SqlError::MissingRole { .. }
        | SqlError::MissingHeap { .. } => SqlState::NO_OBJECT,
        SqlError::Missing { name } => match name.split_once(' ') {
            Some(("function" | "macro", _)) => SqlState::NO_FUNCTION,
            Some(("type", _)) => SqlState::NO_OBJECT,
            _ => SqlState::NO_TABLE,
        },
        // The statement is valid, and finds the new table when it is run again.
        SqlError::Dropped { .. } => SqlState::CONFLICT,
        SqlError::MissingSchema { .. } => SqlState::NO_SCHEMA,
        SqlError::SchemaNotEmpty { .. } => SqlState::NOT_EMPTY,
        SqlError::Refused { what, .. } => state_of_refusal(what),
        SqlError::Recursion { .. } => SqlState::INVALID_RECURSION,
        SqlError::Conflict { .. } => SqlState::CONFLICT,
        SqlError::Deadlock { .. } => SqlState::DEADLOCK,
        SqlError::LockTimeout { .. } | SqlError::LockHeld { .. } => SqlState::LOCK_TIMEOUT,
        SqlError::TransactionFailed => SqlState::FAILED_TRANSACTION,
        SqlError::NoTransaction => SqlState::NO_TRANSACTION,
        SqlError::TransactionBegun | SqlError::InTransaction { .. } => SqlState::IN_TRANSACTION,
        SqlError::ReadOnly { .. } => SqlState::READ_ONLY,
        SqlError::MissingSavepoint { .. } => SqlState::NO_SAVEPOINT,
        SqlError::InDoubt { .. } => SqlState::IN_DOUBT,
        SqlError::Segment { .. } | SqlError::CatalogDamaged { .. } => SqlState::DAMAGED,
        SqlError::Pool(_) | SqlError::Store(_) | SqlError::Tier(_) | SqlError::Catalog { .. } => {
            SqlState::IO
        }
        _ => SqlState::INTERNAL,
    }
}

fn state_of_datafusion(error: &DataFusionError) -> SqlState {
    match error.find_root() {
        DataFusionError::SQL(..) => SqlState::SYNTAX,
        DataFusionError::SchemaError(error, _) => state_of_schema(error),
        DataFusionError::NotImplemented(text) => {
            listed(PLANNING, text).unwrap_or(SqlState::UNSUPPORTED)
        }
        DataFusionError::Configuration(text) if is_unknown_setting(text) => SqlState::NO_OBJECT,
        DataFusionError::ResourcesExhausted(_) => SqlState::OUT_OF_MEMORY,
        DataFusionError::ArrowError(error, _) => state_of_arrow(error),
        DataFusionError::Plan(text) => listed(PLANNING, text).unwrap_or(SqlState::RULE),
        DataFusionError::Execution(text) => state_of_text(text).unwrap_or(SqlState::DATA),
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => SqlState::IO,
        DataFusionError::External(error) => {
            if let Some(error) = error.downcast_ref::<SqlError>() {
                state_of(error)
            } else if let Some(failure) = error.downcast_ref::<Failure>() {
                failure.state()
            } else {
                state_of_regex(&error.to_string())
            }
        }
        _ => SqlState::INTERNAL,
    }
}

/// Returns the SQLSTATE of a request that the engine refuses; `what` is its description. Most are
/// features that only PostgreSQL has.
fn state_of_refusal(what: &str) -> SqlState {
    let is_miscounted = what.starts_with("an assignment of ")
        && what.ends_with(" columns")
        && !what.ends_with(" several columns");
    if is_miscounted || (what.starts_with("EXECUTE ") && what.ends_with(" parameters")) {
        SqlState::SYNTAX
    } else if what.starts_with("a join by column ") {
        SqlState::NO_COLUMN
    } else if (what.starts_with("DROP ") && what.contains(" of the "))
        || what.starts_with("LOCK TABLE of ")
        || what.starts_with("TRUNCATE of ")
    {
        SqlState::WRONG_OBJECT
    } else if what.starts_with("two columns of the name ") {
        SqlState::DUPLICATE_COLUMN
    } else if what.starts_with("the default ") && what.contains("Cannot cast string") {
        SqlState::INVALID_TEXT
    } else if what.starts_with("the window frame ") {
        SqlState::WINDOW
    } else {
        SqlState::UNSUPPORTED
    }
}

/// Returns the SQLSTATE of an error about the names of columns.
fn state_of_schema(error: &SchemaError) -> SqlState {
    match error {
        SchemaError::AmbiguousReference { .. } => SqlState::AMBIGUOUS_COLUMN,
        SchemaError::DuplicateQualifiedField { .. } => SqlState::DUPLICATE_ALIAS,
        SchemaError::DuplicateUnqualifiedField { .. } => SqlState::DUPLICATE_COLUMN,
        SchemaError::FieldNotFound { field, valid_fields } => {
            let Some(relation) = &field.relation else { return SqlState::NO_COLUMN };
            // The qualifier of a field is a relation, or a column of structs.
            let is_known = valid_fields.iter().any(|known| {
                let of = known.relation.as_ref().map(TableReference::table);
                of == Some(relation.table()) || known.name == relation.table()
            });
            if is_known { SqlState::NO_COLUMN } else { SqlState::NO_TABLE }
        }
    }
}

fn state_of_regex(text: &str) -> SqlState {
    match text.contains("regex parse error") {
        true => SqlState::INVALID_REGEX,
        false => SqlState::INTERNAL,
    }
}

fn is_unknown_setting(text: &str) -> bool {
    text.contains("ould not find config namespace")
        || (text.starts_with("Config value ") && text.contains(" not found on "))
}

fn state_of_arrow(error: &ArrowError) -> SqlState {
    match error {
        ArrowError::DivideByZero => SqlState::ZERO_DIVISION,
        ArrowError::ArithmeticOverflow(_) => SqlState::OUT_OF_RANGE,
        // A number beyond its new type; texts are quoted and called strings.
        ArrowError::CastError(text) if text.starts_with("Can't cast value") => {
            SqlState::OUT_OF_RANGE
        }
        ArrowError::CastError(text) if text.contains(". Overflowing on ") => SqlState::OUT_OF_RANGE,
        ArrowError::CastError(text) | ArrowError::ParseError(text) => {
            state_of_input(text).unwrap_or(SqlState::INVALID_TEXT)
        }
        ArrowError::ComputeError(text) | ArrowError::InvalidArgumentError(text) => {
            state_of_text(text).unwrap_or(SqlState::DATA)
        }
        ArrowError::ExternalError(error) => match error.downcast_ref::<DataFusionError>() {
            Some(error) => state_of_datafusion(error),
            None => SqlState::INTERNAL,
        },
        ArrowError::IoError(..) => SqlState::IO,
        _ => SqlState::INTERNAL,
    }
}

/// Returns the SQLSTATE of an error of values that only its text identifies.
fn state_of_text(text: &str) -> Option<SqlState> {
    if text.starts_with("Prepared statement ") {
        let is_missing = text.ends_with("does not exist");
        let exists = text.ends_with("already exists").then_some(SqlState::DUPLICATE_STATEMENT);
        return if is_missing { Some(SqlState::NO_STATEMENT) } else { exists };
    }
    state_of_input(text).or_else(|| listed(VALUES, text))
}

/// Returns the SQLSTATE of an error about a text that is not a value of its type; `None` for any
/// other error.
fn state_of_input(text: &str) -> Option<SqlState> {
    const MOMENTS: [&str; 7] = ["date", "time", "interval", "Date", "Time", "Interval", "Duration"];
    let is_of_moments = |of: &str| MOMENTS.iter().any(|moment| of.starts_with(moment));
    if let Some((_, of)) = text.split_once("invalid input syntax for type ") {
        let state = if is_of_moments(of) { SqlState::INVALID_DATE } else { SqlState::INVALID_TEXT };
        return Some(state);
    }
    if let Some((_, value)) = text.split_once("Error parsing timestamp from '") {
        let value = value.split('\'').next().unwrap_or_default();
        return Some(state_of_moment(value));
    }
    let (_, cast) = text.split_once("Cannot cast string '")?;
    let (value, of) = cast.rsplit_once("' to value of ")?;
    let digits = value.trim().trim_start_matches(['-', '+']);
    let is_integer = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    Some(match of {
        of if is_of_moments(of) => state_of_moment(value),
        of if is_integer && (of.starts_with("Int") || of.starts_with("UInt")) => {
            SqlState::OUT_OF_RANGE
        }
        _ => SqlState::INVALID_TEXT,
    })
}

/// Returns the SQLSTATE for `value`, a text that is no date or time: `DATE_OUT_OF_RANGE` if it has
/// the form of one but a field is out of range, else `INVALID_DATE`.
fn state_of_moment(value: &str) -> SqlState {
    let is_of_form = value.bytes().all(|it| it.is_ascii_digit() || b"-:./ T+Z".contains(&it));
    match is_of_form && value.bytes().any(|it| it.is_ascii_digit()) {
        true => SqlState::DATE_OUT_OF_RANGE,
        false => SqlState::INVALID_DATE,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::Column;

    use super::*;

    #[test]
    fn errors_have_classes() {
        let refused = SqlError::Refused { what: "it".to_owned(), instead: "that".to_owned() };
        assert_eq!(Failure::from(refused).state(), SqlState::UNSUPPORTED);
        let zero = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        let context = zero.context("while planning");
        assert_eq!(Failure::from(context).state(), SqlState::ZERO_DIVISION);
        let cast = |text: &str| Failure::from(ArrowError::CastError(text.to_owned())).state();
        assert_eq!(cast("Can't cast value 3000000000 to type Int32"), SqlState::OUT_OF_RANGE);
        assert_eq!(
            cast("Cannot cast string 'overflow' to value of Int32 type"),
            SqlState::INVALID_TEXT
        );
        let plan = |text: &str| Failure::from(DataFusionError::Plan(text.to_owned())).state();
        assert_eq!(plan("LIMIT must be >= 0, '-1' was provided"), SqlState::INVALID_LIMIT);
        assert_eq!(plan("a rule"), SqlState::RULE);
        assert_eq!(plan("Step cannot be zero"), SqlState::INVALID_PARAMETER);
        let power = |text: &str| Failure::from(ArrowError::ComputeError(text.to_owned())).state();
        let zero = "zero raised to a negative power is undefined";
        assert_eq!(power(zero), SqlState::INVALID_POWER);
        let logarithm = DataFusionError::Execution("cannot take logarithm of zero".to_owned());
        assert_eq!(Failure::from(logarithm).state(), SqlState::INVALID_LOGARITHM);
        let full = DataFusionError::ResourcesExhausted("no memory".to_owned());
        assert_eq!(Failure::from(full).state(), SqlState::OUT_OF_MEMORY);
        let missing = DataFusionError::Plan("table 'main.public.t' not found".to_owned());
        assert_eq!(Failure::from(missing).state(), SqlState::NO_TABLE);
        let several = DataFusionError::Execution("subquery returned more than one row".to_owned());
        assert_eq!(Failure::from(several).state(), SqlState::CARDINALITY);
        assert!(Failure::from(std::io::Error::other("broken")).is_fatal());
    }

    #[test]
    fn texts_that_are_no_values_have_the_class_of_their_type() {
        for (text, class) in [
            ("Cannot cast string 'abc' to value of Int32 type", SqlState::INVALID_TEXT),
            ("Cannot cast string '-99999999999' to value of Int32 type", SqlState::OUT_OF_RANGE),
            ("Cannot cast string '1.5' to value of Int64 type", SqlState::INVALID_TEXT),
            (
                "Cannot cast string '2024-02-30' to value of Date32 type",
                SqlState::DATE_OUT_OF_RANGE,
            ),
            ("Cannot cast string 'x' to value of Date32 type", SqlState::INVALID_DATE),
            ("Cannot cast string '' to value of Time64(\u{b5}s) type", SqlState::INVALID_DATE),
            (
                "Error parsing timestamp from '2024-13-01': error parsing date",
                SqlState::DATE_OUT_OF_RANGE,
            ),
            ("invalid input syntax for type interval: \"overflow\"", SqlState::INVALID_DATE),
            ("invalid input syntax for type uuid: \"1\"", SqlState::INVALID_TEXT),
        ] {
            assert_eq!(state_of_text(text), Some(class), "{text}");
        }
        assert_eq!(state_of_text("a disk is gone"), None);
    }

    #[test]
    fn a_missing_column_of_no_relation_is_a_missing_relation() {
        let class = |text: &str| {
            let field = Box::new(Column::from_qualified_name(text));
            let valid_fields = vec![Column::new(Some("t"), "k"), Column::new(Some("t"), "s")];
            state_of_schema(&SchemaError::FieldNotFound { field, valid_fields })
        };
        assert_eq!(class("x"), SqlState::NO_COLUMN);
        assert_eq!(class("t.x"), SqlState::NO_COLUMN);
        assert_eq!(class("s.x"), SqlState::NO_COLUMN);
        assert_eq!(class("u.k"), SqlState::NO_TABLE);
    }
}
