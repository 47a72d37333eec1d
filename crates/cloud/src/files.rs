//! Finding and reading of remote files.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future, stream};
use glob::{MatchOptions, Pattern};
use object_store::path::Path as StorePath;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use terrace_pool::{Pool, PoolError};
use terrace_sys::sync::lock;

use crate::address::{Address, Scheme};
use crate::cache::{BlockCache, CacheObserver, CacheStats, FetchRange};
use crate::clients::{Clients, Threads, path_of};
use crate::error::CloudError;
use crate::file::CloudFile;
use crate::secret::Secrets;
use crate::uploads::Uploads;

/// Access to remote files, with a cache of their blocks, clients and secrets. Clones share these.
#[derive(Clone, Debug)]
pub struct CloudFiles {
    inner: Arc<Inner>,
    /// The answers of [`CloudFiles::find_together`], by the texts of the addresses.
    known: Arc<Mutex<Found>>,
}

type Found = HashMap<String, Vec<CloudFile>>;

/// Maximum number of requests of [`CloudFiles::find_together`] at a time.
const TOGETHER_MAX: usize = 32;

#[derive(Debug)]
struct Inner {
    cache: BlockCache,
    clients: Clients,
    secrets: Secrets,
    threads: Threads,
    uploads: Uploads,
}

/// Files that were found together, which [`CloudFiles::find`] returns until this is dropped.
#[derive(Debug)]
pub struct Together(Arc<Mutex<Found>>);

impl Drop for Together {
    fn drop(&mut self) {
        lock(&self.0).clear();
    }
}

impl CloudFiles {
    /// Creates a cache of at most `capacity_bytes` in a space of the pool without a grant: its
    /// pages are evicted before those of other spaces.
    ///
    /// # Errors
    /// As [`Pool::create_space`].
    pub fn new(pool: &Pool, capacity_bytes: u64) -> Result<Self, PoolError> {
        Self::open(pool, capacity_bytes, None)
    }

    /// Creates a cache like [`CloudFiles::new`], whose reads are observed.
    ///
    /// # Errors
    /// As [`CloudFiles::new`].
    pub fn observed(
        pool: &Pool,
        capacity_bytes: u64,
        observer: Arc<dyn CacheObserver>,
    ) -> Result<Self, PoolError> {
        Self::open(pool, capacity_bytes, Some(observer))
    }

    fn open(
        pool: &Pool,
        capacity_bytes: u64,
        observer: Option<Arc<dyn CacheObserver>>,
    ) -> Result<Self, PoolError> {
        let space = pool.create_space("remote files", Some(0))?;
        let cache = BlockCache::new(space, capacity_bytes, observer);
        let (clients, secrets, threads, uploads) = Default::default();
        let inner = Arc::new(Inner { cache, clients, secrets, threads, uploads });
        Ok(Self { inner, known: Arc::default() })
    }

