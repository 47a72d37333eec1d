//! Commands: the kinds of statements, with their command tags.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{ObjectType, SetExpr, Statement as SqlStatement};
use terrace_sql::session::{
    AccessChange, CopyStatement, MaintenanceStatement, RoleStatement, SessionStatement,
    TransactionStatement,
};
use terrace_sql::{Prepared, Session};

use crate::syntax::parsed;

/// Tag of ANALYZE.
const ANALYZE: &str = "ANALYZE";

/// Words between CREATE and the kind of object, which command tags omit.
const DESCRIBING_WORDS: [&str; 7] =
    ["OR", "REPLACE", "EXTERNAL", "TEMP", "TEMPORARY", "RECURSIVE", "UNLOGGED"];

/// The kind of a statement, which determines the messages and the command tag of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A query; its tag has the number of rows, except for EXPLAIN and SHOW.
    Rows(&'static str),
    /// A query with changes of rows in its WITH; its tag has the number of rows that it returns.
    RowsOfChanges,
    /// A change; its tag has the number of changed rows.
    Changes(&'static str),
    /// A statement without a count: its tag is the words alone.
    Done(String),
    /// A COPY; its tag has the number of rows that the client has sent or received.
    Copy(CopyStatement),
    /// A transaction statement: one that begins, ends or continues a transaction.
    Transaction(TransactionStatement),
}

impl Command {
    /// Returns the command of a statement in a session. The command of EXECUTE is that of the
    /// prepared statement.
    pub(crate) fn in_session(session: &Session, statement: &SessionStatement) -> Self {
        match executed(session, statement) {
            Some(prepared) => Self::of(prepared.statement()),
            None => Self::of(statement),
        }
    }

    /// Returns the command of a statement.
    pub(crate) fn of(statement: &SessionStatement) -> Self {
        let parsed = match statement {
            SessionStatement::Sql(parsed) => parsed,
            SessionStatement::Transaction(statement) => {
                return Self::Transaction(statement.clone());
            }
            SessionStatement::Copy(copy) => return Self::Copy(copy.clone()),
            SessionStatement::CopyFrom(_) => return Self::Changes("COPY"),
            SessionStatement::Grant(statement) => {
                return match statement.change {
                    AccessChange::Grant(..) => done("GRANT"),
                    AccessChange::Revoke(..) => done("REVOKE"),
                    AccessChange::Owner(_) => {
                        Self::by_words(&SessionStatement::Grant(statement.clone()))
                    }
                };
            }
            SessionStatement::Summarize(_) => return Self::Rows("SELECT"),
            SessionStatement::Explain(_) => return Self::Rows("EXPLAIN"),
            SessionStatement::Maintenance(statement) => {
                return done(match statement {
                    MaintenanceStatement::Checkpoint => "CHECKPOINT",
                    MaintenanceStatement::Vacuum(_) => "VACUUM",
                    MaintenanceStatement::Analyze(_) => ANALYZE,
                });
            }
            SessionStatement::Comment(_) => return done("COMMENT"),
            SessionStatement::Role(RoleStatement::Grant { .. }) => return done("GRANT ROLE"),
            SessionStatement::Role(RoleStatement::Revoke { .. }) => return done("REVOKE ROLE"),
            other => return Self::by_words(other),
        };
        match parsed.as_ref() {
            Statement::CopyTo(_) => Self::Changes("COPY"),
            Statement::Reset(_) => done("RESET"),
            Statement::Explain(_) => Self::Rows("EXPLAIN"),
            Statement::Statement(parsed) => match parsed.as_ref() {
                SqlStatement::Query(query) => match query.body.as_ref() {
                    SetExpr::Insert(change)
                    | SetExpr::Update(change)
                    | SetExpr::Delete(change)
                    | SetExpr::Merge(change) => {
                        of_change(change).unwrap_or_else(|| Self::by_words(statement))
                    }
                    _ if statement.has_parts() => Self::RowsOfChanges,
                    _ => Self::Rows("SELECT"),
                },
                SqlStatement::CreateTable(create) if create.query.is_some() => {
                    Self::Changes("SELECT")
                }
                SqlStatement::Execute { .. } => Self::Rows("EXECUTE"),
                SqlStatement::Explain { .. } | SqlStatement::ExplainTable { .. } => {
                    Self::Rows("EXPLAIN")
                }
                parsed if is_show(parsed) => Self::Rows("SHOW"),
                SqlStatement::Drop { object_type: ObjectType::Table, .. } => done("DROP TABLE"),
                SqlStatement::Set(_) | SqlStatement::Use(_) => done("SET"),
                SqlStatement::Truncate(_) => done("TRUNCATE TABLE"),
                SqlStatement::Prepare { .. } => done("PREPARE"),
                SqlStatement::Deallocate { .. } => done("DEALLOCATE"),
                parsed => of_change(parsed).unwrap_or_else(|| Self::by_words(statement)),
            },
            _ => Self::by_words(statement),
        }
    }

    /// Returns a command whose tag is the first two words of the statement, without
    /// [`DESCRIBING_WORDS`]: `CREATE VIEW`.
    fn by_words(statement: &SessionStatement) -> Self {
        let text = statement.to_string();
        let words = text.split_whitespace().map(str::to_uppercase);
        let mut is_creation = false;
        let names = words.filter(|word| {
            is_creation |= word == "CREATE";
            !(is_creation && DESCRIBING_WORDS.contains(&word.as_str()))
        });
        Self::Done(names.take(2).collect::<Vec<_>>().join(" "))
    }

    /// True if the statement may do more than return rows.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Self::Rows(name) => matches!(*name, "INSERT 0" | "UPDATE" | "DELETE" | "MERGE"),
            _ => matches!(self, Self::RowsOfChanges | Self::Changes(_) | Self::Done(_)),
        }
    }

    /// True if the statement returns rows to the client.
    pub(crate) fn returns_rows(&self) -> bool {
        matches!(self, Self::Rows(_) | Self::RowsOfChanges)
    }

    /// Returns the notice that explains a statement that does nothing; `None` for other statements.
    pub(crate) fn note(&self) -> Option<&'static str> {
        matches!(self, Self::Done(tag) if tag == ANALYZE)
            .then_some("nothing to do: statistics are written with the rows")
    }

    /// Returns the tag of a statement that has ended, from the schema of its result and the number
    /// of its rows. The result of CREATE TABLE AS has no columns if the table existed already.
    pub(crate) fn tag_of(&self, result: &Schema, rows: u64) -> String {
        match self {
            Self::Changes("SELECT") if result.fields().is_empty() => "CREATE TABLE AS".to_owned(),
            command => command.tag(rows),
        }
    }

    /// Returns the tag of a statement that has returned or changed this number of rows.
    pub(crate) fn tag(&self, rows: u64) -> String {
        match self {
            Self::Rows(name @ ("EXPLAIN" | "SHOW")) => (*name).to_owned(),
            Self::Rows(name) | Self::Changes(name) => format!("{name} {rows}"),
            Self::RowsOfChanges => format!("SELECT {rows}"),
            Self::Done(name) => name.clone(),
            Self::Copy(_) => format!("COPY {rows}"),
            Self::Transaction(statement) => {
                let tag = match statement {
                    TransactionStatement::Begin { .. } => "BEGIN",
                    TransactionStatement::Commit
                    | TransactionStatement::Chain { commits: true } => "COMMIT",
                    TransactionStatement::RollBack
                    | TransactionStatement::RollBackTo(_)
                    | TransactionStatement::Chain { commits: false } => "ROLLBACK",
                    TransactionStatement::Savepoint(_) => "SAVEPOINT",
                    TransactionStatement::Release(_) => "RELEASE",
                    TransactionStatement::Access { .. } => "SET",
                };
                tag.to_owned()
            }
        }
    }
}

