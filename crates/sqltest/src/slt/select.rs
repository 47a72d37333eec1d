//! Selection of the scripts and queries of a run.

use glob::Pattern;
use md5::{Digest, Md5};

use super::archive::Archive;
use super::options::SltOptions;
use crate::error::{CheckError, Result};

/// Directories of generated scripts, of which there are hundreds.
const GENERATED: &[&str] = &["test/index/", "test/random/"];

/// Returns the scripts that the options select, longest first, so that all workers finish at about
/// the same time.
pub fn scripts(archive: &Archive, options: &SltOptions) -> Result<Vec<String>> {
    let pattern = options.filter.as_deref().map(Pattern::new).transpose();
    let pattern = pattern.map_err(|error| CheckError::Input(format!("--filter: {error}")))?;
    let wanted = |name: &str| {
        let short = name.strip_prefix("test/").unwrap_or(name);
        let named = pattern.as_ref().is_none_or(|it| it.matches(name) || it.matches(short));
        named && (!options.tenth || in_tenth(name))
    };
    let mut chosen: Vec<_> = archive.entries().filter(|(name, _)| wanted(name)).collect();
    chosen.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), (*name).to_owned()));
    if chosen.is_empty() {
        return Err(CheckError::Input("no script has such a name; see --filter".to_owned()));
    }
    Ok(chosen.into_iter().map(|(name, _)| name.to_owned()).collect())
}

/// True for one generated script in ten, and for every script that is not generated.
fn in_tenth(name: &str) -> bool {
    !GENERATED.iter().any(|prefix| name.starts_with(prefix)) || hash(name).is_multiple_of(10)
}

/// True for one text in `sample`, by its hash.
pub fn sampled(text: &str, sample: u32) -> bool {
    sample <= 1 || hash(text).is_multiple_of(sample)
}

/// Returns a hash that is the same in every version and on every machine.
pub fn hash(text: &str) -> u32 {
    let digest = Md5::digest(text.as_bytes());
    digest.iter().take(4).fold(0, |hash, byte| (hash << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_is_fixed() {
        let names = (0..1000).map(|number| format!("test/random/expr/slt_good_{number}.test"));
        let chosen = names.filter(|name| in_tenth(name)).count();
        assert!((60..140).contains(&chosen), "{chosen}");
        assert!(in_tenth("test/select1.test"));
        assert_eq!(hash(""), 0xd41d_8cd9);
        assert!(sampled("SELECT 1", 1));
    }
}
