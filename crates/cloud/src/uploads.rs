//! Groups of multipart uploads that are completed together.
//!
//! The objects of a group are completed when all of them have all their parts. Until then, and if
//! the group is discarded, none of them is visible on the server.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::join_all;
use object_store::path::{Path as StorePath, PathPart};
use object_store::{
    Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMultipartOptions,
    PutPayload, UploadPart,
};
use terrace_sys::sync::lock;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::address::Address;
use crate::clients::path_of;
use crate::error::CloudError;

/// Number of objects that are completed at a time.
const COMPLETED_MAX: usize = 16;

/// Groups that are being written, by the number of their target.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    numbers: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Group>>>,
}

impl Uploads {
    /// Returns a number for a target.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a group. Returns false if the target has one already.
    pub(crate) fn open(&self, number: u64, group: &Arc<Group>) -> bool {
        let mut open = lock(&self.open);
        if open.contains_key(&number) {
            return false;
        }
        open.insert(number, Arc::clone(group));
        true
    }

    /// Returns the group of a target that has not ended.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Group>> {
        lock(&self.open).get(&number).cloned()
    }

    /// Removes the group of a target.
    pub(crate) fn close(&self, number: u64) {
        lock(&self.open).remove(&number);
    }
}

/// Objects that are completed together.
pub(crate) struct Group {
    client: Arc<dyn ObjectStore>,
    address: Address,
    /// True if the address is that of the only object, false if it is above all objects.
    is_single: bool,
    /// The objects; `None` after the end.
    objects: Mutex<Option<Vec<Arc<Object>>>>,
}

impl Group {
    pub(crate) fn new(client: Arc<dyn ObjectStore>, address: Address, is_single: bool) -> Self {
        Self { client, address, is_single, objects: Mutex::new(Some(Vec::new())) }
    }

    /// Begins to upload an object at a place below the address.
    pub(crate) async fn create(
        &self,
        place: impl Iterator<Item = PathPart<'_>> + Send,
    ) -> Result<Arc<Object>, CloudError> {
        let path = self.path(place)?;
        let address = self.address.with_key(path.as_ref());
        let upload = self.client.put_multipart_opts(&path, PutMultipartOptions::default()).await;
        let upload = upload.map_err(|source| failed(&address, source))?;
        let object = Arc::new(Object {
            path,
            address,
            upload: Mutex::new(Some(upload)),
            requests: Mutex::default(),
            is_whole: AtomicBool::new(false),
        });
        let is_open = match lock(&self.objects).as_mut() {
            Some(objects) => {
                objects.push(Arc::clone(&object));
                true
            }
            None => false,
        };
        if !is_open {
            object.discard().await;
            return Err(self.ended());
        }
        Ok(object)
    }

    fn path<'a>(&self, place: impl Iterator<Item = PathPart<'a>>) -> Result<StorePath, CloudError> {
        let base = path_of(self.address.key.trim_end_matches('/'), &self.address)?;
        match self.is_single {
            true => Ok(base),
            false => Ok(place.fold(base, |path, part| path.join(part))),
        }
    }

    /// Completes all objects, which makes them visible. If one cannot be completed, those already
    /// completed are deleted.
    pub(crate) async fn publish(&self) -> Result<(), CloudError> {
        let objects = lock(&self.objects).take().unwrap_or_default();
        let mut failure = None;
        if objects.iter().any(|object| !object.is_whole.load(Ordering::Acquire)) {
            failure = Some(self.ended());
        }
        let mut shown: Vec<&Object> = Vec::new();
        for some in objects.chunks(COMPLETED_MAX) {
            if failure.is_some() {
                break;
            }
            let completed = join_all(some.iter().map(|object| object.complete())).await;
            for (object, completed) in some.iter().zip(completed) {
                match completed {
                    Ok(()) => shown.push(object),
                    Err(source) => failure = Some(object.failed(source)),
                }
            }
        }
        let Some(error) = failure else { return Ok(()) };
        for object in shown {
            if let Err(error) = self.client.delete(&object.path).await {
                tracing::warn!(%error, object = %object.path, "an object is left over");
            }
        }
        join_all(objects.iter().map(|object| object.discard())).await;
        Err(error)
    }

    /// Removes the parts of all objects.
    pub(crate) async fn discard(&self) {
        let objects = lock(&self.objects).take().unwrap_or_default();
        join_all(objects.iter().map(|object| object.discard())).await;
    }

    fn ended(&self) -> CloudError {
        CloudError::Target {
            address: self.address.text.clone(),
            reason: "the statement ended before all rows were written".to_owned(),
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("address", &self.address.text).finish_non_exhaustive()
    }
}

/// An object whose parts are uploaded.
#[derive(Debug)]
pub(crate) struct Object {
    path: StorePath,
    address: Address,
    /// `None` after the end.
    upload: Mutex<Option<Box<dyn MultipartUpload>>>,
    /// Requests that upload parts.
    requests: Mutex<JoinSet<()>>,
    /// True if the writer has completed the object, so that the server has all parts.
    is_whole: AtomicBool,
}

impl Object {
    /// Uploads the next part by a request on these threads.
    pub(crate) fn put_part(&self, part: PutPayload, threads: &Handle) -> UploadPart {
        let request = lock(&self.upload).as_mut().map(|upload| upload.put_part(part));
        let Some(request) = request else { return async { Err(ended()) }.boxed() };
        let (sender, receiver) = oneshot::channel();
        let request = async move {
            // The writer is gone if the statement has failed.
            let _ = sender.send(request.await);
        };
        lock(&self.requests).spawn_on(request, threads);
        async move { receiver.await.unwrap_or_else(|_| Err(ended())) }.boxed()
    }

    /// The error of a client about the object.
    pub(crate) fn failed(&self, source: StoreError) -> CloudError {
        failed(&self.address, source)
    }

    /// Records that the server has all parts.
    pub(crate) fn set_whole(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// Completes the object, which makes it visible.
    async fn complete(&self) -> Result<(), StoreError> {
        let taken = lock(&self.upload).take();
        let Some(mut upload) = taken else { return Err(ended()) };
        match upload.complete().await {
            Ok(_) => Ok(()),
            Err(error) => {
                *lock(&self.upload) = Some(upload);
                Err(error)
            }
        }
    }

    /// Removes the parts, unless the object was completed.
    async fn discard(&self) {
        let mut requests = std::mem::take(&mut *lock(&self.requests));
        // A request that arrived later than the removal would leave its part.
        requests.shutdown().await;
        let taken = lock(&self.upload).take();
        if let Some(mut upload) = taken
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, object = %self.path, "parts of an upload are left over");
        }
    }
}

/// The error of a client about an object that is written.
fn failed(address: &Address, source: StoreError) -> CloudError {
    CloudError::of_write(&address.text, &address.authority, source)
}

/// The error of a part of an upload that has ended.
fn ended() -> StoreError {
    StoreError::Generic { store: "uploads", source: "the upload has ended".into() }
}