    /// Returns access to the same files, with answers of [`CloudFiles::find_together`] of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), known: Arc::default() }
    }

    /// Returns true if a file was asked for before.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.inner.clients.is_empty()
    }

    /// Finds the files of several addresses as [`CloudFiles::find`] does, at the same time. Until
    /// the result is dropped, `find` returns what was found; an address without an answer is asked
    /// for again.
    pub fn find_together(&self, addresses: Vec<Address>, files_max: usize) -> Together {
        let together = Together(Arc::clone(&self.known));
        if addresses.is_empty() {
            return together;
        }
        let own = self.clone();
        let found = self.inner.threads.wait(async move {
            let found = stream::iter(addresses).map(|address| {
                let own = own.clone();
                async move {
                    let files = own.find_all(&address, files_max).await;
                    files.ok().map(|files| (address.text.clone(), files))
                }
            });
            let found = found.buffer_unordered(TOGETHER_MAX).filter_map(future::ready);
            Ok(found.collect::<Found>().await)
        });
        *lock(&self.known) = found.unwrap_or_default();
        together
    }

    /// Returns the secrets for reading files.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// Returns the threads that exchange requests with servers.
    pub(crate) fn threads(&self) -> &Threads {
        &self.inner.threads
    }

    /// Returns the files that are being written.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.inner.uploads
    }

    /// Returns a client for an address, and the file's path in it.
    pub(crate) fn client(
        &self,
        address: &Address,
    ) -> Result<(Arc<dyn ObjectStore>, StorePath), CloudError> {
        self.inner.clients.client(address, &self.inner.secrets)
    }

    /// Returns counts of the cache.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.inner.cache.stats()
    }

    /// Returns the files of an address, of a pattern or of a directory of S3, in the order of their
    /// keys; empty if there are none. Sends a request to the server each time, but for addresses of
    /// [`CloudFiles::find_together`].
    ///
    /// # Errors
    /// [`CloudError`] of the server; [`CloudError::Address`] for a pattern of HTTP, which cannot
    /// list files, and for more than `files_max` files.
    pub fn find(&self, address: &Address, files_max: usize) -> Result<Vec<CloudFile>, CloudError> {
        if let Some(files) = lock(&self.known).get(&address.text) {
            return Ok(files.clone());
        }
        let (own, address) = (self.clone(), address.clone());
        self.inner.threads.wait(async move { own.find_all(&address, files_max).await })
    }

    /// Returns the files directly in a directory of S3 whose keys follow `after`, in the order of
    /// their keys. The key of the directory ends with a slash, or is empty. Asks the server each
    /// time, for the keys behind `after` alone.
    ///
    /// # Errors
    /// [`CloudError`] of the server; [`CloudError::Address`] for HTTP, which has no lists, and for
    /// more than `files_max` files.
    pub fn list_after(
        &self,
        directory: &Address,
        after: &str,
        files_max: usize,
    ) -> Result<Vec<CloudFile>, CloudError> {
        let (own, directory, after) = (self.clone(), directory.clone(), after.to_owned());
        self.inner
            .threads
            .wait(async move { own.list_directly(&directory, &after, files_max).await })
    }

    /// Returns the present version of a file, for which it asks the server.
    ///
    /// # Errors
    /// [`CloudError::Missing`] if there is no such file, and other errors of the server.
    pub fn present(&self, address: &Address) -> Result<CloudFile, CloudError> {
        let (own, address) = (self.clone(), address.clone());
        self.inner.threads.wait(async move { own.head(&address).await })
    }

    async fn list_directly(
        &self,
        directory: &Address,
        after: &str,
        files_max: usize,
    ) -> Result<Vec<CloudFile>, CloudError> {
        if directory.scheme == Scheme::Http {
            return Err(without_lists(directory));
        }
        let prefix = directory.key.as_str();
        let is_wanted =
            |key: &str| key.strip_prefix(prefix).is_some_and(|name| !name.contains('/'));
        self.list(directory, prefix, after, files_max, &is_wanted).await
    }

    async fn find_all(
        &self,
        address: &Address,
        files_max: usize,
    ) -> Result<Vec<CloudFile>, CloudError> {
        let refused =
            |reason: String| CloudError::Address { address: address.text.clone(), reason };
        if address.is_pattern() {
            if address.scheme == Scheme::Http {
                return Err(without_lists(address));
            }
            let options = MatchOptions {
                case_sensitive: true,
                require_literal_separator: true,
                require_literal_leading_dot: true,
            };
            let pattern = Pattern::new(&address.key).map_err(|error| refused(error.to_string()))?;
            let is_match = |key: &str| pattern.matches_with(key, options);
            return self.list(address, address.fixed_prefix(), "", files_max, &is_match).await;
        }
        let is_directory = address.key.is_empty() || address.key.ends_with('/');
        if !is_directory || address.scheme == Scheme::Http {
            match self.head(address).await {
                Err(CloudError::Missing { .. }) if address.scheme == Scheme::S3 => {}
                Err(CloudError::Missing { .. }) => return Ok(Vec::new()),
                found => return found.map(|file| vec![file]),
            }
        }
        let prefix = match address.key.as_str() {
            key if is_directory => key.to_owned(),
            key => format!("{key}/"),
        };
        let is_shown = |key: &str| !key.ends_with('/') && !key.rsplit('/').any(is_hidden);
        self.list(address, &prefix, "", files_max, &is_shown).await
    }

    /// Requests the current version of a file from the server.
    async fn head(&self, address: &Address) -> Result<CloudFile, CloudError> {
        let (client, path) = self.client(address)?;
        let meta = client.head(&path).await;
        let meta = meta.map_err(|source| CloudError::of(&address.text, source))?;
        Ok(CloudFile::new(address.clone(), &meta))
    }

    /// Returns the wanted files below a prefix whose keys follow `after`.
    async fn list(
        &self,
        address: &Address,
        prefix: &str,
        after: &str,
        files_max: usize,
        is_wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Vec<CloudFile>, CloudError> {
        let failed = |source| CloudError::of(&address.text, source);
        // The client's own path would be the pattern, which need not be a valid one.
        let bucket = address.with_key("");
        let (client, _) = self.client(&bucket)?;
        let directory = path_of(prefix.trim_end_matches('/'), address)?;
        let directory = (!prefix.is_empty()).then_some(&directory);
        let mut objects = match after.is_empty() {
            true => client.list(directory),
            false => client.list_with_offset(directory, &path_of(after, address)?),
        };
        let mut files = Vec::new();
        while let Some(meta) = objects.try_next().await.map_err(failed)? {
            let key = meta.location.as_ref();
            // Some servers send the keys before the offset, too.
            if key <= after || !is_wanted(key) {
                continue;
            }
            if files.len() == files_max {
                return Err(CloudError::Address {
                    address: address.text.clone(),
                    reason: format!("it stands for more than {files_max} files; name fewer"),
                });
            }
            files.push(CloudFile::new(address.with_key(key), &meta));
        }
        files.sort_by(|a, b| a.address.key.cmp(&b.address.key));
        Ok(files)
    }

    /// Reads a range of a file, from the cache or the server. A range beyond the end is cut off.
    ///
    /// # Errors
    /// [`CloudError`] of the server.
    pub async fn fetch(&self, file: &CloudFile, range: Range<u64>) -> Result<Bytes, CloudError> {
        self.inner.threads.run(self.clone().read_cached(file.clone(), range)).await
    }

    /// Reads a range of a file like [`CloudFiles::fetch`], and blocks the calling thread meanwhile.
    ///
    /// # Errors
    /// As [`CloudFiles::fetch`].
    pub fn read(&self, file: &CloudFile, range: Range<u64>) -> Result<Bytes, CloudError> {
        self.inner.threads.wait(self.clone().read_cached(file.clone(), range))
    }

    /// Starts to read a range; returns the receiver of its bytes.
    pub(crate) fn start(
        &self,
        file: &CloudFile,
        range: Range<u64>,
    ) -> Result<Receiver<Result<Bytes, CloudError>>, CloudError> {
        self.inner.threads.start(self.clone().read_cached(file.clone(), range))
    }

    async fn read_cached(self, file: CloudFile, range: Range<u64>) -> Result<Bytes, CloudError> {
        let range = range.start.min(file.bytes)..range.end.min(file.bytes);
        let version = file.version();
        let (client, path) = self.client(&file.address)?;
        let file = Arc::new(file);
        let fetch: Box<FetchRange> = {
            let file = Arc::clone(&file);
            Box::new(move |range| {
                get(Arc::clone(&client), path.clone(), Arc::clone(&file), range).boxed()
            })
        };
        self.inner.cache.read(&version, file.bytes, range, &fetch).await
    }
}

