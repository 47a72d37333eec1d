//! Changes of secrets.

use terrace_table::error::SqlError;

use crate::session::notice::Notice;
use crate::session::secret::SecretStatement;
use crate::session::state::{Planned, Session};

impl Session {
    /// Runs a statement about a secret.
    pub(in crate::session) fn act_on_secret(
        &self,
        statement: SecretStatement,
    ) -> Result<Planned, SqlError> {
        let secrets = self.engine.cloud().secrets();
        let refused = |what: String, instead: &str| {
            let instead = instead.to_owned();
            Err(SqlError::Refused { what, instead })
        };
        match statement {
            SecretStatement::Create { secret, or_replace, if_not_exists } => {
                let name = secret.name.clone();
                if secrets.create(*secret, or_replace, if_not_exists).is_err() {
                    return refused(
                        format!("a second secret {name}"),
                        "say CREATE OR REPLACE SECRET, or choose another name",
                    );
                }
            }
            SecretStatement::Drop { name, if_exists } => {
                let is_dropped = secrets.drop_secret(&name);
                if !is_dropped && !if_exists {
                    return refused(
                        format!("DROP SECRET {name}: there is none of the name"),
                        "SELECT name FROM terrace.secrets lists them",
                    );
                }
                if !is_dropped {
                    self.notice(Notice::missing(format_args!("secret \"{name}\"")));
                }
            }
        }
        Ok(Planned::nothing())
    }
}
