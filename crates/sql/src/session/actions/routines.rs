//! Execution of statements that define SQL functions and macros, and inlining of their calls.

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use terrace_sys::sync::lock;
use terrace_table::catalog::{Draft, SchemaText, Snapshot, TextKind};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use super::object_changes::StoredText;
use crate::access::Privilege;
use crate::names::SearchPath;
use crate::session::define::Name;
use crate::session::dependencies::{Kind, Object, refuse_used};
use crate::session::notice::Notice;
use crate::session::object_change::ObjectChange;
use crate::session::routines::expansion;
use crate::session::routines::lookup::{Found, Lookup, in_schema};
use crate::session::routines::routine::{
    DroppedKind, DroppedRoutine, Form, Routine, RoutineStatement,
};
use crate::session::routines::validity;
use crate::session::state::{Planned, Session};

impl Session {
    /// Inlines the calls of SQL functions and macros in a statement: replaces each by the body.
    ///
    /// # Errors
    /// Errors of the calls.
    pub(in crate::session) fn write_out_routines(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        statement: &mut Statement,
    ) -> Result<(), SqlError> {
        let temporary = lock(&self.routines).clone();
        match Lookup::new(state, snapshot, &temporary) {
            Some(lookup) => expansion::write_out(&lookup, &self.rights(snapshot), statement),
            None => Ok(()),
        }
    }

    /// Defines or drops functions or macros.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a definition that is not supported, [`SqlError::Exists`],
    /// [`SqlError::Missing`], [`SqlError::Denied`]; errors of the catalog.
    pub(in crate::session) async fn change_routines(
        &self,
        statement: RoutineStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        self.follow_engine()?;
        let (state, snapshot) = self.state_in(scope)?;
        match statement {
            RoutineStatement::Create { routines, replace, keep, temporary } => {
                for routine in &routines {
                    self.validate(&state, &snapshot, routine).await?;
                }
                match temporary {
                    true => self.create_temporary(routines, replace, keep)?,
                    false => {
                        let mode = Mode { replace, keep };
                        self.create_routines(&state, &snapshot, routines, mode, scope).await?;
                    }
                }
            }
            RoutineStatement::Change { routine, kind, change } => {
                let (schema, routine) =
                    self.owned_routine(&state, &snapshot, &routine, kind, "changing it")?;
                self.change_routine(&state, &snapshot, (&schema, &routine), &change, scope).await?;
            }
            RoutineStatement::Drop { routines, kind, if_exists, cascades } => {
                let (mut found, mut temporary) = (Vec::new(), Vec::new());
                for dropped in &routines {
                    if self.has_temporary(dropped, kind)? {
                        temporary.push(dropped);
                        continue;
                    }
                    let dropped = (dropped, kind);
                    found.extend(self.dropped_routines(&state, &snapshot, dropped, if_exists)?);
                }
                let done = self.drop_objects(&state, &snapshot, (&found, cascades), scope).await?;
                let is_dropped = |of: &Routine| {
                    temporary.iter().any(|it| of.name == it.name && is_meant(of, it, kind))
                };
                lock(&self.routines).retain(|of| !is_dropped(of));
                return Ok(done);
            }
        }
        Ok(Planned::nothing())
    }

    /// Refuses a definition whose call cannot be inlined or, for a function, cannot be planned.
    async fn validate(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        routine: &Routine,
    ) -> Result<(), SqlError> {
        validity::check(state, routine)?;
        let Some(mut call) = validity::call(routine)? else { return Ok(()) };
        let mut known = lock(&self.routines).clone();
        known.retain(|of| of.key() != routine.key());
        known.push(Routine { schema: None, ..routine.clone() });
        let Some(lookup) = Lookup::new(state, snapshot, &known) else { return Ok(()) };
        expansion::write_out(&lookup, &self.rights(snapshot), &mut call)?;
        match routine.is_macro() {
            true => Ok(()),
            false => self.logical_plan(state, snapshot, call).await.map(drop),
        }
    }

    fn create_temporary(
        &self,
        routines: Vec<Routine>,
        replace: bool,
        keep: bool,
    ) -> Result<(), SqlError> {
        let mut routines_of_session = lock(&self.routines);
        // All or none.
        let mut known = routines_of_session.clone();
        for routine in routines {
            let place = known.iter().position(|of| of.key() == routine.key());
            match place {
                Some(_) if keep => {}
                Some(place) if replace => known[place] = Routine { schema: None, ..routine },
                Some(_) => return Err(exists(&routine)),
                None => known.push(Routine { schema: None, ..routine }),
            }
        }
        *routines_of_session = known;
        Ok(())
    }

