//! The options in force: the command line over the configuration file over the defaults.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use terrace_bench::pages::cost::Prices;
use terrace_pool::Placement;
use terrace_sql::{EngineConfig, ProcessMemory};
use terrace_sys::file_system::is_in_memory;
use terrace_sys::probe::Probe;
use terrace_tier::TierSpec;

use crate::args::Options;
use crate::config::Config;
use crate::dram::{Dram, usable_bytes};
use crate::error::Result;

/// Options with nothing left open but the directory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The budget of DRAM in bytes.
    pub dram_bytes: u64,
    /// Whether nobody named the budget.
    pub dram_is_default: bool,
    /// Bytes that the process may take.
    pub memory_limit_bytes: u64,
    /// Tiers below DRAM.
    pub tiers: Vec<TierSpec>,
    /// Where tables are kept.
    pub data: Option<PathBuf>,
    /// Threads that run queries.
    pub threads: NonZeroUsize,
    /// Whether nobody named the threads.
    pub threads_is_default: bool,
    /// What sessions begin with, as SET has it.
    pub settings: Vec<(String, String)>,
    /// Where pages are, where somebody said.
    pub placement: Option<Placement>,
    /// The address at which `terrace serve` has clients of Arrow Flight SQL.
    pub flight: Option<SocketAddr>,
    /// What bytes cost.
    pub prices: Prices,
}

impl Settings {
    /// Reads the configuration file and fills what the command line leaves open.
    ///
    /// # Errors
    /// [`crate::error::CliError::Config`] as [`Config::load`] has it.
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
            // In this order: the last one of a name counts.
            settings: config.settings.0.into_iter().chain(options.settings.clone()).collect(),
        }
    }

    /// A warning that what leaves the budget would stay in DRAM, where that is so.
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

    /// What the engine is opened with. Logs the [warning](Settings::warning).
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
