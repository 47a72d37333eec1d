//! The text of an SLA: one that is read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_market::Sla;

fuzz_target!(|text: &str| {
    if let Ok(sla) = text.parse::<Sla>() {
        assert_eq!(sla.to_string().parse::<Sla>().ok().as_ref(), Some(&sla), "{text:?}");
    }
});
