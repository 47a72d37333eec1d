//! Remote files as a read-only object store, for DataFusion's Parquet reader.

use std::fmt;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path as StorePath;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

use crate::error::CloudError;
use crate::file::CloudFile;
use crate::files::CloudFiles;

/// The address that a [`VersionStore`] is registered under.
pub const STORE_URL: &str = "cloud://files";
/// Name of the store in errors.
const NAME: &str = "remote files";

/// A read-only object store, whose objects are the versions of files that [`CloudFile::object`]
/// names.
#[derive(Clone, Debug)]
pub struct VersionStore(CloudFiles);

impl VersionStore {
    /// Creates a store that reads through the cache of `files`.
    #[must_use]
    pub fn new(files: CloudFiles) -> Self {
        Self(files)
    }
}

impl fmt::Display for VersionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

/// Converts an error of remote files to one of a store.
pub(crate) fn failed(error: CloudError) -> Error {
    Error::Generic { store: NAME, source: Box::new(error) }
}

/// Returns the error for an operation that these stores do not support.
pub(crate) fn refused<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented { operation: operation.to_owned(), implementer: NAME.to_owned() })
}

#[async_trait]
impl ObjectStore for VersionStore {
    async fn put_opts(&self, _: &StorePath, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        refused("put")
    }

    async fn put_multipart_opts(
        &self,
        _: &StorePath,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        refused("put")
    }

    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> Result<GetResult> {
        let file = CloudFile::of_object(location).map_err(failed)?;
        let meta = ObjectMeta { location: location.clone(), ..file.object() };
        let range = match options.range {
            None => 0..file.bytes,
            Some(GetRange::Bounded(range)) => range.start..range.end.min(file.bytes),
            Some(GetRange::Offset(offset)) => offset.min(file.bytes)..file.bytes,
            Some(GetRange::Suffix(count)) => file.bytes.saturating_sub(count)..file.bytes,
        };
        let files = self.0.clone();
        let part = range.clone();
        let bytes = match options.head {
            true => stream::empty().boxed(),
            false => {
                stream::once(async move { files.fetch(&file, part).await.map_err(failed) }.boxed())
                    .boxed()
            }
        };
        let payload = GetResultPayload::Stream(bytes);
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<StorePath>>,
    ) -> BoxStream<'static, Result<StorePath>> {
        stream::once(async { refused("delete") }).boxed()
    }

    fn list(&self, _: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { refused("list") }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&StorePath>) -> Result<ListResult> {
        refused("list")
    }

    async fn copy_opts(&self, _: &StorePath, _: &StorePath, _: CopyOptions) -> Result<()> {
        refused("copy")
    }
}
