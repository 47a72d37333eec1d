//! Clients of a server: their statements, their logins, what they look up, and the dashboard.

mod catalog;
mod clients;
mod common;
mod http;
mod logins;
