//! The program's directory below the user's cache directory.

use std::env;
use std::path::PathBuf;

use crate::error::{CheckError, Result};

/// Returns `XDG_CACHE_HOME/terrace`, or `HOME/.cache/terrace`, with `name` below it.
///
/// # Errors
/// [`CheckError::Input`] when neither variable is set, [`CheckError::File`] when the directory
/// cannot be created.
pub fn directory(name: &str) -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or_else(|| {
        CheckError::Input("no cache directory: set XDG_CACHE_HOME or HOME".to_owned())
    })?;
    let path = cache.join("terrace").join(name);
    std::fs::create_dir_all(&path).map_err(|error| CheckError::file("create", &path, error))?;
    Ok(path)
}
