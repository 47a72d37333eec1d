//! Methods of values.

use std::borrow::Cow;

use super::fault::{Found, fault};
use super::item::Item;
use super::number::{Number, of_double, with_sign};
use super::syntax::Method;

/// Returns the result of `method`, unless it is `.keyvalue()`, which has many; `single` is the
/// result of `.size()` for a value that is no array.
///
/// # Errors
/// If the method does not take the value.
pub(super) fn apply<'v>(
    method: Method,
    item: &Item<'v>,
    single: impl Fn() -> Found<Option<Item<'v>>>,
) -> Found<Option<Item<'v>>> {
    let result = match method {
        Method::Type => Item::Text(Cow::Borrowed(item.kind().name())),
        Method::Size => match item.elements() {
            Some(elements) => Item::Word(elements.len().to_string().into()),
            None => return single(),
        },
        Method::Double => double(item)?,
        Method::Abs => Item::Word(with_sign(number(method, item)?, true).into()),
        Method::Ceiling | Method::Floor => {
            let number = Number::of(number(method, item)?);
            match number.and_then(|it| it.rounded(method == Method::Ceiling)) {
                Some(rounded) => Item::Word(rounded.to_string().into()),
                None => {
                    return fault(format!(
                        "the JSON path method .{}() takes numbers of up to 38 digits",
                        method.name()
                    ));
                }
            }
        }
        Method::KeyValue => return Ok(None),
    };
    Ok(Some(result))
}

fn number<'i>(method: Method, item: &'i Item<'_>) -> Found<&'i str> {
    match item.number() {
        Some(number) => Ok(number),
        None => fault(format!("the JSON path method .{}() takes a number", method.name())),
    }
}

fn double<'v>(item: &Item<'v>) -> Found<Item<'v>> {
    let result = match (item.number(), item.text()) {
        (Some(number), _) => of_double(number).map(|_| item.clone()),
        (_, Some(text)) => of_double(text).map(|number| Item::Word(number.into())),
        _ => return fault("the JSON path method .double() takes a text or a number"),
    };
    match result {
        Some(result) => Ok(result),
        None => fault("the value of the JSON path method .double() is no double"),
    }
}
