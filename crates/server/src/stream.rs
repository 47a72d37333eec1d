//! Connections by TCP and by Unix sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

/// Interval between two looks at a connection whose client has sent more.
const INTERVAL: Duration = Duration::from_millis(100);

/// Silence after which a TCP connection is asked whether its client is still there, the interval
/// of further questions, and the time without an answer after which the client is gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const UNANSWERED_TIME_MAX: Duration = Duration::from_secs(90);

/// A stream of bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program of the same machine, by TCP.
    Loopback(SocketAddr),
    /// One of another machine.
    Remote(SocketAddr),
    /// One by a Unix socket.
    Unix,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) | Self::Remote(address) => address.fmt(f),
            Self::Unix => f.write_str("a Unix socket"),
        }
    }
}

/// A connection that has been taken.
pub(crate) struct Accepted {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) watch: Watch,
    pub(crate) peer: Peer,
}

/// Tells when the client of a connection is gone, while another task writes to it.
pub(crate) enum Watch {
    /// A second descriptor of a TCP connection.
    Tcp(TcpStream),
    /// One of a Unix socket.
    Unix(UnixStream),
}

impl Watch {
    /// Ends when the client has closed its side, or the connection is broken.
    pub(crate) async fn gone(&self) {
        loop {
            let ready = match self {
                Self::Tcp(stream) => stream.ready(Interest::READABLE).await,
                Self::Unix(stream) => stream.ready(Interest::READABLE).await,
            };
            match ready {
                Ok(ready) if !ready.is_read_closed() && !ready.is_error() => {}
                _ => return,
            }
            // Unread messages keep it readable.
            sleep(INTERVAL).await;
        }
    }
}

/// A TCP connection and what watches it. Messages are sent as they are flushed.
pub(crate) fn tcp(stream: TcpStream) -> io::Result<Accepted> {
    stream.set_nodelay(true)?;
    let address = stream.peer_addr()?;
    let is_loopback = address.ip().to_canonical().is_loopback();
    let peer = if is_loopback { Peer::Loopback(address) } else { Peer::Remote(address) };
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE);
    socket.set_tcp_keepalive(&keepalive.with_interval(KEEPALIVE_INTERVAL))?;
    // What was sent to a client that has gone without a word is not acknowledged.
    socket.set_tcp_user_timeout(Some(UNANSWERED_TIME_MAX))?;
    let stream = stream.into_std()?;
    let watch = TcpStream::from_std(stream.try_clone()?)?;
    let stream = Box::new(TcpStream::from_std(stream)?);
    Ok(Accepted { stream, watch: Watch::Tcp(watch), peer })
}

/// A connection by a Unix socket and what watches it.
pub(crate) fn unix(stream: UnixStream) -> io::Result<Accepted> {
    let stream = stream.into_std()?;
    let watch = UnixStream::from_std(stream.try_clone()?)?;
    let stream = Box::new(UnixStream::from_std(stream)?);
    Ok(Accepted { stream, watch: Watch::Unix(watch), peer: Peer::Unix })
}
