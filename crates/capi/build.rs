//! Names the shared library after its compatible versions, and keeps it loaded after `dlclose`:
//! exiting threads and pager threads still run its code.

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
