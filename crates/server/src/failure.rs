//! Errors in the form in which clients receive them.

use std::io;
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use terrace_sql::SqlError;
use terrace_sql::session::Notice;

/// An error class: PostgreSQL's code of five characters (`SQLSTATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SqlState(pub(crate) &'static str);

impl SqlState {
    pub(crate) const SUCCESS: Self = Self("00000");
    pub(crate) const PROTOCOL: Self = Self("08P01");
    pub(crate) const CONNECTION: Self = Self("08006");
    pub(crate) const UNSUPPORTED: Self = Self("0A000");
    pub(crate) const TOO_LONG: Self = Self("22001");
    pub(crate) const BAD_TEXT: Self = Self("22021");
    pub(crate) const OUT_OF_RANGE: Self = Self("22003");
    pub(crate) const SEQUENCE_END: Self = Self("2200H");
    pub(crate) const ZERO_DIVISION: Self = Self("22012");
    pub(crate) const INVALID_PARAMETER: Self = Self("22023");
    pub(crate) const INVALID_REGEX: Self = Self("2201B");
    pub(crate) const INVALID_LOGARITHM: Self = Self("2201E");
    pub(crate) const INVALID_POWER: Self = Self("2201F");
    pub(crate) const INVALID_LIMIT: Self = Self("2201W");
    pub(crate) const INVALID_OFFSET: Self = Self("2201X");
    pub(crate) const INVALID_TEXT: Self = Self("22P02");
    pub(crate) const INVALID_BINARY: Self = Self("22P03");
    pub(crate) const BAD_COPY: Self = Self("22P04");
    pub(crate) const DATA: Self = Self("22000");
    pub(crate) const CARDINALITY: Self = Self("21000");
    pub(crate) const NOT_NULL: Self = Self("23502");
    pub(crate) const CHECK: Self = Self("23514");
    pub(crate) const IN_TRANSACTION: Self = Self("25001");
    pub(crate) const READ_ONLY: Self = Self("25006");
    pub(crate) const NO_TRANSACTION: Self = Self("25P01");
    pub(crate) const FAILED_TRANSACTION: Self = Self("25P02");
    pub(crate) const IDLE_IN_TRANSACTION: Self = Self("25P03");
    pub(crate) const NO_SAVEPOINT: Self = Self("3B001");
    pub(crate) const CONFLICT: Self = Self("40001");
    pub(crate) const DEADLOCK: Self = Self("40P01");
    pub(crate) const IN_DOUBT: Self = Self("08007");
    pub(crate) const NO_LOGIN: Self = Self("28000");
    pub(crate) const WRONG_PASSWORD: Self = Self("28P01");
    pub(crate) const NO_STATEMENT: Self = Self("26000");
    pub(crate) const NO_PORTAL: Self = Self("34000");
    pub(crate) const NO_DATABASE: Self = Self("3D000");
    pub(crate) const NO_SCHEMA: Self = Self("3F000");
    pub(crate) const INVALID_GRANT: Self = Self("0LP01");
    pub(crate) const DENIED: Self = Self("42501");
    pub(crate) const SYNTAX: Self = Self("42601");
    pub(crate) const GENERATED_ALWAYS: Self = Self("428C9");
    pub(crate) const NO_COLUMN: Self = Self("42703");
    pub(crate) const AMBIGUOUS_COLUMN: Self = Self("42702");
    pub(crate) const NO_FUNCTION: Self = Self("42883");
    pub(crate) const AMBIGUOUS_FUNCTION: Self = Self("42725");
    pub(crate) const DUPLICATE_FUNCTION: Self = Self("42723");
    pub(crate) const NO_TABLE: Self = Self("42P01");
    pub(crate) const DUPLICATE_COLUMN: Self = Self("42701");
    pub(crate) const DUPLICATE_TABLE: Self = Self("42P07");
    pub(crate) const DUPLICATE_SCHEMA: Self = Self("42P06");
    pub(crate) const DUPLICATE_OBJECT: Self = Self("42710");
    pub(crate) const DUPLICATE_STATEMENT: Self = Self("42P05");
    pub(crate) const DUPLICATE_CURSOR: Self = Self("42P03");
    pub(crate) const CURSOR_DEFINITION: Self = Self("42P11");
    pub(crate) const INVALID_RECURSION: Self = Self("42P19");
    pub(crate) const NO_OBJECT: Self = Self("42704");
    pub(crate) const RULE: Self = Self("42000");
    pub(crate) const NOT_EMPTY: Self = Self("2BP01");
    pub(crate) const STATE: Self = Self("55000");
    pub(crate) const LOCK_TIMEOUT: Self = Self("55P03");
    pub(crate) const OUT_OF_MEMORY: Self = Self("53200");
    pub(crate) const TOO_MANY: Self = Self("53300");
    pub(crate) const LIMIT: Self = Self("53400");
    pub(crate) const TOO_LARGE: Self = Self("54000");
    pub(crate) const CANCELLED: Self = Self("57014");
    pub(crate) const TERMINATED: Self = Self("57P01");
    pub(crate) const IO: Self = Self("58030");
    pub(crate) const INTERNAL: Self = Self("XX000");
    pub(crate) const DAMAGED: Self = Self("XX001");
}

