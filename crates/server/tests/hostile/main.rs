//! Hostile clients: none of them costs the server more than a bounded amount of memory, each is
//! told one clear error, others are served meanwhile, and nothing panics.
//!
//! `cargo x soak` runs them for longer, with more connections.

mod connections;
mod fuzz;
mod messages;
mod raw;
#[path = "../running/server.rs"]
mod running;
mod server;
mod statements;
