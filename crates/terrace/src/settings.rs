//! Effective options: the command line overrides the configuration file, which overrides defaults.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use terrace_bench::setting::Prices;
use terrace_pool::Placement;
use terrace_sql::{EngineConfig, ProcessMemory};
use terrace_sys::file_system::is_in_memory;
use terrace_sys::probe::Probe;
use terrace_tier::TierSpec;

use crate::args::Options;
use crate::config::Config;
use crate::dram::{Dram, usable_bytes};
use crate::error::Result;

/// Options with all defaults filled in, except the data directory and the placement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Budget of DRAM in bytes.
    pub dram_bytes: u64,
    /// True if the budget is the default, not given by the user.
    pub dram_is_default: bool,
    /// Limit of the process's memory in bytes.
    pub memory_limit_bytes: u64,
    /// Tiers below DRAM.
    pub tiers: Vec<TierSpec>,
    /// Directory of the tables.
    pub data: Option<PathBuf>,
    /// Number of threads that run queries.
    pub threads: NonZeroUsize,
    /// True if the number of threads is the default, not given by the user.
    pub threads_is_default: bool,
    /// Initial settings of sessions, as of SET.
    pub settings: Vec<(String, String)>,
    /// Placement of pages, if the user gave one.
    pub placement: Option<Placement>,
    /// Address at which `terrace serve` accepts clients of Arrow Flight SQL.
    pub flight: Option<SocketAddr>,
    /// Prices of memory and of the machine, for `bench cost`.
    pub prices: Prices,
}

impl Settings {
    /// Reads the configuration file and fills in the options that the command line does not give.
    ///
    /// # Errors
    /// [`crate::error::CliError::Config`], as of [`Config::load`].
    pub fn resolve(options: &Options) -> Result<Settings> {
        let config = Config::load(options.config.as_deref())?;
        let probe = Probe::detect();
        Ok(Settings::merge(options, config, &probe))
    }

    fn merge(options: &Options, config: Config, probe: &Probe) -> Settings {
        let dram = options.dram.or(config.dram);
        let threads = options.threads.or(config.threads);
        let tiers = if options.tiers.is_empty() { config.tiers.0 } else { options.tiers.clone() };
        let cpus = NonZeroUsize::new(probe.cpus).unwrap_or(NonZeroUsize::MIN);
        Settings {
            dram_bytes: dram.map_or(Dram::default_bytes(probe), |dram| dram.bytes(probe)),
            dram_is_default: dram.is_none(),
            memory_limit_bytes: options
                .memory_limit
                .or(config.memory_limit)
                .unwrap_or(usable_bytes(probe) / 16 * 15),
            tiers,
            data: options.data.clone().or(config.data),
            threads: threads.unwrap_or(cpus),
            threads_is_default: threads.is_none(),
            placement: options.placement.or(config.placement),
            flight: config.flight,
            prices: config.prices,
            // In this order, since of several values of a setting the last one counts.
            settings: config.settings.0.into_iter().chain(options.settings.clone()).collect(),
        }
    }

    /// Returns a warning if data evicted from the budget would stay in DRAM, in a file system in
    /// memory.
    pub fn warning(&self) -> Option<String> {
        let stored = self.tiers.iter().any(|tier| !tier.is_memory());
        let directory = self.data.clone().unwrap_or_else(std::env::temp_dir);
        let in_memory = !stored && is_in_memory(&directory).unwrap_or(false);
        in_memory.then(|| {
            let directory = directory.display();
            format!(
                "{directory} is a file system in memory: what the budget has no room for takes \
                 DRAM there; name a directory on a device with --data or TMPDIR"
            )
        })
    }

    /// Returns the configuration of the engine. Logs the [warning](Settings::warning).
    pub fn engine(&self) -> EngineConfig {
        if let Some(warning) = self.warning() {
            tracing::warn!("{warning}");
        }
        EngineConfig {
            dram_bytes: self.dram_bytes,
            tiers: self.tiers.clone(),
            data_dir: self.data.clone(),
            threads: self.threads.get(),
            settings: self.settings.clone(),
            placement: self.placement.unwrap_or_default(),
            process_memory: ProcessMemory::default(),
            process_limit_bytes: Some(self.memory_limit_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "dram = \"1GiB\"\ntier = \"emu:1GiB\"\nthreads = 3\ndata = \"/a\"\n\
                    placement = \"mapped\"\nset.a.b = 1\n";
        toml::from_str(text).expect("config")
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let options = Options {
            settings: vec![("a.b".into(), "2".into())],
            dram: Some(Dram::Bytes(5 << 20)),
            memory_limit: Some(6 << 20),
            tiers: vec!["emu:2GiB".parse().expect("tier")],
            data: Some("/b".into()),
            threads: NonZeroUsize::new(7),
            placement: Some(Placement::Framed),
            ..Options::default()
        };
        let settings = Settings::merge(&options, config(), &Probe::detect());
        assert_eq!(settings.dram_bytes, 5 << 20);
        assert_eq!(settings.memory_limit_bytes, 6 << 20);
        assert_eq!(settings.tiers, options.tiers);
        assert_eq!(settings.data, options.data);
        assert_eq!(settings.threads.get(), 7);
        assert_eq!(settings.placement, Some(Placement::Framed));
        let values: Vec<&str> = settings.settings.iter().map(|(_, value)| &**value).collect();
        assert_eq!(values, ["1", "2"], "the last one counts");
    }

    #[test]
    fn the_file_wins_over_the_defaults() {
        let settings = Settings::merge(&Options::default(), config(), &Probe::detect());
        assert_eq!(settings.dram_bytes, 1 << 30);
        assert!(!settings.dram_is_default);
        assert_eq!(settings.tiers.len(), 1);
        assert_eq!(settings.threads.get(), 3);
        assert_eq!(settings.placement, Some(Placement::Mapped));
        assert!(!settings.threads_is_default);
    }

    #[test]
    fn the_default_is_half_of_the_memory() {
        let probe = Probe::detect();
        let settings = Settings::merge(&Options::default(), Config::default(), &probe);
        assert!(settings.dram_is_default);
        assert!(settings.dram_bytes <= probe.memory_bytes / 2);
        assert!(settings.dram_bytes > 0);
        assert!(settings.memory_limit_bytes > settings.dram_bytes);
        assert!(settings.memory_limit_bytes < probe.memory_bytes);
        assert_eq!(settings.threads.get(), probe.cpus);
        assert!(settings.threads_is_default);
    }
}
