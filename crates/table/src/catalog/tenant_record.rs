//! Record format of tenants in the catalog.

use std::time::Duration;

use super::bytes::{FieldReader, FieldWriter, Missing};
use terrace_governor::limits::TenantLimits;

const TENANT_VERSION: u8 = 2;
/// Tenant records of this version have no limits.
const UNLIMITED_TENANT_VERSION: u8 = 1;

/// Encodes a tenant: its SLA in the form that users type, if it has one, and its limits.
pub(super) fn tenant_to_bytes(sla: Option<&str>, limits: &TenantLimits) -> Vec<u8> {
    let mut fields = FieldWriter::new(TENANT_VERSION);
    fields.byte(u8::from(sla.is_some()));
    fields.bytes(sla.unwrap_or_default().as_bytes());
    put_limits(&mut fields, limits);
    fields.finish()
}

/// Decodes the SLA of a tenant, if it has one, and its limits.
pub(super) fn tenant_from_bytes(bytes: &[u8]) -> Result<(Option<String>, TenantLimits), Missing> {
    let is_unlimited = bytes.first() == Some(&UNLIMITED_TENANT_VERSION);
    let version = if is_unlimited { UNLIMITED_TENANT_VERSION } else { TENANT_VERSION };
    let mut fields = FieldReader::new(bytes, version)?;
    let has_one = fields.byte()? != 0;
    let sla = fields.text()?;
    let limits = match is_unlimited {
        true => TenantLimits::default(),
        false => limits_of(&mut fields)?,
    };
    fields.end()?;
    Ok((has_one.then_some(sla), limits))
}

fn put_limits(fields: &mut FieldWriter, limits: &TenantLimits) {
    let TenantLimits { connections, queries, queue_time, query_time, dram_bytes, spill_bytes } =
        *limits;
    let millis = |time: Option<Duration>| {
        time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    let (queue, query) = (millis(queue_time), millis(query_time));
    for limit in [connections, queries, queue, query, dram_bytes, spill_bytes] {
        fields.byte(u8::from(limit.is_some()));
        fields.word(limit.unwrap_or_default());
    }
}

fn limits_of(fields: &mut FieldReader<'_>) -> Result<TenantLimits, Missing> {
    let mut next = || -> Result<Option<u64>, Missing> {
        let is_there = fields.byte()? != 0;
        let value = fields.word()?;
        Ok(is_there.then_some(value))
    };
    Ok(TenantLimits {
        connections: next()?,
        queries: next()?,
        queue_time: next()?.map(Duration::from_millis),
        query_time: next()?.map(Duration::from_millis),
        dram_bytes: next()?,
        spill_bytes: next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept() {
        let limits = TenantLimits {
            connections: Some(3),
            queries: Some(4),
            queue_time: Some(Duration::from_millis(500)),
            query_time: Some(Duration::from_secs(300)),
            dram_bytes: Some(64 << 20),
            spill_bytes: Some(1 << 30),
        };
        for limits in [limits, TenantLimits::default()] {
            let mut fields = FieldWriter::new(1);
            put_limits(&mut fields, &limits);
            let record = fields.finish();
            let read = FieldReader::new(&record, 1).and_then(|mut it| limits_of(&mut it));
            assert_eq!(read, Ok(limits));
        }
    }
}