/// The error for a list of the files of an HTTP server.
fn without_lists(address: &Address) -> CloudError {
    let reason = "HTTP has no lists of files; name each file".to_owned();
    CloudError::Address { address: address.text.clone(), reason }
}

fn is_hidden(part: &str) -> bool {
    part.starts_with('.')
}

/// Fetches a range of a version of a file; requests the whole file if the server does not support
/// ranges.
async fn get(
    client: Arc<dyn ObjectStore>,
    path: StorePath,
    file: Arc<CloudFile>,
    range: Range<u64>,
) -> Result<Bytes, CloudError> {
    let address = &file.address.text;
    let failed = |source| CloudError::of(address, source);
    let options = |range: Option<GetRange>| {
        // A weak tag says nothing about bytes, and S3 and HTTP compare strong ones alone.
        let if_match = file.tag.clone().filter(|tag| !tag.starts_with("W/"));
        GetOptions { if_match, range, ..GetOptions::default() }
    };
    let ranged = client.get_opts(&path, options(Some(GetRange::Bounded(range.clone())))).await;
    let (bytes, start) = match ranged {
        Ok(answer) => (answer.bytes().await.map_err(failed)?, range.start),
        Err(StoreError::NotSupported { .. }) => {
            let whole = client.get_opts(&path, options(None)).await.map_err(failed)?;
            (whole.bytes().await.map_err(failed)?, 0)
        }
        Err(error) => return Err(failed(error)),
    };
    let index = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
    let part = index(range.start)..index(range.end);
    // A server without tags may have another file by now.
    if bytes.len() < part.end {
        return Err(CloudError::Changed { address: address.clone() });
    }
    Ok(bytes.slice(part))
}
