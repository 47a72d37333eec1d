//! Record format of roles in the catalog.

use std::collections::BTreeMap;

use super::bytes::{FieldReader, FieldWriter, Missing};
use super::role::{Membership, Role};
use super::verifier::Verifier;

const ROLE_VERSION: u8 = 2;
/// Role records of this version have no memberships; their roles inherit.
const APART_ROLE_VERSION: u8 = 1;

/// Encodes a role. Names that are absent are empty.
pub(super) fn role_to_bytes(role: &Role) -> Vec<u8> {
    let mut fields = FieldWriter::new(ROLE_VERSION);
    fields.byte(u8::from(role.can_login));
    fields.byte(u8::from(role.is_superuser));
    let verifier = role.verifier.as_ref().map(ToString::to_string);
    fields.bytes(verifier.unwrap_or_default().as_bytes());
    fields.bytes(role.tenant.as_deref().unwrap_or_default().as_bytes());
    fields.byte(u8::from(role.inherits));
    fields.len(role.member_of.len());
    for (of, Membership { is_admin, grantor }) in &role.member_of {
        fields.bytes(of.as_bytes());
        fields.byte(u8::from(*is_admin));
        fields.bytes(grantor.as_deref().unwrap_or_default().as_bytes());
    }
    fields.finish()
}

/// Decodes a role.
pub(super) fn role_from_bytes(bytes: &[u8]) -> Result<Role, Missing> {
    let is_apart = bytes.first() == Some(&APART_ROLE_VERSION);
    let version = if is_apart { APART_ROLE_VERSION } else { ROLE_VERSION };
    let mut fields = FieldReader::new(bytes, version)?;
    let (can_login, is_superuser) = (fields.byte()? != 0, fields.byte()? != 0);
    let (verifier, tenant) = (fields.text()?, fields.text()?);
    let (inherits, member_of) = match is_apart {
        true => (true, BTreeMap::new()),
        false => (fields.byte()? != 0, memberships(&mut fields)?),
    };
    fields.end()?;
    let verifier = match verifier.as_str() {
        "" => None,
        text => Some(Verifier::parse(text).ok_or("a verifier that is none")?),
    };
    Ok(Role { can_login, is_superuser, inherits, verifier, tenant: named(tenant), member_of })
}

fn memberships(fields: &mut FieldReader<'_>) -> Result<BTreeMap<String, Membership>, Missing> {
    let mut member_of = BTreeMap::new();
    for _ in 0..fields.word()? {
        let of = fields.text()?;
        let is_admin = fields.byte()? != 0;
        let grantor = named(fields.text()?);
        member_of.insert(of, Membership { is_admin, grantor });
    }
    Ok(member_of)
}

fn named(name: String) -> Option<String> {
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_were_written() {
        let membership = |is_admin, grantor: Option<&str>| Membership {
            is_admin,
            grantor: grantor.map(str::to_owned),
        };
        let member_of = BTreeMap::from([
            ("readers".to_owned(), membership(false, None)),
            ("writers".to_owned(), membership(true, Some("admin"))),
        ]);
        let tenant = Some("reports".to_owned());
        let verifier = Verifier::of("secret").ok();
        let role = Role {
            can_login: true,
            inherits: false,
            verifier,
            tenant,
            member_of,
            ..Role::default()
        };
        let bytes = role_to_bytes(&role);
        assert_eq!(role_from_bytes(&bytes), Ok(role));
        assert!(role_from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn roles_without_memberships_are_of_the_first_version() {
        let mut fields = FieldWriter::new(APART_ROLE_VERSION);
        [1, 0].into_iter().for_each(|byte| fields.byte(byte));
        ["", "reports"].into_iter().for_each(|text| fields.bytes(text.as_bytes()));
        let tenant = Some("reports".to_owned());
        let role = Role { can_login: true, tenant, ..Role::default() };
        assert_eq!(role_from_bytes(&fields.finish()), Ok(role));
    }
}
