//! `nextval`, `currval`, `lastval` and `setval`: functions over the sequences of the database.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{Array as _, AsArray as _, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_sys::sync::lock;
use terrace_table::catalog::{Sequence, Snapshot};
use terrace_table::error::SqlError;

use super::path::SearchPath;
use super::shared::Shared;
use crate::access::{Privilege, Rights};
use crate::session::owner_of;

/// State of a session for its calls of sequence functions: its roles, and the numbers that it has
/// taken.
pub(crate) struct SequenceUse {
    login_role: Option<Arc<str>>,
    acting_role: Arc<Mutex<Option<Arc<str>>>>,
    /// True if transactions are READ ONLY by default.
    reads_only: Arc<AtomicBool>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// The last number that `nextval` took or `setval` set, by the number of the sequence.
    numbers: HashMap<u64, i64>,
    /// The last number taken by `nextval`, from any sequence.
    last: Option<i64>,
}

impl SequenceUse {
    /// The sequences of a session with these roles.
    pub(crate) fn new(
        login_role: Option<Arc<str>>,
        acting_role: Arc<Mutex<Option<Arc<str>>>>,
        reads_only: Arc<AtomicBool>,
    ) -> Self {
        Self { login_role, acting_role, reads_only, taken: Mutex::default() }
    }

    fn role(&self) -> Option<Arc<str>> {
        lock(&self.acting_role).clone().or_else(|| self.login_role.clone())
    }
}

