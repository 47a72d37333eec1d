//! The tenants of a catalog.

use std::sync::Arc;

use super::state::Catalog;
use super::tenant::Tenant;
use crate::error::SqlError;

impl Catalog {
    /// Returns the tenants, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<(String, Tenant)> {
        let names = self.names();
        names.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.clone())).collect()
    }

    /// Returns a tenant by its name.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<Tenant> {
        self.names().tenants.get(name).cloned()
    }

    /// Creates a tenant. Returns true if it is new.
    ///
    /// # Errors
    /// [`SqlError::TenantExists`] unless `keep` is set; errors of the catalog's file.
    pub async fn create_tenant(
        self: &Arc<Self>,
        name: &str,
        tenant: Tenant,
        keep: bool,
    ) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            if catalog.tenant(&name).is_some() {
                return if keep { Ok(false) } else { Err(SqlError::TenantExists { name }) };
            }
            catalog.put_tenant(name, tenant)?;
            Ok(true)
        })
        .await
    }

    /// Replaces the SLA and limits of a tenant.
    ///
    /// # Errors
    /// [`SqlError::MissingTenant`]; errors of the catalog's file.
    pub async fn alter_tenant(
        self: &Arc<Self>,
        name: &str,
        tenant: Tenant,
    ) -> Result<(), SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| match catalog.tenant(&name) {
            None => Err(SqlError::MissingTenant { name }),
            Some(_) => catalog.put_tenant(name, tenant),
        })
        .await
    }

    /// Drops a tenant. Returns true if it existed. Its sessions continue without its SLA.
    ///
    /// # Errors
    /// [`SqlError::Refused`] while roles belong to it; errors of the catalog's file.
    pub async fn drop_tenant(self: &Arc<Self>, name: &str) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            if catalog.tenant(&name).is_none() {
                return Ok(false);
            }
            let roles = catalog.roles();
            let member = roles.iter().find(|(_, role)| role.tenant.as_deref() == Some(&name));
            if let Some((role, _)) = member {
                return Err(SqlError::Refused {
                    what: format!("dropping tenant {name}, which role {role} belongs to"),
                    instead: format!("say ALTER ROLE {role} TENANT NONE first"),
                });
            }
            catalog.journal.settle(&[], |transaction| transaction.remove_tenant(&name))?;
            Ok(catalog.names_mut().tenants.remove(&name).is_some())
        })
        .await
    }

    fn put_tenant(&self, name: String, tenant: Tenant) -> Result<(), SqlError> {
        let sla = tenant.text();
        let limits = &tenant.limits;
        self.journal.settle(&[], |change| change.put_tenant(&name, sla.as_deref(), limits))?;
        self.names_mut().tenants.insert(name, tenant);
        Ok(())
    }
}
