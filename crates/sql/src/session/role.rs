//! Statements that create, alter and drop roles. Those that grant roles to others have a module of
//! their own (`membership`).
//!
//! ```text
//! CREATE ROLE [IF NOT EXISTS] ada [WITH] LOGIN SUPERUSER PASSWORD 'secret' TENANT reports;
//! CREATE ROLE readers IN ROLE staff ROLE ada, bob ADMIN eve;
//! ALTER ROLE ada PASSWORD 'other' NOINHERIT;
//! DROP ROLE [IF EXISTS] ada, bob;
//! ```
//!
//! USER is ROLE with LOGIN. A password may be given as a SCRAM-SHA-256 verifier, as psql's
//! `\password` sends it; the catalog stores only verifiers.

use std::fmt;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_table::catalog::Verifier;

use super::words::{self, is_word, name, names, take_all};

/// Nouns of the statements.
const NOUNS: [&str; 2] = ["role", "user"];

/// Options that every role has; accepted and ignored.
const HOLDING: [&str; 4] = ["nocreatedb", "nocreaterole", "noreplication", "nobypassrls"];

/// A statement that creates, alters, drops, grants or revokes roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStatement {
    /// CREATE ROLE.
    Create {
        /// Name of the role.
        name: String,
        /// True for IF NOT EXISTS.
        keep: bool,
        /// Options of the role.
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE.
    Alter {
        /// Name of the role.
        name: String,
        /// Options to change.
        options: Vec<RoleOption>,
    },
    /// DROP ROLE.
    Drop {
        /// Names of the roles.
        names: Vec<String>,
        /// True for IF EXISTS.
        if_exists: bool,
    },
    /// GRANT of roles.
    Grant {
        /// Names of the granted roles.
        roles: Vec<String>,
        /// Names of the roles that become their members.
        members: Vec<String>,
        /// True for WITH ADMIN OPTION.
        is_admin: bool,
        /// The role of GRANTED BY.
        grantor: Option<Grantor>,
    },
    /// REVOKE of roles.
    Revoke {
        /// Names of the revoked roles.
        roles: Vec<String>,
        /// Names of their members.
        members: Vec<String>,
        /// True for ADMIN OPTION FOR: the members stay members.
        is_admin_option: bool,
        /// The role of GRANTED BY.
        grantor: Option<Grantor>,
    },
}

/// A role that GRANTED BY names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantor {
    /// CURRENT_USER or CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
    /// The role of a name.
    Role(String),
}

impl Grantor {
    /// Returns the role that an identifier names.
    pub(super) fn of(ident: Ident) -> Self {
        let word = ident.quote_style.is_none().then(|| ident.value.to_ascii_lowercase());
        match word.as_deref() {
            Some("current_user" | "current_role") => Self::Current,
            Some("session_user") => Self::Session,
            _ => Self::Role(IdentNormalizer::default().normalize(ident)),
        }
    }
}

impl fmt::Display for Grantor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "CURRENT_USER",
            Self::Session => "SESSION_USER",
            Self::Role(name) => name,
        })
    }
}

/// An option of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleOption {
    /// True if clients may log in as the role.
    Login(bool),
    /// True for a superuser.
    Superuser(bool),
    /// The verifier of the password; `None` for no password.
    Password(Option<Verifier>),
    /// The tenant of the role's sessions; `None` for no tenant.
    Tenant(Option<String>),
    /// True if the role has the privileges of the roles that it is a member of.
    Inherit(bool),
    /// IN ROLE: the roles that the new role becomes a member of.
    InRoles(Vec<String>),
    /// ROLE: the roles that become members of the new role.
    Members(Vec<String>),
    /// ADMIN: the roles that become members of the new role WITH ADMIN OPTION.
    Admins(Vec<String>),
}

impl fmt::Display for RoleOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login(can) => f.write_str(if *can { "LOGIN" } else { "NOLOGIN" }),
            Self::Superuser(is) => f.write_str(if *is { "SUPERUSER" } else { "NOSUPERUSER" }),
            // Other sessions can see the text of statements.
            Self::Password(Some(_)) => f.write_str("PASSWORD '***'"),
            Self::Password(None) => f.write_str("PASSWORD NULL"),
            Self::Tenant(tenant) => {
                write!(f, "TENANT {}", tenant.as_deref().unwrap_or("NONE"))
            }
            Self::Inherit(does) => f.write_str(if *does { "INHERIT" } else { "NOINHERIT" }),
            Self::InRoles(roles) => write!(f, "IN ROLE {}", roles.join(", ")),
            Self::Members(members) => write!(f, "ROLE {}", members.join(", ")),
            Self::Admins(members) => write!(f, "ADMIN {}", members.join(", ")),
        }
    }
}