/// The functions of a session.
pub(super) fn all(shared: &Arc<Shared>, session: &Arc<SequenceUse>) -> Vec<ScalarUDF> {
    let kinds = [Kind::Next, Kind::Current, Kind::Last, Kind::Set];
    let of = |kind| {
        let signature = match kind {
            Kind::Last => Signature::nullary(Volatility::Volatile),
            _ => Signature::user_defined(Volatility::Volatile),
        };
        let (shared, session) = (Arc::clone(shared), Arc::clone(session));
        ScalarUDF::from(SequenceFunction { kind, bound: vec![], signature, shared, session })
    };
    kinds.into_iter().map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

struct SequenceFunction {
    kind: Kind,
    /// Constant arguments, which are moved here so that the call in a plan has none: DataFusion
    /// treats a call with constant arguments as a constant, and drops sorts by it, although it is
    /// volatile.
    bound: Vec<ScalarValue>,
    signature: Signature,
    shared: Arc<Shared>,
    session: Arc<SequenceUse>,
}

impl fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.bound == other.bound
            && Arc::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_name = |data_type: &DataType| data_type.is_string() || data_type.is_null();
        let is_number = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
        let is_truth =
            |data_type: &DataType| matches!(data_type, DataType::Boolean | DataType::Null);
        match (self.kind, arg_types) {
            (Kind::Next | Kind::Current, [name]) if is_name(name) => Ok(vec![DataType::Utf8]),
            (Kind::Set, [name, value]) if is_name(name) && is_number(value) => {
                Ok(vec![DataType::Utf8, DataType::Int64])
            }
            (Kind::Set, [name, value, called])
                if is_name(name) && is_number(value) && is_truth(called) =>
            {
                Ok(vec![DataType::Utf8, DataType::Int64, DataType::Boolean])
            }
            (Kind::Set, _) => plan_err!(
                "setval takes the name of a sequence, a number, and true if it has been given"
            ),
            _ => plan_err!("{} takes the name of a sequence, as a text", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let literal = |arg: &Expr| match arg {
            Expr::Literal(value, _) => Some(value.clone()),
            _ => None,
        };
        let bound: Option<Vec<_>> = args.iter().map(literal).collect();
        let Some(bound) = bound.filter(|bound| !bound.is_empty()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let (shared, session) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        let signature = Signature::nullary(Volatility::Volatile);
        let function = Self { kind: self.kind, bound, signature, shared, session };
        Ok(ExprSimplifyResult::Simplified(ScalarUDF::from(function).call(vec![])))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.extend(self.bound.iter().cloned().map(ColumnarValue::Scalar));
        let numbers = match self.kind {
            Kind::Last => Int64Array::from_value(self.last()?, args.number_rows),
            _ => self.numbers(&args)?,
        };
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }
}

impl SequenceFunction {
    fn numbers(&self, args: &ScalarFunctionArgs) -> Result<Int64Array> {
        let rows = args.number_rows;
        if let (Kind::Next, [ColumnarValue::Scalar(name)]) = (self.kind, args.args.as_slice()) {
            let Some(name) = name.try_as_str().flatten() else {
                return Ok(Int64Array::new_null(rows));
            };
            let sequence = self.find(name, &args.config_options)?;
            return Ok(self.take(&sequence, rows)?.into());
        }
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let names = cast(&arrays[0], &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        let mut numbers = Vec::with_capacity(rows);
        for row in 0..rows {
            numbers.push(match arrays.iter().any(|array| array.is_null(row)) {
                true => None,
                false => {
                    let sequence = self.find(names.value(row), &args.config_options)?;
                    let value = arrays.get(1).map(|it| it.as_primitive::<Int64Type>().value(row));
                    let called = arrays.get(2).is_none_or(|it| it.as_boolean().value(row));
                    Some(self.number(&sequence, value.map(|value| (value, called)))?)
                }
            });
        }
        Ok(numbers.into())
    }

    /// Finds the sequence `name`, and checks that the role may use it.
    fn find(&self, name: &str, options: &ConfigOptions) -> Result<Arc<Sequence>, SqlError> {
        let snapshot = self.shared.now();
        let path = self.path(options, &snapshot);
        let catalog = options.catalog.default_catalog.as_str();
        let full = path.resolve(catalog, &snapshot, TableReference::parse_str(name));
        let (schema, name) = (full.schema.as_ref(), full.table.as_ref());
        let found = snapshot.sequence(schema, name).filter(|_| self.shared.is_visible(schema));
        let Some(sequence) = found else {
            let name = format!("{schema}.{name}");
            return Err(match snapshot.has_object(schema, full.table.as_ref()) {
                true => SqlError::Refused {
                    what: format!("{} of {name}, which is no sequence", self.name()),
                    instead: "name a sequence".to_owned(),
                },
                false => SqlError::Missing { name },
            });
        };
        self.refuse_without_rights(&snapshot, &sequence)?;
        Ok(sequence)
    }

    /// The search path, with the schema of temporary objects if there is one.
    fn path(&self, options: &ConfigOptions, snapshot: &Snapshot) -> SearchPath {
        let path = SearchPath::of(options);
        let temporary = self.shared.temporary.as_str();
        match path.temporary().is_none() && snapshot.has_schema(temporary) {
            true => SearchPath::parse(&format!("{temporary}, {}", path.text())),
            false => path,
        }
    }

    fn refuse_without_rights(
        &self,
        snapshot: &Snapshot,
        sequence: &Sequence,
    ) -> Result<(), SqlError> {
        let rights = Rights::new(snapshot, self.session.role());
        let (schema, name) = (sequence.schema_name(), Some(sequence.name()));
        let enough: &[Privilege] = match self.kind {
            Kind::Next => &[Privilege::Usage, Privilege::Update],
            Kind::Current | Kind::Last => &[Privilege::Usage, Privilege::Select],
            Kind::Set => &[Privilege::Update],
        };
        let mut denied = None;
        for privilege in enough {
            match rights.require(*privilege, schema, name) {
                Ok(()) => return Ok(()),
                Err(error) => denied = denied.or(Some(error)),
            }
        }
        let table = (self.kind == Kind::Next).then(|| identity_of(snapshot, sequence)).flatten();
        if table
            .is_some_and(|table| rights.require(Privilege::Insert, schema, Some(&table)).is_ok())
        {
            return Ok(());
        }
        Err(match denied {
            Some(SqlError::Denied { role, .. }) => {
                let (name, keyword) = (sequence.full_name(), enough[0].keyword());
                let what = format!(
                    "it lacks {keyword} on sequence {name}; GRANT {keyword} ON SEQUENCE {name} TO \
                     {role} gives it"
                );
                SqlError::Denied { role, what }
            }
            Some(other) => other,
            None => return Ok(()),
        })
    }

    /// Refuses a change in a read-only transaction.
    fn refuse_read_only(&self) -> Result<(), SqlError> {
        let what = format!("{}()", self.name());
        match lock(&self.shared.transaction).clone() {
            Some(transaction) => transaction.refuse_change(&what),
            None if self.session.reads_only.load(Ordering::Relaxed) => {
                Err(SqlError::ReadOnly { what })
            }
            None => Ok(()),
        }
    }

    fn take(&self, sequence: &Sequence, count: usize) -> Result<Vec<i64>, SqlError> {
        self.refuse_read_only()?;
        let numbers = sequence.next(count)?;
        if let Some(last) = numbers.last() {
            self.note(sequence, *last);
        }
        Ok(numbers)
    }

    fn note(&self, sequence: &Sequence, number: i64) {
        let mut taken = lock(&self.session.taken);
        taken.numbers.insert(sequence.id(), number);
        if self.kind == Kind::Next {
            taken.last = Some(number);
        }
    }

    /// The number of a call for one row.
    fn number(&self, sequence: &Sequence, set: Option<(i64, bool)>) -> Result<i64, SqlError> {
        match (self.kind, set) {
            (Kind::Set, Some((value, is_called))) => {
                self.refuse_read_only()?;
                sequence.set(value, is_called)?;
                if is_called {
                    self.note(sequence, value);
                }
                Ok(value)
            }
            (Kind::Current, _) => {
                let number = lock(&self.session.taken).numbers.get(&sequence.id()).copied();
                number.ok_or_else(|| SqlError::SequenceUnused {
                    what: format!("currval of sequence \"{}\"", sequence.name()),
                })
            }
            _ => Ok(self.take(sequence, 1)?.first().copied().unwrap_or_default()),
        }
    }

    fn last(&self) -> Result<i64, SqlError> {
        let last = lock(&self.session.taken).last;
        last.ok_or_else(|| SqlError::SequenceUnused { what: "lastval".to_owned() })
    }
}

/// The table of the identity column that a sequence belongs to.
fn identity_of(snapshot: &Snapshot, sequence: &Sequence) -> Option<String> {
    let (table, column) = owner_of(snapshot, sequence)?;
    table.properties().identity(&column).map(|_| table.name().to_owned())
}
