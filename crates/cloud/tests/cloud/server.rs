//! A server of files in memory, as S3 with paths (`/bucket/key`) and as HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_RANGES, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, LAST_MODIFIED,
    RANGE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Barrier;
use tokio::time::timeout;

/// Number of keys of one answer to a request for a list.
const LIST_KEYS: usize = 3;

#[derive(Default)]
struct Files {
    /// Bytes and tag by bucket and key, `bucket/key`.
    files: Mutex<BTreeMap<String, (Bytes, String)>>,
    versions: AtomicU64,
    requests: AtomicU64,
    /// The access key that requests need.
    key: Mutex<Option<String>>,
    sends_no_ranges: AtomicBool,
    /// Number of requests that fail with 503 before one succeeds.
    failures: AtomicU64,
    /// Name and parts of uploads that have not ended, by their ids.
    uploads: Mutex<BTreeMap<u64, Upload>>,
    refuses_parts: AtomicBool,
    /// Holds requests until enough of them have arrived.
    barrier: Mutex<Option<Arc<Barrier>>>,
}

/// Time that a request is held.
const HOLD: Duration = Duration::from_secs(20);

/// A file whose parts arrive.
struct Upload {
    name: String,
    parts: BTreeMap<u64, Bytes>,
}

/// A server of files, which runs until the process ends.
pub struct Server {
    address: SocketAddr,
    files: Arc<Files>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket that does not block");
        let files = Arc::new(Files::default());
        let own = Arc::clone(&files);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(listener, own));
        });
        Self { address, files }
    }

    /// Host and port.
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Puts a file, whose name begins with a bucket.
    pub fn put(&self, name: &str, bytes: impl Into<Bytes>) {
        self.files.put(name, bytes.into());
    }

    /// Names of all files.
    pub fn names(&self) -> Vec<String> {
        self.files.files.lock().expect("files").keys().cloned().collect()
    }

    /// Bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        self.files.files.lock().expect("files").get(name).map(|(bytes, _)| bytes.clone())
    }

    /// Number of uploads that have not ended.
    pub fn uploads(&self) -> usize {
        self.files.uploads.lock().expect("uploads").len()
    }

    /// Refuses the parts of uploads with 400.
    pub fn refuse_parts(&self, refuses: bool) {
        self.files.refuses_parts.store(refuses, Ordering::Relaxed);
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.files.requests.load(Ordering::Relaxed)
    }

    /// Answers only requests that are signed with this access key.
    pub fn require_key(&self, key: &str) {
        *self.files.key.lock().expect("a key") = Some(key.to_owned());
    }

    /// Sends whole files, whatever part is asked for.
    pub fn send_no_ranges(&self) {
        self.files.sends_no_ranges.store(true, Ordering::Relaxed);
    }

    /// Answers the next `count` requests when all of them have arrived; refuses them with 400 if
    /// they come one after the other.
    pub fn gather(&self, count: usize) {
        *self.files.barrier.lock().expect("a barrier") = Some(Arc::new(Barrier::new(count)));
    }

    /// Fails the next requests with 503.
    pub fn fail(&self, count: u64) {
        self.files.failures.store(count, Ordering::Relaxed);
    }
}

async fn serve(listener: TcpListener, files: Arc<Files>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let files = Arc::clone(&files);
        let service = service_fn(move |request: Request<_>| {
            let files = Arc::clone(&files);
            async move {
                let barrier = files.barrier.lock().expect("a barrier").clone();
                if let Some(barrier) = barrier {
                    let Ok(arrived) = timeout(HOLD, barrier.wait()).await else {
                        return Ok(answer(StatusCode::BAD_REQUEST, "requests come one by one"));
                    };
                    if arrived.is_leader() {
                        *files.barrier.lock().expect("a barrier") = None;
                    }
                }
                let (head, body) = request.into_parts();
                let body = BodyExt::collect(body).await.map(|body| body.to_bytes());
                let answer = match body {
                    Ok(body) => files.answer(&Request::from_parts(head, body)),
                    Err(_) => answer(StatusCode::BAD_REQUEST, "the body ended early"),
                };
                Ok::<_, Infallible>(answer)
            }
        });
        // The client may close the connection at any time.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

type Answer = Response<Full<Bytes>>;

fn answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let response = Response::builder().status(status).body(Full::new(body.into()));
    response.expect("an answer")
}

impl Files {
    fn put(&self, name: &str, bytes: Bytes) -> String {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let tag = format!("\"version-{version}\"");
        self.files.lock().expect("files").insert(name.to_owned(), (bytes, tag.clone()));
        tag
    }