/// A failed statement, message or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    state: SqlState,
    text: String,
    /// Facts beside the text.
    detail: Option<String>,
    /// Advice on another way.
    hint: Option<&'static str>,
    /// True if the failure ends the connection.
    is_fatal: bool,
    /// True if the statement has exceeded its time limit.
    is_late: bool,
}

impl Failure {
    /// Returns a failure that the connection survives.
    pub(crate) fn new(state: SqlState, text: impl Into<String>) -> Self {
        let (detail, hint) = (None, None);
        Self { state, text: text.into(), detail, hint, is_fatal: false, is_late: false }
    }

    /// Returns a failure that ends the connection.
    pub(crate) fn fatal(state: SqlState, text: impl Into<String>) -> Self {
        Self { is_fatal: true, ..Self::new(state, text) }
    }

    /// Returns the failure of a statement that has reached its client's `statement_timeout`.
    pub(crate) fn late(limit: Duration) -> Self {
        let text = format!("the statement has run for statement_timeout, {limit:?}");
        Self { is_late: true, ..Self::new(SqlState::CANCELLED, text) }
    }

    /// Returns the failure with advice on another way, which clients show beside the text.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// True if [`Failure::late`] made this failure.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.is_fatal
    }

    /// Returns the error class.
    pub(crate) fn state(&self) -> SqlState {
        self.state
    }

    /// Returns the error's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the error's text and the facts beside it, for clients that show one text.
    pub(crate) fn whole_text(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {}", self.text, detail.replace('\n', ", ")),
            None => self.text.clone(),
        }
    }

    /// Returns the message that reports the failure to the client.
    pub(crate) fn message(&self) -> PgWireBackendMessage {
        let severity = if self.is_fatal { "FATAL" } else { "ERROR" };
        PgWireBackendMessage::ErrorResponse(ErrorResponse::new(self.fields(severity)))
    }

    /// Returns the failure as a warning, for a client whose statement goes on.
    pub(crate) fn warning(&self) -> PgWireBackendMessage {
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(self.fields("WARNING")))
    }

    /// Returns the message of a notice that a statement has given.
    pub(crate) fn notice(notice: &Notice) -> PgWireBackendMessage {
        let fields = Self::new(SqlState(notice.code), notice.text.as_str());
        let fields = fields.fields(notice.severity.as_str());
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
    }

    /// Returns a message for a client whose statement has succeeded.
    pub(crate) fn note(text: &str) -> PgWireBackendMessage {
        let fields = Self::new(SqlState::SUCCESS, text).fields("NOTICE");
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
    }

    fn fields(&self, severity: &str) -> Vec<(u8, String)> {
        // The wire protocol ends texts with a zero byte.
        let text = self.text.replace('\0', "\u{fffd}");
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.state.0.to_owned()),
            (b'M', text),
        ];
        fields.extend(self.detail.clone().map(|detail| (b'D', detail)));
        fields.extend(self.hint.map(|hint| (b'H', hint.to_owned())));
        fields
    }
}

/// An I/O error means a broken connection, so it is fatal.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::fatal(SqlState::CONNECTION, error.to_string())
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let state = state_of(&error);
        match error {
            SqlError::Dependents { what, details } => Self {
                detail: Some(details.join("\n")),
                hint: Some("Use DROP ... CASCADE to drop the dependent objects too."),
                ..Self::new(state, format!("cannot {what}"))
            },
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
        SqlError::LockTimeout { .. } => SqlState::LOCK_TIMEOUT,
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
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::AmbiguousReference { .. } => SqlState::AMBIGUOUS_COLUMN,
            _ => SqlState::NO_COLUMN,
        },
        DataFusionError::NotImplemented(text) if text.starts_with("Unsupported SQL type") => {
            SqlState::NO_OBJECT
        }
        DataFusionError::NotImplemented(_) => SqlState::UNSUPPORTED,
        DataFusionError::Configuration(text) if is_unknown_setting(text) => SqlState::NO_OBJECT,
        DataFusionError::ResourcesExhausted(_) => SqlState::OUT_OF_MEMORY,
        DataFusionError::ArrowError(error, _) => state_of_arrow(error),
        DataFusionError::Plan(text) if text.contains("not found") => SqlState::NO_TABLE,
        DataFusionError::Plan(text) if text.contains("Invalid function") => SqlState::NO_FUNCTION,
        DataFusionError::Plan(text) => state_of_plan(text),
        DataFusionError::Execution(text) => state_of_text(text).unwrap_or(SqlState::DATA),
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => SqlState::IO,
        DataFusionError::External(error) => match error.downcast_ref::<SqlError>() {
            Some(error) => state_of(error),
            None => state_of_regex(&error.to_string()),
        },
        _ => SqlState::INTERNAL,
    }
}

