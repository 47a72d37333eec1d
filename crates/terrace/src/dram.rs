//! Budget of DRAM, as given on the command line and in configuration files.

use std::str::FromStr;

use terrace_sys::probe::Probe;
use terrace_sys::size::parse_bytes;

/// A budget of DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dram {
    /// A number of bytes.
    Bytes(u64),
    /// Three quarters of the memory that this process may use, for a program that has its machine
    /// or its control group to itself. The rest is for memory outside of the budget: code, plans,
    /// the buffers of connections.
    Auto,
}

impl Dram {
    /// Returns the budget in bytes.
    pub fn bytes(self, probe: &Probe) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Auto => whole_mib(usable_bytes(probe) / 4 * 3),
        }
    }

    /// Returns the default budget: half of the memory that this process may use.
    pub fn default_bytes(probe: &Probe) -> u64 {
        whole_mib(usable_bytes(probe) / 2)
    }
}

impl FromStr for Dram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => parse_bytes(text).map(Self::Bytes).map_err(|error| format!("{error}, or auto")),
        }
    }
}

/// Returns the memory that this process may use: that of its control group, or the machine's.
pub fn usable_bytes(probe: &Probe) -> u64 {
    probe.memory_limit_bytes.unwrap_or(u64::MAX).min(probe.memory_bytes)
}

fn whole_mib(bytes: u64) -> u64 {
    bytes >> 20 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_sizes_or_a_share_of_what_there_is() {
        assert_eq!("1GiB".parse(), Ok(Dram::Bytes(1 << 30)));
        assert_eq!("auto".parse(), Ok(Dram::Auto));
        let refused = "lots".parse::<Dram>().err().unwrap_or_default();
        assert!(refused.contains("lots") && refused.contains("auto"), "{refused}");
        let mut probe = Probe::detect();
        probe.memory_limit_bytes = Some(1 << 30);
        assert_eq!(Dram::Auto.bytes(&probe), 768 << 20);
        assert_eq!(Dram::default_bytes(&probe), 512 << 20);
        probe.memory_limit_bytes = None;
        assert!(Dram::Auto.bytes(&probe) < probe.memory_bytes);
    }
}
