//! Dependencies between objects of the catalog, for DROP with RESTRICT and CASCADE.
//!
//! They are those that PostgreSQL records. A view depends on the tables, views, sequences, types
//! and functions of its query; a column on its type; a default, a generated column or a constraint
//! on the sequences and types of its expression; a function on the types of its parameters and its
//! result, and on the objects of a body behind RETURN, but not on those of a body in a string.
//!
//! The catalog does not store dependencies. They are found in the texts of the definitions when an
//! object is dropped, so an object that replaces another (`CREATE OR REPLACE TABLE`) takes over its
//! dependents.

mod object;
pub(super) mod order;
mod uses;

use std::collections::BTreeSet;

use datafusion::execution::SessionState;
use terrace_table::catalog::{Draft, Snapshot, TextKind};
use terrace_table::error::SqlError;

use super::owned_sequences::owner_of;
use crate::names::SearchPath;
pub(super) use object::{Kind, Object};
use uses::Uses;

/// An object, and the one that it depends on.
struct Dependent {
    object: Object,
    on: Object,
}

/// Returns the dependents of `dropped`, which CASCADE drops with them, the most indirect first.
///
/// # Errors
/// [`SqlError::Dependents`] if there are any and `cascades` is false; [`SqlError::TypeInUse`] for a
/// part of a table, which only ALTER TABLE can drop; if a stored text is damaged.
pub(super) fn released(
    state: &SessionState,
    snapshot: &Snapshot,
    dropped: &[Object],
    cascades: bool,
) -> Result<Vec<Object>, SqlError> {
    let all = dependents(state, snapshot, dropped)?;
    if !all.is_empty() && !cascades {
        let path = SearchPath::of(state.config_options());
        let what = match dropped {
            [one] => {
                format!("drop {} because other objects depend on it", one.named(&path, snapshot))
            }
            _ => "drop desired object(s) because other objects depend on them".to_owned(),
        };
        return Err(SqlError::Dependents { what, details: described(&path, snapshot, &all) });
    }
    if let Some(part) = all.iter().find(|it| it.object.is_part()) {
        let path = SearchPath::default();
        let (what, column) = (&part.on, &part.object);
        return Err(SqlError::TypeInUse {
            what: format!("drop {}", what.named(&SearchPath::of(state.config_options()), snapshot)),
            column: column.named(&path, snapshot),
        });
    }
    Ok(all.into_iter().rev().map(|it| it.object).collect())
}

/// The change of a table whose columns, defaults or constraints depend on dropped objects.
pub(super) struct PartsOfTable {
    /// Text of the ALTER TABLE that drops these parts.
    pub(super) alter: String,
    /// The other dependents of the dropped objects, the most indirect ones first.
    pub(super) others: Vec<Object>,
}

/// Returns the change of the one table with parts (columns, defaults, constraints) that depend on
/// `dropped`. `None` if no table or more than one has such parts, or if one of the objects is the
/// sequence of an identity column.
///
/// # Errors
/// If a stored text is damaged.
pub(super) fn parts_of_table(
    state: &SessionState,
    snapshot: &Snapshot,
    dropped: &[Object],
) -> Result<Option<PartsOfTable>, SqlError> {
    let all = dependents(state, snapshot, dropped)?.into_iter().map(|it| it.object);
    let (parts, mut others): (Vec<_>, Vec<_>) = all.partition(Object::is_part);
    let tables: BTreeSet<_> = parts.iter().filter_map(Object::table).collect();
    let (Some(table), 1) = (tables.first(), tables.len()) else { return Ok(None) };
    // The sequence of an identity column goes with the column.
    let is_of_identity = |object: &Object| {
        let (schema, name) = object.full_name();
        let is_sequence = *object.kind() == Kind::Sequence;
        let sequence = snapshot.sequence(schema, name).filter(|_| is_sequence);
        let owner = sequence.and_then(|sequence| owner_of(snapshot, &sequence));
        owner.is_some_and(|(table, column)| table.properties().identity(&column).is_some())
    };
    if dropped.iter().any(is_of_identity) {
        return Ok(None);
    }
    let actions: Vec<_> = parts.iter().filter_map(|part| part.dropping(&parts)).collect();
    others.reverse();
    let alter = format!("ALTER TABLE {} {}", table.written(), actions.join(", "));
    Ok(Some(PartsOfTable { alter, others }))
}

/// Returns a sentence for each dependent of `dropped`: "view v depends on table t".
///
/// # Errors
/// If a stored text is damaged.
pub(super) fn details(
    state: &SessionState,
    snapshot: &Snapshot,
    dropped: &[Object],
) -> Result<Vec<String>, SqlError> {
    let path = SearchPath::of(state.config_options());
    Ok(described(&path, snapshot, &dependents(state, snapshot, dropped)?))
}

