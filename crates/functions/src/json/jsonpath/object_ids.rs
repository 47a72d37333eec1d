//! Ids of objects, for the method `keyvalue`.

use std::collections::HashMap;

use super::super::value::Value;

/// The ids of the objects of some documents: their places in the order of the texts.
///
/// PostgreSQL's are places in its binary form; that of the whole document is 0 here too.
#[derive(Debug, Default)]
pub(super) struct ObjectIds<'v> {
    places: HashMap<*const Value<'v>, u64>,
}

impl<'v> ObjectIds<'v> {
    /// The id of an object of one of the documents, which are those of every call.
    pub(super) fn of(
        &mut self,
        object: &'v Value<'v>,
        documents: impl IntoIterator<Item = &'v Value<'v>>,
    ) -> u64 {
        if self.places.is_empty() {
            documents.into_iter().for_each(|document| self.number(document));
        }
        self.places.get(&std::ptr::from_ref(object)).copied().unwrap_or(0)
    }

    fn number(&mut self, value: &'v Value<'v>) {
        match value {
            Value::Object(members) => {
                let id = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
                self.places.insert(std::ptr::from_ref(value), id);
                members.iter().for_each(|(_, value)| self.number(value));
            }
            Value::Array(elements) => elements.iter().for_each(|it| self.number(it)),
            _ => {}
        }
    }
}
