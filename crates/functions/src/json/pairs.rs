//! `jsonb_object`: an object of the texts of lists, as in PostgreSQL.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::function::{Argument, Call, Definition, Output};
use super::value::Value;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    let texts = &[Argument::Texts, Argument::Texts];
    vec![Definition::new(&["jsonb_object"], texts, Output::Json, object).optional(1)]
}

/// Names and values in turn, or names and their values; a value that is NULL is null.
fn object(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| {
        let Some(names) = call.items(0, row)? else { return Ok(None) };
        let pairs: Vec<_> = match call.count() {
            1 if names.len() % 2 != 0 => {
                return exec_err!("jsonb_object: the list has a name without a value");
            }
            1 => {
                let (names, values) = (names.iter().step_by(2), names.iter().skip(1).step_by(2));
                names.cloned().zip(values.cloned()).collect()
            }
            _ => {
                let Some(values) = call.items(1, row)? else { return Ok(None) };
                if names.len() != values.len() {
                    return exec_err!(
                        "jsonb_object: {} names have {} values",
                        names.len(),
                        values.len()
                    );
                }
                names.into_iter().zip(values).collect()
            }
        };
        let members = pairs.into_iter().map(|(name, value)| match name {
            Some(name) => {
                let value = value.map_or(Value::Word("null"), |it| Value::Text(Cow::Owned(it)));
                Ok((Cow::Owned(name), value))
            }
            None => exec_err!("jsonb_object: the name of a member cannot be NULL"),
        });
        let object = Value::Object(members.collect::<Result<Vec<_>>>()?);
        let mut out = String::new();
        object.normalized().write_normal(&mut out);
        Ok(Some(out))
    })
}
