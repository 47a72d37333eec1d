//! Order in which views and functions can be created.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::SessionState;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::direct;
use super::object::{Kind, Object};

/// Returns all views and functions, each after those that it depends on.
///
/// # Errors
/// If a stored text is damaged.
pub(in crate::session) fn creation_order(
    state: &SessionState,
    snapshot: &Snapshot,
) -> Result<Vec<Object>, SqlError> {
    let schemas = snapshot.schemas();
    let all = schemas.iter().flat_map(|schema| Object::all_of(snapshot, schema));
    let all = all.filter(|object| matches!(object.kind(), Kind::View | Kind::Routine));
    let all: BTreeSet<Object> = all.collect();
    let mut users: BTreeMap<&Object, BTreeSet<Object>> = BTreeMap::new();
    let mut waits: BTreeMap<Object, usize> = BTreeMap::new();
    for object in &all {
        let on = BTreeSet::from([object.clone()]);
        let of = direct(state, snapshot, &on)?.into_iter().map(|it| it.object);
        let of: BTreeSet<Object> = of.filter(|it| it != object && all.contains(it)).collect();
        for user in &of {
            *waits.entry(user.clone()).or_default() += 1;
        }
        users.insert(object, of);
    }
    let mut ready: Vec<&Object> = all.iter().rev().filter(|it| !waits.contains_key(it)).collect();
    let mut ordered = Vec::with_capacity(all.len());
    while let Some(object) = ready.pop() {
        ordered.push(object.clone());
        for user in users.remove(object).unwrap_or_default() {
            let left = waits.get_mut(&user).map_or(0, |left| {
                *left -= 1;
                *left
            });
            if left == 0 {
                ready.extend(all.get(&user));
            }
        }
    }
    // Functions that call each other are left; they can be created in any order.
    let placed: BTreeSet<Object> = ordered.iter().cloned().collect();
    ordered.extend(all.difference(&placed).cloned());
    Ok(ordered)
}
