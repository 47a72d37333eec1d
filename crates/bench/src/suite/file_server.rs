//! A file server in this process with the read requests of S3, in path style (`/bucket/key`). It
//! checks no credentials, and does not list files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::{BenchError, Result};

/// Maximum length of a line of a request.
const LINE_BYTES: u64 = 16 << 10;
/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Name of the bucket.
pub(crate) const BUCKET: &str = "bench";

struct Shared {
    directory: PathBuf,
    latency: Duration,
    /// Number in the ETag of all files; a new number makes new versions of them.
    version: AtomicU64,
    sent_bytes: AtomicU64,
}

/// A server of the files of a directory, which runs until the process ends.
pub(crate) struct FileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request for a file.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    is_head: bool,
    path: String,
    range: Option<Range<u64>>,
}

impl FileServer {
    /// Starts a server that takes `latency` for each request.
    ///
    /// # Errors
    /// [`BenchError::File`] if there is no port.
    pub(crate) fn start(directory: &Path, latency: Duration) -> Result<Self> {
        let failed = |source| BenchError::file("serve", directory, source);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (version, sent_bytes) = Default::default();
        let directory = directory.to_path_buf();
        let shared = Arc::new(Shared { directory, latency, version, sent_bytes });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&own);
                // The client may close the connection at any time.
                thread::spawn(move || shared.serve(stream).ok());
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns host and port.
    pub(crate) fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Changes the ETags of all files, so that caches must fetch them again.
    pub(crate) fn renew(&self) {
        self.shared.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the bytes of files that were sent so far.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.shared.sent_bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
        while let Some(request) = Request::read(&mut reader)? {
            thread::sleep(self.latency);
            self.answer(&request, &mut writer)?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request, out: &mut impl Write) -> io::Result<()> {
        let name = request.path.strip_prefix('/').and_then(|path| path.strip_prefix(BUCKET));
        let name = name.and_then(|name| name.strip_prefix('/')).filter(|name| !name.contains('/'));
        let file = name.and_then(|name| File::open(self.directory.join(name)).ok());
        let Some(file) = file else {
            return out.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        };
        let len = file.metadata()?.len();
        let range = request.range.clone().unwrap_or(0..len);
        let range = range.start.min(len)..range.end.min(len);
        let (status, place) = match request.range {
            Some(_) => {
                let (first, last) = (range.start, range.end.saturating_sub(1));
                let place = format!("Content-Range: bytes {first}-{last}/{len}\r\n");
                ("206 Partial Content", place)
            }
            None => ("200 OK", String::new()),
        };
        let version = self.version.load(Ordering::Relaxed);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{place}Accept-Ranges: bytes\r\n\
             ETag: \"{version}\"\r\nLast-Modified: Wed, 01 May 2024 08:00:00 GMT\r\n\r\n",
            range.end - range.start
        );
        out.write_all(head.as_bytes())?;
        if request.is_head {
            return Ok(());
        }
        self.sent_bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
        send(&file, range, out)
    }
}

fn send(file: &File, range: Range<u64>, out: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = range.start;
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let part = &mut piece[..left.min(PIECE_BYTES)];
        file.read_exact_at(part, at)?;
        out.write_all(part)?;
        at += u64::try_from(part.len()).unwrap_or(u64::MAX);
    }
    Ok(())
}

impl Request {
    /// Reads the next request; `None` if the client has closed the connection.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        let mut next = |line: &mut String| {
            line.clear();
            reader.by_ref().take(LINE_BYTES).read_line(line)
        };
        if next(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split(' ');
        let is_head = words.next() == Some("HEAD");
        let path = words.next().unwrap_or_default().to_owned();
        let mut range = None;
        while next(&mut line)? > 0 && line.trim() != "" {
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("range") {
                range = part(value.trim());
            }
        }
        Ok(Some(Self { is_head, path, range }))
    }
}

/// The part of a file that `bytes=a-b` stands for.
fn part(range: &str) -> Option<Range<u64>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let end = match end {
        "" => u64::MAX,
        last => last.parse::<u64>().ok()?.checked_add(1)?,
    };
    Some(start.parse().ok()?..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Scratch;

    fn ask(server: &FileServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("closed");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn files_and_parts_of_them_are_sent() {
        let home = Scratch::of(None, "file-server").expect("a directory");
        std::fs::write(home.path().join("x.bin"), "0123456789").expect("a file");
        let server = FileServer::start(home.path(), Duration::ZERO).expect("started");
        let whole = ask(&server, "GET /bench/x.bin HTTP/1.1\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"), "{whole}");
        assert!(whole.ends_with("\r\n\r\n0123456789") && whole.contains("ETag: \"0\""), "{whole}");
        server.renew();
        let two = "GET /bench/x.bin HTTP/1.1\r\nrange: bytes=2-4\r\n\r\n\
                   HEAD /bench/x.bin HTTP/1.1\r\n\r\n";
        let two = ask(&server, two);
        assert!(two.contains("Content-Range: bytes 2-4/10\r\n") && two.contains("\r\n\r\n234HTTP"));
        assert!(two.ends_with("GMT\r\n\r\n") && two.contains("ETag: \"1\""), "{two}");
        assert_eq!(server.sent_bytes(), 13);
        for path in ["/bench/y.bin", "/other/x.bin", "/bench/../x.bin", "/"] {
            let answer = ask(&server, &format!("GET {path} HTTP/1.1\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
        }
    }

    #[test]
    fn ranges_are_of_bytes() {
        assert_eq!(part("bytes=0-0"), Some(0..1));
        assert_eq!(part("bytes=7-"), Some(7..u64::MAX));
        assert_eq!(part("lines=1-2"), None);
        assert_eq!(part("bytes=-5"), None);
    }
}
