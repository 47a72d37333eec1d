//! Clients of S3 and HTTP servers, and the threads that they run on.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as StorePath;
use object_store::{ClientOptions, Error as StoreError, ObjectStore, RetryConfig};
use terrace_sys::sync::lock;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use crate::address::{Address, Scheme};
use crate::error::CloudError;
use crate::secret::{Secret, Secrets};

/// Region of a bucket for which neither a secret nor the environment names one.
const REGION: &str = "us-east-1";
/// Maximum number of open clients; each file of an HTTP server has a client of its own.
const CLIENTS_MAX: usize = 64;
/// Number of retries of a request that the server could not answer.
const RETRIES_MAX: usize = 3;
/// Time in which a request is retried.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// Time in which a server has to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time in which a server has to answer a request completely.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Threads that send requests and receive answers.
const THREADS: usize = 2;

/// The server of a client, and the secret that it uses.
type ClientKey = (String, Option<Secret>);

/// Open clients, by server and secret.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<HashMap<ClientKey, Arc<dyn ObjectStore>>>);

impl Clients {
    /// Returns true if there is no client yet.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Returns the client for an address with its secret, opened on first use, and the file's path
    /// for that client.
    pub(crate) fn client(
        &self,
        address: &Address,
        secrets: &Secrets,
    ) -> Result<(Arc<dyn ObjectStore>, StorePath), CloudError> {
        let secret = secrets.find(address).map(|secret| secret.as_ref().clone());
        let (server, path) = match address.scheme {
            Scheme::S3 => (address.authority.clone(), path_of(&address.key, address)?),
            // The address may have a query, which is no part of a path.
            Scheme::Http => (address.text.clone(), StorePath::default()),
        };
        let key = (server, secret);
        if let Some(client) = lock(&self.0).get(&key) {
            return Ok((Arc::clone(client), path));
        }
        let opened = match address.scheme {
            Scheme::S3 => s3(&key.0, key.1.as_ref()),
            Scheme::Http => http(&key.0),
        };
        let client = opened.map_err(|source| CloudError::of(&address.text, source))?;
        let mut open = lock(&self.0);
        if open.len() >= CLIENTS_MAX {
            open.clear();
        }
        open.insert(key, Arc::clone(&client));
        Ok((client, path))
    }
}

/// The path of a key of S3.
pub(crate) fn path_of(key: &str, address: &Address) -> Result<StorePath, CloudError> {
    StorePath::parse(key).map_err(|error| CloudError::Address {
        address: address.text.clone(),
        reason: error.to_string(),
    })
}

fn retries() -> RetryConfig {
    RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_TIME, ..RetryConfig::default() }
}

fn options() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(CONNECT_TIME).with_timeout(REQUEST_TIME)
}

fn http(address: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let options = options().with_allow_http(true);
    let client = HttpBuilder::new().with_url(address).with_client_options(options);
    Ok(Arc::new(client.with_retry(retries()).build()?))
}

fn s3(bucket: &str, secret: Option<&Secret>) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let builder = match secret {
        Some(secret) => s3_of_secret(bucket, secret),
        None => s3_of_environment(),
    };
    let builder = builder.with_bucket_name(bucket).with_retry(retries());
    Ok(Arc::new(builder.build()?))
}

/// Environment variables that name a source of temporary keys.
const KEY_SOURCES: [&str; 3] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

fn s3_of_environment() -> AmazonS3Builder {
    let builder = AmazonS3Builder::from_env();
    let has_key = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some()
        || KEY_SOURCES.iter().any(|name| std::env::var_os(name).is_some());
    let has_region = builder.get_config_value(&AmazonS3ConfigKey::Region).is_some();
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let builder = builder.with_client_options(options().with_allow_http(is_plain));
    let builder = if has_region { builder } else { builder.with_region(REGION) };
    // Without keys the bucket has to be public; asking a cloud machine for keys takes seconds
    // where there is none.
    if has_key { builder } else { builder.with_skip_signature(true) }
}

fn s3_of_secret(bucket: &str, secret: &Secret) -> AmazonS3Builder {
    let region = secret.region.as_deref().unwrap_or(REGION);
    let mut builder = AmazonS3Builder::new().with_region(region);
    match (&secret.key_id, &secret.secret) {
        (Some(key), Some(secret)) => {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        }
        _ => builder = builder.with_skip_signature(true),
    }
    if let Some(token) = &secret.session_token {
        builder = builder.with_token(token);
    }
    let is_hosted = secret.is_path_style == Some(false);
    let mut is_plain = !secret.uses_tls;
    if let Some(endpoint) = &secret.endpoint {
        let scheme = if secret.uses_tls { "https" } else { "http" };
        let (scheme, host) = endpoint.split_once("://").unwrap_or((scheme, endpoint));
        is_plain |= scheme == "http";
        builder = builder.with_endpoint(match is_hosted {
            true => format!("{scheme}://{bucket}.{host}"),
            false => format!("{scheme}://{host}"),
        });
    }
    let options = options().with_allow_http(is_plain);
    builder.with_virtual_hosted_style_request(is_hosted).with_client_options(options)
}

/// The threads that exchange requests with servers, started when they are first needed.
#[derive(Default)]
pub(crate) struct Threads(OnceLock<Runtime>);

impl Threads {
    /// Returns the runtime of the threads.
    pub(crate) fn handle(&self) -> Result<&Handle, CloudError> {
        if let Some(runtime) = self.0.get() {
            return Ok(runtime.handle());
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("terrace-cloud").enable_all();
        let runtime = builder.build().map_err(|error| CloudError::Runtime(error.to_string()))?;
        // Another thread may have been first; its runtime counts.
        if let Err(second) = self.0.set(runtime) {
            second.shutdown_background();
        }
        let runtime = self.0.get().ok_or_else(|| CloudError::Runtime("none".to_owned()))?;
        Ok(runtime.handle())
    }

    /// Runs a task on the threads and returns its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, CloudError>> + Send + 'static,
    ) -> Result<T, CloudError> {
        let done = self.handle()?.spawn(task).await;
        done.map_err(|error| CloudError::Runtime(error.to_string()))?
    }

    /// Runs a task on the threads and blocks the calling thread until it is done. A thread of a
    /// runtime lets another one take its other tasks meanwhile.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, CloudError>> + Send + 'static,
    ) -> Result<T, CloudError> {
        let (sender, receiver) = sync_channel(1);
        let task = self.handle()?.spawn(async move {
            // The receiver is gone if the caller has panicked.
            let _ = sender.send(task.await);
        });
        let received = blocking(|| receiver.recv());
        received.map_err(|_| CloudError::Runtime(format!("a task ended: {task:?}")))?
    }

    /// Starts a task on the threads and returns the receiver of its result.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<std::sync::mpsc::Receiver<T>, CloudError> {
        let (sender, receiver) = sync_channel(1);
        self.handle()?.spawn(async move {
            // A reader that was dropped does not need the bytes.
            let _ = sender.send(task.await);
        });
        Ok(receiver)
    }
}

/// Runs `wait`, which blocks the calling thread, by `block_in_place` on a multi-threaded runtime.
pub(crate) fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("run", &self.0.get().is_some()).finish()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Dropping a runtime would wait for its threads, which a task must not do.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