    async fn create_routines(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        routines: Vec<Routine>,
        Mode { replace, keep }: Mode,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let mut objects = Vec::new();
        for routine in routines {
            let reference = match &routine.schema {
                Some(schema) => TableReference::partial(schema.as_str(), routine.name.as_str()),
                None => TableReference::bare(routine.name.as_str()),
            };
            let Name { schema, .. } = self.new_name(state, reference)?;
            if snapshot.has_schema(&schema) {
                self.rights(snapshot).require(Privilege::Create, &schema, None)?;
            }
            let (key, full) = (routine.key(), format!("{schema}.{}", routine.name));
            if let Some(before) = snapshot.text(TextKind::Function, &schema, &key) {
                if keep {
                    continue;
                }
                if !replace {
                    return Err(exists(&Routine { schema: Some(schema), ..routine }));
                }
                let owner = before.owner.as_deref();
                self.rights(snapshot).require_owner_of("replacing it", &schema, &full, owner)?;
                validity::check_replacement(&before.text, &routine)?;
            }
            let routine = Routine { schema: Some(schema.clone()), ..routine };
            let owner = self.role().as_deref().map(str::to_owned);
            let object = SchemaText { text: routine.to_string(), owner, comment: None };
            objects.push((schema, key, object));
        }
        let put = |draft: &mut Draft| {
            objects.iter().try_for_each(|(schema, key, object)| {
                draft.put_text(TextKind::Function, (schema, key), object.clone(), replace)
            })
        };
        let mut after = Draft::new(snapshot.clone());
        put(&mut after)?;
        let names = objects.iter().map(|(_, key, _)| Routine::name_in(key).to_owned()).collect();
        let views = self.remade_views((snapshot, after.snapshot()), names).await?;
        let put = |draft: &mut Draft| {
            if !views.is_empty() {
                draft.depend_on_views_of(snapshot)?;
            }
            put(draft)?;
            views.iter().try_for_each(|view| view.put(draft))
        };
        scope.define(self.engine.catalog(), put).await
    }

    /// Changes the name, the schema or the owner of a function or macro.
    async fn change_routine(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        (schema, routine): (&str, &Routine),
        change: &ObjectChange,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let key = routine.key();
        if !matches!(change, ObjectChange::Owner(_)) {
            let object = Object::new(Kind::Routine, schema, &key);
            refuse_used(state, snapshot, &object, "rename")?;
        }
        let renamed = |schema: &str, name: Option<&str>| {
            let name = name.unwrap_or(&routine.name).to_owned();
            let after = Routine { schema: Some(schema.to_owned()), name, ..routine.clone() };
            validity::check(state, &after)?;
            match snapshot.text(TextKind::Function, schema, &after.key()) {
                Some(_) => Err(exists(&after)),
                None => Ok((after.key(), after.to_string())),
            }
        };
        let object = StoredText { kind: TextKind::Function, schema, name: &key };
        self.alter_text(snapshot, object, change, renamed, scope).await
    }

    /// The stored function or macro that `named` and `kind` name, with its schema. `what` names
    /// the action in an error about the owner.
    ///
    /// # Errors
    /// [`SqlError::Missing`]; [`SqlError::Ambiguous`]; [`SqlError::Denied`] if the role does not
    /// own it; if a stored text is damaged.
    pub(super) fn owned_routine(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        named: &DroppedRoutine,
        kind: DroppedKind,
        what: &str,
    ) -> Result<(String, Routine), SqlError> {
        for schema in schemas(state, snapshot, named) {
            let mut found = in_schema(snapshot, &schema, &named.name)?;
            found.retain(|found| is_meant(&found.routine, named, kind));
            if found.len() > 1 {
                let known: Vec<_> = found.iter().map(|it| it.routine.signature()).collect();
                let what = format!("{} name {named}", kind.keyword().to_lowercase());
                return Err(SqlError::Ambiguous { what, known: known.join(", ") });
            }
            let Some(Found { routine, .. }) = found.pop() else { continue };
            let object = snapshot.text(TextKind::Function, &schema, &routine.key());
            let owner = object.as_ref().and_then(|object| object.owner.as_deref());
            let full = format!("{schema}.{}", routine.name);
            self.rights(snapshot).require_owner_of(what, &schema, &full, owner)?;
            return Ok((schema, routine));
        }
        Err(SqlError::Missing { name: format!("{} {named}", kind.keyword().to_lowercase()) })
    }