/// Returns the objects that depend on those of `on`, directly or indirectly.
///
/// # Errors
/// If a stored text is damaged.
pub(super) fn all_dependents(
    state: &SessionState,
    snapshot: &Snapshot,
    on: &[Object],
) -> Result<Vec<Object>, SqlError> {
    Ok(dependents(state, snapshot, on)?.into_iter().map(|it| it.object).collect())
}

fn described(path: &SearchPath, snapshot: &Snapshot, all: &[Dependent]) -> Vec<String> {
    let name = |object: &Object| object.named(path, snapshot);
    let detail = |it: &Dependent| format!("{} depends on {}", name(&it.object), name(&it.on));
    all.iter().map(detail).collect()
}

/// Drops objects and, if `cascades` is true, their dependents. Returns the dropped dependents.
///
/// # Errors
/// As [`released`]; errors of the draft.
pub(super) fn drop_all(
    state: &SessionState,
    draft: &mut Draft,
    dropped: &[Object],
    cascades: bool,
) -> Result<Vec<Object>, SqlError> {
    if dropped.is_empty() {
        return Ok(Vec::new());
    }
    let snapshot = draft.snapshot().clone();
    draft.depend_on_views_of(&snapshot)?;
    let others = released(state, &snapshot, dropped, cascades)?;
    others.iter().chain(dropped).try_for_each(|object| object.drop_from(draft))?;
    Ok(others)
}

/// Refuses a rename of an object that others use, because their texts contain its name. `what` is
/// the verb of the error: "rename".
///
/// # Errors
/// [`SqlError::InUse`]; if a stored text is damaged.
pub(super) fn refuse_used(
    state: &SessionState,
    snapshot: &Snapshot,
    object: &Object,
    what: &str,
) -> Result<(), SqlError> {
    let users = direct(state, snapshot, &BTreeSet::from([object.clone()]))?;
    let path = SearchPath::of(state.config_options());
    match users.into_iter().find(|user| user.object != *object) {
        None => Ok(()),
        Some(user) => Err(SqlError::InUse {
            what: format!("{what} {}", object.named(&path, snapshot)),
            view: user.object.named(&path, snapshot),
        }),
    }
}

/// Refuses the change `what` if there are any `users`: objects whose texts it would make invalid.
///
/// # Errors
/// [`SqlError::InUse`].
pub(super) fn refuse_users(
    what: &str,
    path: &SearchPath,
    snapshot: &Snapshot,
    users: impl IntoIterator<Item = Object>,
) -> Result<(), SqlError> {
    let mut names = users.into_iter().map(|user| user.named(path, snapshot));
    let Some(first) = names.next() else { return Ok(()) };
    let others = names.collect::<Vec<_>>().join(", ");
    let view = if others.is_empty() { first } else { format!("{first} (and {others})") };
    Err(SqlError::InUse { what: what.to_owned(), view })
}

/// The objects that depend on those of `dropped`, directly or indirectly, in breadth-first order.
fn dependents(
    state: &SessionState,
    snapshot: &Snapshot,
    dropped: &[Object],
) -> Result<Vec<Dependent>, SqlError> {
    let owned = dropped.iter().flat_map(|object| object.owned(snapshot));
    let mut next: BTreeSet<Object> = dropped.iter().cloned().chain(owned).collect();
    let mut gone = next.clone();
    let mut found = Vec::new();
    while !next.is_empty() {
        let direct = direct(state, snapshot, &next)?;
        next = BTreeSet::new();
        for it in direct {
            let is_gone = it.object.table().is_some_and(|table| gone.contains(&table));
            if !is_gone && gone.insert(it.object.clone()) {
                next.insert(it.object.clone());
                found.push(it);
            }
        }
    }
    Ok(found)
}

/// The objects that depend on one of `on` directly.
fn direct(
    state: &SessionState,
    snapshot: &Snapshot,
    on: &BTreeSet<Object>,
) -> Result<Vec<Dependent>, SqlError> {
    let uses = Uses::new(state, snapshot, on);
    let mut found = Vec::new();
    let mut note = |object: Object, on: Option<Object>| {
        found.extend(on.map(|on| Dependent { object, on }));
    };
    for schema in snapshot.schemas() {
        for name in snapshot.view_names(&schema) {
            if let Some(text) = snapshot.view(&schema, &name) {
                note(Object::new(Kind::View, &schema, &name), uses.of_view(&text)?);
            }
        }
        for (key, object) in snapshot.texts(TextKind::Function, &schema) {
            note(Object::new(Kind::Routine, &schema, &key), uses.of_routine(&object.text)?);
        }
        if !uses.may_be_of_tables() {
            continue;
        }
        for name in snapshot.table_names(&schema) {
            let Some((table, _)) = snapshot.table(&schema, &name) else { continue };
            for (kind, used) in uses.of_table(&table)? {
                note(Object::new(kind, &schema, &name), Some(used));
            }
        }
    }
    Ok(found)
}
