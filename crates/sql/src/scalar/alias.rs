//! A function of DataFusion under another name.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// A function of DataFusion under a name from other systems, since its own name denotes another
/// function here.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Renamed {
    function: Arc<ScalarUDF>,
    name: &'static str,
    aliases: Vec<String>,
}

impl Renamed {
    pub(crate) fn new(function: Arc<ScalarUDF>, name: &'static str, aliases: &[&str]) -> Self {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        Self { function, name, aliases }
    }
}

impl ScalarUDFImpl for Renamed {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.function.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}