    /// The stored routines that a DROP names.
    fn dropped_routines(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        (dropped, kind): (&DroppedRoutine, DroppedKind),
        if_exists: bool,
    ) -> Result<Vec<Object>, SqlError> {
        let mut found = Vec::new();
        for schema in schemas(state, snapshot, dropped) {
            found = in_schema(snapshot, &schema, &dropped.name)?;
            found.retain(|found| is_meant(&found.routine, dropped, kind));
            if !found.is_empty() {
                break;
            }
        }
        let meant: Vec<&Routine> = found.iter().map(|found| &found.routine).collect();
        refuse_several(&meant, dropped, kind)?;
        if found.is_empty() {
            let noun = kind.keyword().to_lowercase();
            if !if_exists {
                return Err(SqlError::Missing { name: format!("{noun} {dropped}") });
            }
            self.notice(Notice::missing(format_args!("{noun} {dropped}()")));
        }
        let mut objects = Vec::new();
        for Found { schema, routine } in found {
            let (schema, key) = (schema.unwrap_or_default(), routine.key());
            let object = snapshot.text(TextKind::Function, &schema, &key);
            let owner = object.as_ref().and_then(|object| object.owner.as_deref());
            let full = format!("{schema}.{}", routine.name);
            self.rights(snapshot).require_owner_of("dropping it", &schema, &full, owner)?;
            objects.push(Object::new(Kind::Routine, &schema, &key));
        }
        Ok(objects)
    }

    /// True if the session has a temporary routine that a DROP names.
    fn has_temporary(&self, dropped: &DroppedRoutine, kind: DroppedKind) -> Result<bool, SqlError> {
        if dropped.schema.is_some() {
            return Ok(false);
        }
        let known = lock(&self.routines);
        let is_it = |of: &&Routine| of.name == dropped.name && is_meant(of, dropped, kind);
        let meant: Vec<&Routine> = known.iter().filter(is_it).collect();
        refuse_several(&meant, dropped, kind)?;
        Ok(!meant.is_empty())
    }
}

/// Treatment of a definition whose name is taken.
#[derive(Clone, Copy)]
struct Mode {
    /// True for OR REPLACE.
    replace: bool,
    /// True for IF NOT EXISTS.
    keep: bool,
}

/// The schemas in which a routine of this name is looked up, in order.
fn schemas(state: &SessionState, snapshot: &Snapshot, dropped: &DroppedRoutine) -> Vec<String> {
    match &dropped.schema {
        Some(schema) => vec![schema.clone()],
        None => {
            let path = SearchPath::of(state.config_options());
            path.existing(snapshot).map(str::to_owned).collect()
        }
    }
}

/// True if `routine`, whose name is that of `dropped`, also has its kind and number of parameters.
fn is_meant(routine: &Routine, dropped: &DroppedRoutine, kind: DroppedKind) -> bool {
    let is_of_kind = match kind {
        DroppedKind::Function => routine.form != Form::TableMacro,
        DroppedKind::Macro => routine.is_macro(),
        DroppedKind::TableMacro => routine.form == Form::TableMacro,
    };
    is_of_kind && dropped.parameters.is_none_or(|count| routine.parameters.len() == count)
}

/// Refuses to drop several functions by one name. All overloads of a macro are one object.
fn refuse_several(
    meant: &[&Routine],
    dropped: &DroppedRoutine,
    kind: DroppedKind,
) -> Result<(), SqlError> {
    let is_function = kind == DroppedKind::Function && meant.iter().any(|it| !it.is_macro());
    if meant.len() < 2 || !is_function {
        return Ok(());
    }
    let known: Vec<_> = meant.iter().map(|routine| routine.signature()).collect();
    let what = format!("function name {dropped}");
    Err(SqlError::Ambiguous { what, known: known.join(", ") })
}

fn exists(routine: &Routine) -> SqlError {
    let schema = routine.schema.as_deref().map(|schema| format!("{schema}."));
    let (noun, signature) = (routine.noun(), routine.signature());
    SqlError::Exists { name: format!("{noun} {}{signature}", schema.unwrap_or_default()) }
}
