//! Configuration file in TOML: the global options, the Flight SQL address of `terrace serve`, and
//! the prices of `bench cost`.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use terrace_bench::setting::Prices;
use terrace_pool::Placement;
use terrace_sys::size::parse_bytes;
use terrace_tier::TierSpec;

use crate::dram::Dram;
use crate::error::{CliError, Result};

/// Contents of a configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As `--dram`.
    #[serde(default, deserialize_with = "dram")]
    pub dram: Option<Dram>,
    /// As `--memory-limit`.
    #[serde(default, rename = "memory-limit", deserialize_with = "size")]
    pub memory_limit: Option<u64>,
    /// As `--tier`: one specification or a list of them.
    #[serde(default, rename = "tier")]
    pub tiers: Tiers,
    /// As `--data`.
    pub data: Option<PathBuf>,
    /// As `--threads`.
    pub threads: Option<NonZeroUsize>,
    /// As `--placement`.
    #[serde(default, deserialize_with = "placement")]
    pub placement: Option<Placement>,
    /// As `--flight` of `terrace serve`.
    pub flight: Option<SocketAddr>,
    /// Dollars for a GiB of DRAM, remote memory and store, and for the machine, of `bench cost`.
    #[serde(default)]
    pub prices: Prices,
    /// As `--set`: a table of names and values.
    #[serde(default, rename = "set")]
    pub settings: Assignments,
}

/// Settings of a session. A value that is not a string is converted to text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "toml::Table")]
pub struct Assignments(pub Vec<(String, String)>);

impl TryFrom<toml::Table> for Assignments {
    type Error = String;

    fn try_from(table: toml::Table) -> std::result::Result<Assignments, String> {
        let mut found = Assignments::default();
        found.take("", table)?;
        Ok(found)
    }
}

impl Assignments {
    /// Adds the settings of `table`, whose names begin with `prefix`: the setting `a.b` may be
    /// written as a quoted key or as nested tables.
    fn take(&mut self, prefix: &str, table: toml::Table) -> std::result::Result<(), String> {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                toml::Value::Table(inner) => self.take(&format!("{name}."), inner)?,
                toml::Value::String(text) => self.0.push((name, text)),
                toml::Value::Array(_) => return Err(format!("{name} takes one value, not a list")),
                value => self.0.push((name, value.to_string())),
            }
        }
        Ok(())
    }
}

/// A list of tiers, which may be written as a single string when it has one entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "OneOrMany")]
pub struct Tiers(pub Vec<TierSpec>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a tier such as \"emu:1GiB\", or a list of them")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl TryFrom<OneOrMany> for Tiers {
    type Error = String;

    fn try_from(value: OneOrMany) -> std::result::Result<Tiers, String> {
        let texts = match value {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        };
        let parsed = texts.iter().map(|text| text.parse::<TierSpec>());
        parsed.collect::<std::result::Result<_, _>>().map(Tiers).map_err(|error| error.to_string())
    }
}

impl Config {
    /// Loads the given file, or the user's own if it exists; otherwise returns the defaults.
    ///
    /// # Errors
    /// [`CliError::Config`] if a file that was given, or that exists, cannot be read or has an
    /// unknown key or an invalid value.
    pub fn load(named: Option<&Path>) -> Result<Config> {
        match named {
            Some(path) => Config::read(path),
            None => match user_file() {
                Some(path) if path.exists() => Config::read(&path),
                _ => Ok(Config::default()),
            },
        }
    }

    fn read(path: &Path) -> Result<Config> {
        let refused = |message: String| CliError::Config { path: path.to_path_buf(), message };
        let text = fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => refused("there is no such file".into()),
            _ => refused(error.to_string()),
        })?;
        toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_string()))
    }
}

/// Returns the path of `terrace/config.toml` in the user's configuration directory; `None` if the
/// environment names no such directory.
fn user_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(base.join("terrace").join("config.toml"))
}

/// A size as a string with a unit or as a number of bytes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a size such as \"2GiB\"")]
enum Size {
    Bytes(u64),
    Text(String),
}

fn size<'de, D: serde::Deserializer<'de>>(source: D) -> std::result::Result<Option<u64>, D::Error> {
    match Size::deserialize(source)? {
        Size::Bytes(bytes) => Ok(Some(bytes)),
        Size::Text(text) => parse_bytes(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

fn dram<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> std::result::Result<Option<Dram>, D::Error> {
    match Size::deserialize(source)? {
        Size::Bytes(bytes) => Ok(Some(Dram::Bytes(bytes))),
        Size::Text(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

fn placement<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> std::result::Result<Option<Placement>, D::Error> {
    String::deserialize(source)?.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Config, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_can_be_written() {
        let config = parse(
            "dram = \"1GiB\"\nmemory-limit = \"2GiB\"\n\
             tier = [\"emu:1GiB\", \"file:/data/t:2GiB\"]\n\
             data = \"/data/db\"\nthreads = 2\nplacement = \"mapped\"\n\
             flight = \"127.0.0.1:8815\"\n\
             set.terrace.paged_sort = false\n\
             prices = { dram = 8, remote = 3.5 }\n",
        )
        .expect("parsed");
        assert_eq!(config.dram, Some(Dram::Bytes(1 << 30)));
        assert_eq!(config.memory_limit, Some(2 << 30));
        assert_eq!(config.tiers.0.len(), 2);
        assert_eq!(config.data.as_deref(), Some(Path::new("/data/db")));
        assert_eq!(config.threads.map(NonZeroUsize::get), Some(2));
        assert_eq!(config.placement, Some(Placement::Mapped));
        assert_eq!(config.flight, "127.0.0.1:8815".parse().ok());
        assert_eq!(config.prices, Prices { dram: 8.0, remote: 3.5, ..Prices::default() });
        assert_eq!(config.settings.0, [("terrace.paged_sort".to_string(), "false".to_string())]);
    }

    #[test]
    fn one_tier_needs_no_list_and_a_size_no_unit() {
        let config = parse("tier = \"emu:1GiB\"\ndram = 4096\n").expect("parsed");
        assert_eq!(config.tiers.0.len(), 1);
        assert_eq!(config.dram, Some(Dram::Bytes(4096)));
        assert_eq!(parse("dram = \"auto\"\n").expect("parsed").dram, Some(Dram::Auto));
        assert!(parse("").expect("parsed").tiers.0.is_empty());
    }

    #[test]
    fn unknown_keys_are_refused_with_the_known_ones() {
        let message = parse("drum = 1\n").expect_err("refused");
        for key in ["drum", "dram", "memory-limit", "tier", "data", "threads", "set", "prices"] {
            assert!(message.contains(key), "{message}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        assert!(parse("dram = \"lots\"\n").expect_err("refused").contains("lots"));
        assert!(parse("tier = \"floppy:1\"\n").expect_err("refused").contains("floppy"));
        assert!(parse("threads = 0\n").is_err());
        assert!(parse("placement = \"here\"\n").expect_err("refused").contains("mapped"));
        assert!(parse("[set]\nx = [1]\n").expect_err("refused").contains("not a list"));
    }
}
