//! PostgreSQL's functions that describe the connection, such as `current_user()`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::place::Place;
use crate::settings::SERVER_VERSION;

/// A function without arguments.
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
    /// The schema in which names are resolved first.
    Schema,
    /// Null.
    Nothing,
}

/// Returns the functions of a connection.
pub(super) fn functions(place: &Place) -> Vec<ScalarUDF> {
    let version = format!("PostgreSQL {SERVER_VERSION}");
    let facts: [(&'static str, &[&str], Kind); 6] = [
        ("version", &[], Kind::Text(version)),
        ("current_database", &["current_catalog"], Kind::Text(place.database.to_owned())),
        ("current_schema", &[], Kind::Schema),
        ("current_user", &["session_user", "current_role", "user"], Kind::Text(place.user.clone())),
        // Advisory locks do not exist here.
        ("pg_advisory_unlock_all", &[], Kind::Nothing),
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
            Kind::Text(_) | Kind::Schema | Kind::Nothing => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = match &self.kind {
            Kind::Text(text) => ScalarValue::from(text.as_str()),
            Kind::Number(number) => ScalarValue::from(*number),
            Kind::Nothing => ScalarValue::Utf8(None),
            Kind::Schema => ScalarValue::from(args.config_options.catalog.default_schema.as_str()),
        };
        Ok(ColumnarValue::Scalar(value))
    }
}
