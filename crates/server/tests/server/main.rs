//! Clients of a server: statements, logins, catalog queries and the dashboard.

mod catalog;
mod clients;
mod column_types;
mod common;
mod cursors;
mod direct_tls;
mod ends;
mod error_classes;
mod flight;
mod http;
mod lock_timeout;
mod logins;
mod memberships;
mod notices;
mod parameters;
mod planning;
#[path = "../running/server.rs"]
mod running;
mod scroll;
mod session_statements;
mod sessions;
mod settings;
mod slow;
mod urgent;
mod with_changes;
