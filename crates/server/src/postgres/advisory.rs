//! Functions of advisory locks, such as `pg_try_advisory_lock`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::types::{NativeType, logical_int64, logical_string};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    Coercion, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, TypeSignatureClass, Volatility,
};

use crate::advisory_locks::{Key, LockError, Mode};
use crate::connection_info::ConnectionInfo;
use crate::failure::{Failure, SqlState};

/// A function of advisory locks in a connection. Two of one name and connection are equal.
#[derive(Debug)]
struct Advisory {
    name: String,
    action: Action,
    place: Arc<ConnectionInfo>,
    signature: Signature,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    /// Waits for the lock.
    Take(Mode),
    /// Takes the lock if it is free; true if it was.
    Try(Mode),
    /// Releases the lock once; true if it was held.
    Give { is_shared: bool },
    /// Releases all locks of the session.
    GiveAll,
}

/// Returns the signature of `count` integers. Clients send parameters as texts.
fn numbers(count: usize) -> TypeSignature {
    let sources = vec![TypeSignatureClass::Integer, TypeSignatureClass::Native(logical_string())];
    let number = TypeSignatureClass::Native(logical_int64());
    TypeSignature::Coercible(vec![
        Coercion::new_implicit(number, sources, NativeType::Int64);
        count
    ])
}

/// Returns the functions of a connection.
pub(super) fn functions(place: &Arc<ConnectionInfo>) -> Vec<ScalarUDF> {
    let function = |name: String, action| {
        let signature = match action {
            Action::GiveAll => Signature::nullary(Volatility::Volatile),
            _ => Signature::one_of(vec![numbers(1), numbers(2)], Volatility::Volatile),
        };
        let function = Advisory { name, action, place: Arc::clone(place), signature };
        match action {
            Action::Take(_) => AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf(),
            _ => ScalarUDF::from(function),
        }
    };
    let mut functions = vec![function("pg_advisory_unlock_all".to_owned(), Action::GiveAll)];
    for (is_shared, end) in [(false, ""), (true, "_shared")] {
        for (of_transaction, of) in [(false, ""), (true, "xact_")] {
            let mode = Mode { is_shared, of_transaction };
            functions.push(function(format!("pg_advisory_{of}lock{end}"), Action::Take(mode)));
            functions.push(function(format!("pg_try_advisory_{of}lock{end}"), Action::Try(mode)));
        }
        functions.push(function(format!("pg_advisory_unlock{end}"), Action::Give { is_shared }));
    }
    functions
}

impl PartialEq for Advisory {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.place.number) == (&other.name, other.place.number)
    }
}

impl Eq for Advisory {}

impl Hash for Advisory {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.place.number).hash(state);
    }
}

impl ScalarUDFImpl for Advisory {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.action {
            // An empty text, as clients show PostgreSQL's void.
            Action::Take(_) | Action::GiveAll => DataType::Utf8,
            Action::Try(_) | Action::Give { .. } => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (locks, connection) = (self.place.registry.advisory_locks(), self.place.number);
        let act = |key: Key| match self.action {
            Action::Try(mode) => locks.try_take(connection, key, mode).map_err(failed),
            Action::Give { is_shared } => Ok(locks.give(connection, key, is_shared)),
            Action::Take(_) | Action::GiveAll => {
                internal_err!("{} is called within a plan that waits", self.name)
            }
        };
        if let Action::GiveAll = self.action {
            locks.give_all(connection);
            return Ok(ColumnarValue::Array(Arc::new(empty_texts(vec![true; args.number_rows]))));
        }
        let keys = keys_of(&args)?.into_iter();
        let done = keys.map(|key| key.map(&act).transpose()).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(done))))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Advisory {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Action::Take(mode) = self.action else {
            return internal_err!("{} waits for nothing", self.name);
        };
        let keys = keys_of(&args)?;
        let mut done = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(key) = key {
                self.take(key, mode).await?;
            }
            done.push(key.is_some());
        }
        Ok(ColumnarValue::Array(Arc::new(empty_texts(done))))
    }
}

impl Advisory {
    /// Waits for a lock, at most for `lock_timeout`.
    async fn take(&self, key: Key, mode: Mode) -> Result<()> {
        let taking = self.place.registry.advisory_locks().take(self.place.number, key, mode);
        let taken = match self.place.settings.lock_timeout() {
            None => taking.await,
            Some(limit) => match tokio::time::timeout(limit, taking).await {
                Ok(taken) => taken,
                Err(_late) => Err(LockError::Timeout(limit)),
            },
        };
        taken.map_err(failed)
    }
}

/// Returns the error of a statement that does not get a lock.
fn failed(error: LockError) -> DataFusionError {
    let state = match error {
        LockError::Deadlock => SqlState::DEADLOCK,
        LockError::Timeout(_) => SqlState::LOCK_TIMEOUT,
        LockError::TooMany => SqlState::OUT_OF_MEMORY,
        LockError::Ended => SqlState::TERMINATED,
    };
    Failure::new(state, error.to_string()).into()
}

/// Returns an array of empty texts, with a null for each false.
fn empty_texts(are_there: Vec<bool>) -> StringArray {
    are_there.into_iter().map(|is_there| is_there.then_some("")).collect()
}

/// Returns the key of each row; `None` for a null.
fn keys_of(args: &ScalarFunctionArgs) -> Result<Vec<Option<Key>>> {
    let arrays = ColumnarValue::values_to_arrays(&args.args)?;
    let value = |array: &ArrayRef, row: usize| {
        // A constant has one value for all rows.
        let row = if array.len() == 1 { 0 } else { row };
        array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row))
    };
    let part = |value: i64| {
        i32::try_from(value).map_err(|_| exec_datafusion_err!("integer out of range: {value}"))
    };
    let key = |row| match arrays.as_slice() {
        [one] => Ok(value(one, row).map(Key::One)),
        [first, second] => match (value(first, row), value(second, row)) {
            (Some(first), Some(second)) => Ok(Some(Key::Pair(part(first)?, part(second)?))),
            _ => Ok(None),
        },
        _ => internal_err!("an advisory lock has one number or two"),
    };
    (0..args.number_rows).map(key).collect()
}
