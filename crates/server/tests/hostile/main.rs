//! Hostile clients: each costs the server only a bounded amount of memory and receives one clear
//! error; other clients are served meanwhile, and nothing panics.
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
