//! Execution of CREATE, ALTER and DROP TENANT.

use terrace_table::catalog::{Tenant, TenantLimits};
use terrace_table::error::SqlError;

use crate::session::notice::Notice;
use crate::session::state::{Planned, Session};
use crate::session::tenant::TenantStatement;

impl Session {
    /// Creates, alters or drops a tenant, and applies its new limits.
    pub(in crate::session) async fn act_on_tenant(
        &self,
        statement: TenantStatement,
    ) -> Result<Planned, SqlError> {
        let catalog = self.engine.catalog();
        let tenancy = self.engine.tenancy();
        match statement {
            TenantStatement::Create { name, keep, options } => {
                let tenant = with_options(Tenant::default(), &options)?;
                if !catalog.create_tenant(&name, tenant, keep).await? {
                    self.notice(Notice::exists("42710", format_args!("tenant \"{name}\"")));
                }
            }
            TenantStatement::Alter { name, options } => {
                let missing = || SqlError::MissingTenant { name: name.clone() };
                let tenant = catalog.tenant(&name).ok_or_else(missing)?;
                catalog.alter_tenant(&name, with_options(tenant, &options)?).await?;
            }
            TenantStatement::Drop { name, if_exists } => {
                let is_dropped = catalog.drop_tenant(&name).await?;
                if !is_dropped && !if_exists {
                    return Err(SqlError::MissingTenant { name });
                }
                if !is_dropped {
                    self.notice(Notice::missing(format_args!("tenant \"{name}\"")));
                }
            }
        }
        tenancy.limits_changed();
        Ok(Planned::nothing())
    }
}

/// The tenant with these options set; an empty SLA removes the SLA.
fn with_options(mut tenant: Tenant, options: &[(String, String)]) -> Result<Tenant, SqlError> {
    for (key, value) in options {
        match key.as_str() {
            "sla" => {
                let sla = Some(value.as_str()).filter(|text| !text.is_empty());
                tenant = Tenant::of(sla, tenant.limits)?;
            }
            key if tenant.limits.set(key, value)? => {}
            _ => {
                return Err(SqlError::Refused {
                    what: format!("the option {key} of a tenant"),
                    instead: format!(
                        "options are sla, such as sla = 'latency 50ms penalty 10', and {}",
                        TenantLimits::NAMES.join(", ")
                    ),
                });
            }
        }
    }
    Ok(tenant)
}