/// Returns the class of a refused request, as PostgreSQL has it: most are features that it has.
fn state_of_refusal(what: &str) -> SqlState {
    let is_miscounted = what.starts_with("an assignment of ")
        && what.ends_with(" columns")
        && !what.ends_with(" several columns");
    if is_miscounted || (what.starts_with("EXECUTE ") && what.ends_with(" parameters")) {
        SqlState::SYNTAX
    } else if what.starts_with("two columns of the name ") {
        SqlState::DUPLICATE_COLUMN
    } else if what.starts_with("the default ") && what.contains("Cannot cast string") {
        SqlState::INVALID_TEXT
    } else {
        SqlState::UNSUPPORTED
    }
}

/// Returns the class of an error of planning that only its text identifies.
fn state_of_plan(text: &str) -> SqlState {
    let classes = [
        ("LIMIT must be >= 0", SqlState::INVALID_LIMIT),
        ("OFFSET must be >=0", SqlState::INVALID_OFFSET),
        ("Step cannot be zero", SqlState::INVALID_PARAMETER),
        (" cannot be less than MINVALUE ", SqlState::INVALID_PARAMETER),
        (" cannot be greater than MAXVALUE ", SqlState::INVALID_PARAMETER),
        (" must be less than MAXVALUE ", SqlState::INVALID_PARAMETER),
    ];
    let class = classes.iter().find(|(part, _)| text.contains(part));
    class.map_or(SqlState::RULE, |(_, state)| *state)
}

fn state_of_regex(text: &str) -> SqlState {
    match text.contains("regex parse error") {
        true => SqlState::INVALID_REGEX,
        false => SqlState::INTERNAL,
    }
}

fn is_unknown_setting(text: &str) -> bool {
    text.starts_with("could not find config namespace")
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
        ArrowError::CastError(_) | ArrowError::ParseError(_) => SqlState::INVALID_TEXT,
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

/// Returns the class of an error that only its text identifies.
fn state_of_text(text: &str) -> Option<SqlState> {
    let is_prepared = text.starts_with("Prepared statement ");
    if is_prepared && text.ends_with("does not exist") {
        return Some(SqlState::NO_STATEMENT);
    }
    let classes = [
        ("regex parse error", SqlState::INVALID_REGEX),
        ("ivide by zero", SqlState::ZERO_DIVISION),
        ("ivision by zero", SqlState::ZERO_DIVISION),
        ("cannot take logarithm of ", SqlState::INVALID_LOGARITHM),
        ("cannot take square root of a negative", SqlState::INVALID_POWER),
        ("zero raised to a negative power", SqlState::INVALID_POWER),
        ("a negative number raised to a non-integer", SqlState::INVALID_POWER),
        ("factorial of a negative number", SqlState::OUT_OF_RANGE),
        ("verflow", SqlState::OUT_OF_RANGE),
        ("out of range", SqlState::OUT_OF_RANGE),
        ("value too long for type", SqlState::TOO_LONG),
        ("program limit exceeded", SqlState::TOO_LARGE),
        ("invalid input syntax for type", SqlState::INVALID_TEXT),
        ("non-nullable", SqlState::NOT_NULL),
        ("cancelled", SqlState::CANCELLED),
        // Of a correlated subquery, and of any other.
        ("more than one row returned by a subquery", SqlState::CARDINALITY),
        ("subquery returned more than one row", SqlState::CARDINALITY),
        ("unrecognized privilege type", SqlState::INVALID_PARAMETER),
    ];
    classes.iter().find(|(part, _)| text.contains(part)).map(|(_, state)| *state)
}

#[cfg(test)]
mod tests {
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
        assert!(Failure::from(io::Error::other("broken")).is_fatal());
    }
}
