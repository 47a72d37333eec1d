//! OIDs of objects for which PostgreSQL has no fixed one.
//!
//! A table's OID is derived from its number in the catalog, which no other table ever has. The OID
//! of a schema, a view or an external table is a hash of its name, so all connections see the same
//! one, also after a restart of the server. If two hashes collide, the second object gets the next
//! free OID ([`super::objects`]).

use super::schemas::SCHEMA;

/// The first OID that PostgreSQL assigns to objects of users.
const FIRST: i64 = 16_384;
/// The first hashed OID, above those of tables. All OIDs fit in 31 bits, since some clients read
/// them as signed integers.
const HASHED: i64 = 1 << 30;
const LAST: i64 = (1 << 31) - 1;

/// The role that owns the database, with PostgreSQL's OID.
pub(super) const OWNER: i64 = 10;
/// The database.
pub(super) const DATABASE: i64 = 5;
/// The default tablespace.
pub(super) const TABLESPACE: i64 = 1663;
/// Schema `pg_catalog`.
pub(super) const PG_CATALOG: i64 = 11;
/// Schema `public`.
pub(super) const PUBLIC: i64 = 2200;

/// Returns the OID of the table with this number.
pub(super) fn of_table(number: u64) -> i64 {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    FIRST + number % (HASHED - FIRST)
}

/// Returns the OID of a schema.
pub(super) fn of_schema(name: &str) -> i64 {
    match name {
        SCHEMA => PG_CATALOG,
        "public" => PUBLIC,
        name => hashed(&[name]),
    }
}

/// Returns the OID of an object without a fixed one: the FNV-1a hash of the parts of its name.
pub(super) fn hashed(parts: &[&str]) -> i64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, mix);
    HASHED | (i64::try_from(hash >> 33).unwrap_or(0) & (HASHED - 1))
}

/// Returns the OID to try after one that is taken.
pub(super) fn next(oid: i64) -> i64 {
    if oid >= LAST { HASHED } else { oid + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oids_fit_in_signed_integers() {
        let names = (0..1000).map(|n| hashed(&["public", &n.to_string()]));
        let oids: std::collections::HashSet<_> = names.collect();
        assert_eq!(oids.len(), 1000);
        assert!(oids.iter().all(|oid| (HASHED..=LAST).contains(oid)));
        assert_ne!(hashed(&["a", "bc"]), hashed(&["ab", "c"]));
        assert!(of_table(u64::MAX) < HASHED);
        assert_eq!(next(LAST), HASHED);
    }
}
