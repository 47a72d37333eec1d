//! PostgreSQL's functions that describe the connection, such as `current_user()`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::connection_info::ConnectionInfo;
use crate::settings::SERVER_VERSION;

/// A function without arguments that describes the connection.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fact {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Text(String),
    Number(i32),
    /// The user that statements run as.
    User(ActingUser),
}

/// The user that statements of a connection run as. Two are equal if they are of one connection.
#[derive(Clone, Debug)]
struct ActingUser(Arc<ConnectionInfo>);

impl PartialEq for ActingUser {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for ActingUser {}

impl Hash for ActingUser {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

/// Returns the functions that describe a connection.
pub(super) fn functions(place: &Arc<ConnectionInfo>) -> Vec<ScalarUDF> {
    let version = format!("PostgreSQL {SERVER_VERSION}");
    let facts: [(&'static str, &[&str], Kind); 5] = [
        ("version", &[], Kind::Text(version)),
        ("current_database", &["current_catalog"], Kind::Text(place.database.to_owned())),
        ("current_user", &["current_role", "user"], Kind::User(ActingUser(Arc::clone(place)))),
        ("session_user", &[], Kind::Text(place.user.clone())),
        ("pg_backend_pid", &[], Kind::Number(place.number)),
    ];
    let facts = facts.into_iter().map(|(name, aliases, kind)| {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let signature = Signature::nullary(Volatility::Stable);
        ScalarUDF::from(Fact { name, aliases, kind, signature })
    });
    facts.collect()
}

impl ScalarUDFImpl for Fact {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Number(_) => DataType::Int32,
            Kind::Text(_) | Kind::User(_) => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = match &self.kind {
            Kind::Text(text) => ScalarValue::from(text.as_str()),
            Kind::Number(number) => ScalarValue::from(*number),
            Kind::User(user) => ScalarValue::from(user.0.acting_user()),
        };
        Ok(ColumnarValue::Scalar(value))
    }
}
