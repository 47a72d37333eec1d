//! Terrace's own settings of a session.
//!
//! `terrace.sla` and `terrace.tenant` belong to the session; a query is charged by their values
//! when it begins. `terrace.lock_timeout` limits the waits of a statement by its value when the
//! statement begins. `terrace.market` belongs to the engine, whichever session sets it.

use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlannedStatement};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use terrace_exec::{PagedOptions, options_of};
use terrace_governor::market::{Claim, MarketKind};
use terrace_table::error::SqlError;
use terrace_table::transaction::LockTimeout;

use super::own_settings::{
    LOCK_TIMEOUT, MARKET, OWN, PARTITIONS, SLA, TENANT, lock_timeout, names, refuse, text,
};
use super::state::Session;

impl Session {
    /// Validates one of Terrace's own settings before the session takes it, and applies one that
    /// belongs to the engine.
    pub(super) fn settle(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        let LogicalPlan::Statement(PlannedStatement::SetVariable(set)) = plan else {
            return Ok(());
        };
        let value = Some(set.value.as_str()).filter(|value| !value.is_empty());
        match (set.variable.to_ascii_lowercase().as_str(), value) {
            (SLA, Some(text)) => drop(text.parse::<terrace_market::Sla>()?),
            (TENANT, Some(name)) if self.engine.catalog().tenant(name).is_none() => {
                return Err(SqlError::MissingTenant { name: name.to_owned() });
            }
            (LOCK_TIMEOUT, value) => drop(lock_timeout(value.unwrap_or_default())?),
            (PARTITIONS, Some("0")) => {
                return Err(SqlError::Refused {
                    what: format!("setting {PARTITIONS} = 0"),
                    instead: "say at least 1".to_owned(),
                });
            }
            (MARKET, value) => {
                let kind = value.map_or(Ok(MarketKind::default()), str::parse)?;
                self.engine.resources().market.choose(kind);
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses settings that no session has, and those that require a superuser: those that
    /// determine how the session is charged, and that of the engine.
    pub(super) fn refuse_settings(&self, statement: &Statement) -> Result<(), SqlError> {
        refuse(statement)?;
        let all = names(statement).into_iter().map(|name| name.to_ascii_lowercase());
        let mut theirs = all.filter(|name| [SLA, TENANT, MARKET].contains(&name.as_str()));
        match theirs.next() {
            Some(name) if self.role().is_some() => {
                let snapshot = self.engine.catalog().snapshot();
                self.rights(&snapshot).require_superuser(&format!("setting {name}"))
            }
            _ => Ok(()),
        }
    }

    /// Updates the session's copy of a setting that another session may have changed for the
    /// engine.
    pub(super) fn follow_engine(&self) -> Result<(), SqlError> {
        let kind = self.engine.resources().market.kind();
        let state = self.context.state_ref();
        let follows = |state: &SessionState| {
            let options = state.config_options().extensions.get::<PagedOptions>();
            options.is_some_and(|options| options.market == kind.as_str())
        };
        // A change copies the options, which statements share.
        if follows(&state.read()) {
            return Ok(());
        }
        let mut state = state.write();
        Ok(state.config_mut().options_mut().set(MARKET, kind.as_str())?)
    }

    /// Runs a statement about settings that DataFusion does not support; true if it was one.
    /// Refuses a setting that the session may not change.
    pub(super) fn has_set(&self, statement: &Statement) -> Result<bool, SqlError> {
        if self.change_role(statement)? {
            return Ok(true);
        }
        self.refuse_settings(statement)?;
        self.note_local(statement)?;
        self.reset(statement)
    }

    /// Runs a RESET of one of Terrace's own settings, which DataFusion does not support; true if it
    /// was one.
    fn reset(&self, statement: &Statement) -> Result<bool, SqlError> {
        let Statement::Reset(ResetStatement::Variable(name)) = statement else { return Ok(false) };
        let name = text(name).to_ascii_lowercase();
        let Some(key) = name.strip_prefix(OWN) else { return Ok(false) };
        let defaults = options_of(&PagedOptions::default());
        let Some((_, value)) = defaults.into_iter().find(|(known, _)| known == key) else {
            return Ok(false);
        };
        if name == MARKET {
            self.engine.resources().market.choose(MarketKind::default());
        }
        let state = self.context.state_ref();
        state.write().config_mut().options_mut().set(&name, &value)?;
        Ok(true)
    }

    /// The query for a SHOW of one of Terrace's own settings, which DataFusion knows by another
    /// name.
    pub(super) fn shown(&self, statement: &Statement) -> Option<String> {
        let Statement::Statement(statement) = statement else { return None };
        let SqlStatement::ShowVariable { variable } = statement.as_ref() else { return None };
        let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
        let name = words.join(".").to_ascii_lowercase();
        let key = name.strip_prefix(OWN)?;
        let state = self.context.state_ref();
        let state = state.read();
        let options = state.config_options().extensions.get::<PagedOptions>()?;
        let entries = options_of(options);
        let (_, value) = entries.into_iter().find(|(known, _)| known == key)?;
        let value = value.replace('\'', "''");
        Some(format!("SELECT '{name}' AS name, '{value}' AS value"))
    }

    /// The maximum time that a statement which begins now waits for each lock of a table.
    #[must_use]
    pub fn lock_timeout(&self) -> LockTimeout {
        let state = self.context.state_ref();
        let state = state.read();
        let options = state.config_options().extensions.get::<PagedOptions>();
        let text = options.map(|options| options.lock_timeout.as_str());
        // Values were validated when they were set.
        text.and_then(|text| lock_timeout(text).ok()).unwrap_or_default()
    }

    /// The priority of the session's SLA, or else of its tenant's; 0 without an SLA.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.claim().priority()
    }

    /// The claim that queries of this session are charged by.
    pub(super) fn claim(&self) -> Claim {
        let (tenant, sla) = own(&self.context);
        let of_tenant = tenant.as_ref().and_then(|name| self.engine.catalog().tenant(name));
        // Values were validated when they were set.
        let own = sla.and_then(|text| text.parse().ok().map(std::sync::Arc::new));
        Claim {
            tenant: tenant.map(Into::into),
            sla: own.or_else(|| of_tenant.and_then(|tenant| tenant.sla)),
        }
    }
}

/// The tenant and the SLA that a session has set.
fn own(context: &SessionContext) -> (Option<String>, Option<String>) {
    let state = context.state_ref();
    let state = state.read();
    let options = state.config_options().extensions.get::<PagedOptions>();
    let named = |text: &String| (!text.is_empty()).then(|| text.clone());
    options.map_or((None, None), |options| (named(&options.tenant), named(&options.sla)))
}
