//! Statements that write: what they leave, what they refuse, and what an interruption leaves.

mod crash;
mod faults;
mod merges;
mod statements;
