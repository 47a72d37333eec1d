//! Names the shared library after the versions that it is compatible with, and has it stay where it
//! was loaded: threads that end, and pagers, run its code whoever has given it back.

use std::env;
use std::io::{self, Write};

fn main() -> io::Result<()> {
    let part = |name: &str| env::var(name).unwrap_or_default();
    let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
    // Below 1.0, each minor version may change the interface.
    let compatible = if major == "0" { format!("0.{minor}") } else { major };
    let mut cargo = io::stdout();
    writeln!(cargo, "cargo::rerun-if-changed=build.rs")?;
    writeln!(cargo, "cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete")?;
    writeln!(cargo, "cargo::rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.{compatible}")
}
