//! Files that are written to S3, and become visible when all of them are complete.
//!
//! Writers of files write to an [`UploadStore`]. The first part of a path there is the number of an
//! [`UploadTarget`], the others are the place of the file below the target.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::runtime::Handle;

use crate::address::{Address, Scheme};
use crate::error::CloudError;
use crate::files::CloudFiles;
use crate::store::{failed, refused};
use crate::uploads::{Group, Object};

/// The address that an [`UploadStore`] is registered under.
pub const UPLOAD_URL: &str = "upload://files";

/// The S3 key of a file to write, or the directory of several files.
#[derive(Clone, Debug)]
pub struct UploadTarget {
    files: CloudFiles,
    address: Address,
    is_single: bool,
    number: u64,
}

impl UploadTarget {
    /// Creates the target of one file if `is_single`, else of several files below `address`.
    ///
    /// # Errors
    /// [`CloudError::Target`] for an HTTP server, a pattern, and a file without a name.
    pub fn new(files: &CloudFiles, address: Address, is_single: bool) -> Result<Self, CloudError> {
        let refused = |reason: &str| {
            let (address, reason) = (address.text.clone(), reason.to_owned());
            Err(CloudError::Target { address, reason })
        };
        if address.scheme == Scheme::Http {
            return refused("HTTP servers take no files; name s3://bucket/key or a local file");
        }
        if address.is_pattern() {
            return refused("it is a pattern of files; leave *, ? and [ out");
        }
        if is_single && (address.key.is_empty() || address.key.ends_with('/')) {
            return refused("it is a directory; name a file, or say PARTITION_BY");
        }
        let (files, number) = (files.clone(), files.uploads().number());
        Ok(Self { files, address, is_single, number })
    }

    /// Returns the URL in an [`UploadStore`] to write the file to, with this extension, or the
    /// directory for several files.
    #[must_use]
    pub fn url(&self, extension: &str) -> String {
        match self.is_single {
            true => format!("{UPLOAD_URL}/{}/file.{extension}", self.number),
            false => format!("{UPLOAD_URL}/{}/", self.number),
        }
    }

    /// Returns the address of the target.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address.text
    }

    /// Begins an upload: the [`UploadStore`] accepts files for the target from now on.
    ///
    /// # Errors
    /// [`CloudError::Target`] if the target has an upload already; errors of opening a client.
    pub fn begin(&self) -> Result<Upload, CloudError> {
        let bucket = self.address.with_key("");
        let (client, _) = self.files.client(&bucket)?;
        let group = Arc::new(Group::new(client, self.address.clone(), self.is_single));
        if !self.files.uploads().open(self.number, &group) {
            return Err(CloudError::Target {
                address: self.address.text.clone(),
                reason: "the same statement writes it already".to_owned(),
            });
        }
        Ok(Upload { target: self.clone(), group: Some(group) })
    }
}

/// Upload of the files of one target. Dropping it discards them.
pub struct Upload {
    target: UploadTarget,
    /// `None` after the end.
    group: Option<Arc<Group>>,
}

impl Upload {
    /// Makes the files visible, which must be complete. Dropping the future does not interrupt
    /// this.
    ///
    /// # Errors
    /// [`CloudError`] of the server; then none of the files appears.
    pub async fn publish(mut self) -> Result<(), CloudError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let files = self.target.files.clone();
        files.uploads().close(self.target.number);
        files.threads().run(async move { group.publish().await }).await
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        let files = &self.target.files;
        files.uploads().close(self.target.number);
        if let Err(error) = files.threads().start(async move { group.discard().await }) {
            tracing::warn!(%error, target = %self.target.address.text, "parts are left over");
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A write-only object store for the files of [`Upload`]s.
#[derive(Clone, Debug)]
pub struct UploadStore(CloudFiles);

impl UploadStore {
    /// Creates the store for targets of `files`.
    #[must_use]
    pub fn new(files: CloudFiles) -> Self {
        Self(files)
    }

    /// Begins to upload an object, on the threads that exchange requests with servers: there it is
    /// registered with its group even if the writer is gone.
    async fn create(&self, location: &StorePath) -> Result<Writer, CloudError> {
        let missing = || CloudError::Target {
            address: location.to_string(),
            reason: "it belongs to no statement that writes files".to_owned(),
        };
        let number = location.parts().next().and_then(|part| part.as_ref().parse().ok());
        let group = number.and_then(|number| self.0.uploads().get(number)).ok_or_else(missing)?;
        let place = location.clone();
        let created = async move { group.create(place.parts().skip(1)).await };
        let object = self.0.threads().run(created).await?;
        Ok(Writer { object, threads: self.0.threads().handle()?.clone() })
    }
}

impl fmt::Display for UploadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("uploads")
    }
}

/// Writer of an object, which becomes visible together with the others of its group.
#[derive(Debug)]
struct Writer {
    object: Arc<Object>,
    threads: Handle,
}

/// An object that is not shown yet has no tag.
const WRITTEN: PutResult = PutResult { e_tag: None, version: None };

#[async_trait]
impl MultipartUpload for Writer {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, object) = (self.object.put_part(data, &self.threads), Arc::clone(&self.object));
        async move { part.await.map_err(|source| failed(object.failed(source))) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.object.set_whole();
        Ok(WRITTEN)
    }

    /// Leaves the parts to the group, which is discarded.
    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for UploadStore {
    async fn put_opts(
        &self,
        location: &StorePath,
        payload: PutPayload,
        _: PutOptions,
    ) -> Result<PutResult> {
        let mut writer = self.create(location).await.map_err(failed)?;
        // An object without parts gets an empty one when it is completed.
        if payload.content_length() > 0 {
            writer.put_part(payload).await?;
        }
        writer.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &StorePath,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(self.create(location).await.map_err(failed)?))
    }

    async fn get_opts(&self, _: &StorePath, _: GetOptions) -> Result<GetResult> {
        refused("get")
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<StorePath>>,
    ) -> BoxStream<'static, Result<StorePath>> {
        stream::once(async { refused("delete") }.boxed()).boxed()
    }

    fn list(&self, _: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { refused("list") }.boxed()).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&StorePath>) -> Result<ListResult> {
        refused("list")
    }

    async fn copy_opts(&self, _: &StorePath, _: &StorePath, _: CopyOptions) -> Result<()> {
        refused("copy")
    }
}
