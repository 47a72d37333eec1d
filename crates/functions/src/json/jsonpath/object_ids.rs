//! Ids of objects, for the method `keyvalue`.

use std::collections::HashMap;

use super::super::value::Value;

/// Assigns ids to the objects in the documents of an evaluation: 0, 1, ... in the order in which
/// they begin.
///
/// PostgreSQL's ids are offsets in its binary form; that of the whole document is 0 there too.
#[derive(Debug, Default)]
pub(super) struct ObjectIds<'v> {
    places: HashMap<*const Value<'v>, u64>,
}

impl<'v> ObjectIds<'v> {
    /// The id of `object`, which is in one of `documents`; all calls have the same documents.
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