    /// The answer to a request that writes.
    fn write(&self, name: &str, query: &str, request: &Request<Bytes>) -> Answer {
        if name.starts_with("nosuch/") {
            return answer(StatusCode::NOT_FOUND, "<Error><Code>NoSuchBucket</Code></Error>");
        }
        let parameter = |name: &str| parameter(query, name).and_then(|text| text.parse().ok());
        let mut uploads = self.uploads.lock().expect("uploads");
        let Some(id) = parameter("uploadId") else {
            let id = self.versions.fetch_add(1, Ordering::Relaxed);
            return match *request.method() {
                Method::POST => {
                    let upload = Upload { name: name.to_owned(), parts: BTreeMap::new() };
                    uploads.insert(id, upload);
                    let body = "<InitiateMultipartUploadResult><UploadId>ID</UploadId>\
                                </InitiateMultipartUploadResult>";
                    answer(StatusCode::OK, body.replace("ID", &id.to_string()))
                }
                Method::DELETE => {
                    self.files.lock().expect("files").remove(name);
                    answer(StatusCode::NO_CONTENT, "")
                }
                _ => tagged(&self.put(name, request.body().clone())),
            };
        };
        match (request.method(), uploads.get_mut(&id)) {
            (_, None) => answer(StatusCode::NOT_FOUND, "<Error><Code>NoSuchUpload</Code></Error>"),
            (&Method::DELETE, _) => {
                uploads.remove(&id);
                answer(StatusCode::NO_CONTENT, "")
            }
            (&Method::PUT, Some(_)) if self.refuses_parts.load(Ordering::Relaxed) => {
                answer(StatusCode::BAD_REQUEST, "<Error><Code>NoRoom</Code></Error>")
            }
            (&Method::PUT, Some(upload)) => {
                let number = parameter("partNumber").expect("a number");
                upload.parts.insert(number, request.body().clone());
                tagged(&format!("\"part-{number}\""))
            }
            (_, Some(upload)) => {
                let bytes: Vec<u8> = upload.parts.values().flatten().copied().collect();
                let tag = self.put(&upload.name, bytes.into());
                uploads.remove(&id);
                let body = format!(
                    "<CompleteMultipartUploadResult><ETag>{tag}</ETag>\
                     </CompleteMultipartUploadResult>"
                );
                answer(StatusCode::OK, body)
            }
        }
    }

    fn answer(&self, request: &Request<Bytes>) -> Answer {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let fails = |count: u64| count.checked_sub(1);
        if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
            return answer(StatusCode::SERVICE_UNAVAILABLE, "later");
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(key) = self.key.lock().expect("a key").as_deref() {
            let credential = format!("Credential={key}/");
            if !header(AUTHORIZATION).is_some_and(|value| value.contains(&credential)) {
                return answer(StatusCode::FORBIDDEN, "<Error><Code>AccessDenied</Code></Error>");
            }
        }
        let name = decoded(request.uri().path().trim_start_matches('/'));
        let query = request.uri().query().unwrap_or_default();
        if query.contains("list-type=2") {
            return answer(StatusCode::OK, self.list(&name, query));
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return self.write(&name, query, request);
        }
        let files = self.files.lock().expect("files");
        let Some((bytes, tag)) = files.get(&name) else {
            return answer(StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>");
        };
        if header(IF_MATCH).is_some_and(|wanted| wanted != tag) {
            return answer(StatusCode::PRECONDITION_FAILED, "");
        }
        let range = header(RANGE).filter(|_| !self.sends_no_ranges.load(Ordering::Relaxed));
        let range = range.and_then(|range| part(range, bytes.len()));
        let mut response = match range.clone() {
            Some(range) => answer(StatusCode::PARTIAL_CONTENT, bytes.slice(range)),
            None => answer(StatusCode::OK, bytes.clone()),
        };
        let headers = response.headers_mut();
        headers.insert(ETAG, tag.parse().expect("a header"));
        headers.insert(ACCEPT_RANGES, "bytes".parse().expect("a header"));
        let changed = "Wed, 01 May 2024 08:00:00 GMT";
        headers.insert(LAST_MODIFIED, changed.parse().expect("a header"));
        if let Some(range) = range {
            let text = format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
            headers.insert(CONTENT_RANGE, text.parse().expect("a header"));
        }
        if request.method() == Method::HEAD {
            headers.insert(CONTENT_LENGTH, bytes.len().into());
            *response.body_mut() = Full::default();
        }
        response
    }

    /// The answer to a request for the keys of a bucket, `LIST_KEYS` at a time.
    fn list(&self, bucket: &str, query: &str) -> String {
        let prefix = parameter(query, "prefix").unwrap_or_default();
        let after = parameter(query, "continuation-token").unwrap_or_default();
        let bucket = format!("{}/", bucket.trim_end_matches('/'));
        let files = self.files.lock().expect("files");
        let keys =
            files.iter().filter_map(|(name, file)| Some((name.strip_prefix(&bucket)?, file)));
        let mut keys = keys.filter(|(key, _)| key.starts_with(&prefix) && **key > *after);
        let mut body = "<ListBucketResult>".to_owned();
        let mut last = "";
        for (key, (bytes, tag)) in keys.by_ref().take(LIST_KEYS) {
            let _ = write!(
                body,
                "<Contents><Key>{key}</Key><LastModified>2024-05-01T08:00:00.000Z</LastModified>\
                 <ETag>{tag}</ETag><Size>{}</Size></Contents>",
                bytes.len()
            );
            last = key;
        }
        if keys.next().is_some() {
            let _ = write!(body, "<NextContinuationToken>{last}</NextContinuationToken>");
        }
        body + "</ListBucketResult>"
    }
}

/// The value of a parameter of a query, in which a plus stands for a blank.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(&value.replace('+', " ")))
}

/// An answer with the tag of what was written.
fn tagged(tag: &str) -> Answer {
    let mut response = answer(StatusCode::OK, "");
    response.headers_mut().insert(ETAG, tag.parse().expect("a header"));
    response
}

/// The part of a file that `bytes=a-b` stands for.
fn part(range: &str, len: usize) -> Option<std::ops::Range<usize>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let start: usize = start.parse().ok()?;
    let end = end.parse::<usize>().map_or(len, |end| (end + 1).min(len));
    (start < end).then_some(start..end)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8(bytes).expect("text")
}
