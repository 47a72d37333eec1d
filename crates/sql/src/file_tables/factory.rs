//! Tables whose names are paths or patterns of files: `SELECT * FROM 'x.csv'`.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;

use super::access::FileAccess;
use super::csv::CsvOptions;
use super::found::{self, FoundFile, Kind, kind_of};
use super::json::JsonOptions;
use super::read_csv::{self, SharedOptions};
use super::{read_json, read_parquet};

/// Creates tables for names that are paths or patterns of files.
#[derive(Debug)]
pub(crate) struct FileTables {
    access: Arc<FileAccess>,
    /// DataFusion's factory, which creates tables of local Parquet and Arrow files.
    stock: DynamicListTableFactory,
}

impl FileTables {
    /// The tables of a session with this right to use files.
    pub(crate) fn new(access: Arc<FileAccess>) -> Self {
        Self { access, stock: DynamicListTableFactory::default() }
    }

    /// DataFusion's factory, which needs the session's state.
    pub(crate) fn stock(&self) -> &DynamicListTableFactory {
        &self.stock
    }
}

/// True for a name that can only be a path: with a separator, a known extension, or an address.
fn is_path(name: &str) -> bool {
    const OTHERS: [&str; 2] = ["arrow", "ipc"];
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let is_other = extension.is_some_and(|extension| OTHERS.contains(&extension));
    name.contains('/') || is_other || kind_of(Path::new(name)).is_some()
}

/// The files of the first known format among those of a directory or pattern, and that format.
fn of_one_kind(mut files: Vec<FoundFile>) -> Option<(Vec<FoundFile>, Kind)> {
    let kind = |file: &FoundFile| kind_of(&file.path).map(|(kind, _)| kind);
    let first = files.iter().find_map(kind)?;
    files.retain(|file| kind(file) == Some(first));
    Some((files, first))
}

#[async_trait]
impl UrlTableFactory for FileTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !is_path(name) {
            return Ok(None);
        }
        self.access.require("reading files")?;
        let files = found::find(name, self.access.cloud())?;
        let is_remote = files.iter().any(|file| file.remote.is_some());
        if files.is_empty() {
            return found::missing(name);
        }
        let shared = SharedOptions::default();
        match of_one_kind(files) {
            Some((files, Kind::Csv)) => {
                read_csv::of_files(files, CsvOptions::default(), &shared).map(Some)
            }
            Some((files, Kind::Json)) => {
                read_json::of_files(files, JsonOptions::default(), &shared).map(Some)
            }
            Some((files, Kind::Parquet)) if is_remote => {
                read_parquet::of_files(files, &shared).map(Some)
            }
            None if is_remote => plan_err!(
                "the format of {name} is not known by its name; call read_csv, read_json or \
                 read_parquet"
            ),
            Some((_, Kind::Parquet)) | None => self.stock.try_new(name).await,
        }
    }
}
