//! The text of a tier: one that is read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_tier::TierSpec;

fuzz_target!(|text: &str| {
    if let Ok(tier) = text.parse::<TierSpec>() {
        assert_eq!(tier.to_string().parse::<TierSpec>().ok().as_ref(), Some(&tier), "{text:?}");
    }
});