/// Returns the statement that an EXECUTE executes; `None` for any other statement, and for a name
/// that the session does not know.
pub(crate) fn executed(session: &Session, statement: &SessionStatement) -> Option<Arc<Prepared>> {
    let SqlStatement::Execute { name: Some(name), .. } = parsed(statement)? else { return None };
    let [part] = name.0.as_slice() else { return None };
    let name = IdentNormalizer::default().normalize(part.as_ident()?.clone());
    session.named_statement(&name)
}

/// Returns the command of a change of rows; `None` for any other statement.
fn of_change(statement: &SqlStatement) -> Option<Command> {
    Some(match statement {
        SqlStatement::Insert(insert) => change("INSERT 0", insert.returning.is_some()),
        SqlStatement::Update(update) => change("UPDATE", update.returning.is_some()),
        SqlStatement::Delete(delete) => change("DELETE", delete.returning.is_some()),
        SqlStatement::Merge(merge) => change("MERGE", merge.output.is_some()),
        _ => return None,
    })
}

/// The command of a change, which returns rows with RETURNING.
fn change(name: &'static str, returns_rows: bool) -> Command {
    if returns_rows { Command::Rows(name) } else { Command::Changes(name) }
}

/// True for a statement that shows names or settings.
fn is_show(statement: &SqlStatement) -> bool {
    matches!(
        statement,
        SqlStatement::ShowVariable { .. }
            | SqlStatement::ShowVariables { .. }
            | SqlStatement::ShowTables { .. }
            | SqlStatement::ShowColumns { .. }
            | SqlStatement::ShowFunctions { .. }
            | SqlStatement::ShowDatabases { .. }
            | SqlStatement::ShowSchemas { .. }
            | SqlStatement::ShowViews { .. }
            | SqlStatement::Pragma { .. }
            | SqlStatement::ShowCreate { .. }
    )
}

fn done(name: &str) -> Command {
    Command::Done(name.to_owned())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn tags_are_those_of_postgres() {
        assert_eq!(Command::Rows("SELECT").tag(3), "SELECT 3");
        assert_eq!(Command::Rows("EXPLAIN").tag(3), "EXPLAIN");
        assert_eq!(Command::Changes("INSERT 0").tag(2), "INSERT 0 2");
        assert_eq!(Command::Changes("SELECT").tag_of(&Schema::empty(), 0), "CREATE TABLE AS");
        assert_eq!(done("DROP TABLE").tag(0), "DROP TABLE");
        let (roles, members) = (vec!["readers".to_owned()], vec!["ada".to_owned()]);
        let (is_admin, grantor) = (false, None);
        let granted = RoleStatement::Grant { roles, members, is_admin, grantor };
        let granted = Command::of(&SessionStatement::Role(granted));
        assert_eq!(granted.tag(0), "GRANT ROLE");
        for (text, tag) in [
            ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "CREATE VIEW"),
            ("CREATE TEMPORARY TABLE t (x INT)", "CREATE TABLE"),
            ("CREATE TABLE temp (x INT)", "CREATE TABLE"),
            ("CREATE TABLE t AS SELECT 1", "SELECT 0"),
        ] {
            let parsed = DFParser::parse_sql(text).expect("parsed").pop_front();
            let statement = SessionStatement::Sql(Box::new(parsed.expect("a statement")));
            assert_eq!(Command::of(&statement).tag(0), tag, "{text}");
        }
    }
}