impl fmt::Display for RoleStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, name, options) = match self {
            Self::Create { name, keep, options } => {
                (if *keep { "CREATE ROLE IF NOT EXISTS" } else { "CREATE ROLE" }, name, options)
            }
            Self::Alter { name, options } => ("ALTER ROLE", name, options),
            Self::Drop { names, if_exists } => {
                let if_exists = if *if_exists { "IF EXISTS " } else { "" };
                return write!(f, "DROP ROLE {if_exists}{}", names.join(", "));
            }
            Self::Grant { roles, members, is_admin, grantor } => {
                let option = if *is_admin { " WITH ADMIN OPTION" } else { "" };
                write!(f, "GRANT {} TO {}{option}", roles.join(", "), members.join(", "))?;
                return grantor.iter().try_for_each(|role| write!(f, " GRANTED BY {role}"));
            }
            Self::Revoke { roles, members, is_admin_option, grantor } => {
                let option = if *is_admin_option { "ADMIN OPTION FOR " } else { "" };
                let (roles, members) = (roles.join(", "), members.join(", "));
                write!(f, "REVOKE {option}{roles} FROM {members}")?;
                return grantor.iter().try_for_each(|role| write!(f, " GRANTED BY {role}"));
            }
        };
        write!(f, "{verb} {name}")?;
        options.iter().try_for_each(|option| write!(f, " {option}"))
    }
}

/// Returns true if a statement about roles follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    NOUNS.iter().any(|noun| words::is_next(parser, &["create", "alter", "drop"], noun))
}

/// Parses the statement that [`is_next`] has found.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<RoleStatement, ParserError> {
    let verb = parser.next_token().token;
    let is_user = is_word(&parser.next_token().token, "user");
    if is_word(&verb, "drop") {
        let if_exists = take_all(parser, &["if", "exists"]);
        return Ok(RoleStatement::Drop { names: names(parser)?, if_exists });
    }
    if is_word(&verb, "alter") {
        let name = name(parser)?;
        let options = options(parser, false)?;
        if options.is_empty() {
            let next = parser.peek_token();
            return parser.expected("an option, such as PASSWORD '...'", next);
        }
        return Ok(RoleStatement::Alter { name, options });
    }
    let keep = take_all(parser, &["if", "not", "exists"]);
    let name = name(parser)?;
    let mut options = options(parser, true)?;
    if is_user {
        options.insert(0, RoleOption::Login(true));
    }
    Ok(RoleStatement::Create { name, keep, options })
}

/// Parses options; those about members are for new roles alone.
fn options(parser: &mut Parser<'_>, is_new: bool) -> Result<Vec<RoleOption>, ParserError> {
    take_all(parser, &["with"]);
    let mut options = Vec::new();
    loop {
        let next = parser.peek_token();
        if matches!(next.token, Token::SemiColon | Token::EOF) {
            return Ok(options);
        }
        match members(parser, is_new)? {
            Some(option) => options.push(option),
            None => options.extend(option(parser)?),
        }
    }
}

/// Parses an option about memberships of a new role, if one follows.
fn members(parser: &mut Parser<'_>, is_new: bool) -> Result<Option<RoleOption>, ParserError> {
    let follows = |parser: &mut Parser<'_>, words: &[&str]| is_new && take_all(parser, words);
    Ok(if follows(parser, &["in", "role"]) || follows(parser, &["in", "group"]) {
        Some(RoleOption::InRoles(names(parser)?))
    } else if follows(parser, &["role"]) || follows(parser, &["user"]) {
        Some(RoleOption::Members(names(parser)?))
    } else if follows(parser, &["admin"]) {
        Some(RoleOption::Admins(names(parser)?))
    } else {
        None
    })
}

/// Parses the next option; `None` for one that is ignored.
fn option(parser: &mut Parser<'_>) -> Result<Option<RoleOption>, ParserError> {
    let next = parser.next_token();
    let is = |word: &str| is_word(&next.token, word);
    Ok(Some(if is("login") || is("nologin") {
        RoleOption::Login(is("login"))
    } else if is("superuser") || is("nosuperuser") {
        RoleOption::Superuser(is("superuser"))
    } else if is("inherit") || is("noinherit") {
        RoleOption::Inherit(is("inherit"))
    } else if is("tenant") {
        let tenant = name(parser)?;
        RoleOption::Tenant((tenant != "none").then_some(tenant))
    } else if is("password") || (is("encrypted") && take_all(parser, &["password"])) {
        RoleOption::Password(password(parser)?)
    } else if HOLDING.into_iter().any(is) {
        return Ok(None);
    } else {
        return parser.expected(
            "LOGIN, SUPERUSER, INHERIT, or NO before one of these, PASSWORD '...', TENANT name, \
             and for a new role IN ROLE, ROLE or ADMIN with names",
            next,
        );
    }))
}

fn password(parser: &mut Parser<'_>) -> Result<Option<Verifier>, ParserError> {
    if take_all(parser, &["null"]) {
        return Ok(None);
    }
    let password = parser.parse_literal_string()?;
    let verifier = Verifier::of(&password);
    verifier.map(Some).map_err(|error| ParserError::ParserError(error.to_string()))
}
