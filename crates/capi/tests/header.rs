//! The header equals the output of cbindgen for the sources.

use std::path::Path;

use cbindgen::{Builder, Config};

/// Environment variable that makes the test rewrite the header.
const WRITE: &str = "TERRACE_WRITE_HEADER";

/// Source files, in the order in which a reader needs their declarations. The crate's root is not
/// among them: it would include all of them a second time.
const SOURCES: &[&str] = &[
    "version", "status", "log", "ledger", "region", "pin", "heap", "object", "store", "recovery",
    "id", "access", "lock", "batch", "stats",
];

#[test]
fn the_header_is_what_the_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(root.join("cbindgen.toml")).expect("a configuration");
    let builder = Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, name| {
        builder.with_src(root.join("src").join(format!("{name}.rs")))
    });
    let mut made = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut made);
    let made = String::from_utf8(made).expect("ASCII");
    let path = root.join("include/terrace.h");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let has = std::fs::read_to_string(&path).unwrap_or_default();
    let line = has.lines().zip(made.lines()).position(|(has, made)| has != made);
    assert!(
        has == made,
        "include/terrace.h is not made from these sources (line {}); make it anew by\n    \
         {WRITE}=1 cargo test -p terrace-capi --test header",
        line.unwrap_or(has.lines().count().min(made.lines().count())) + 1
    );

    let declared: Vec<&str> = made
        .lines()
        .filter(|line| !line.starts_with(['/', ' ', '#', '*']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .collect();
    let mut once = declared.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), declared.len(), "each function is declared once");
    assert!(once.len() > 80, "{once:?}");
}
