//! TCP and Unix socket connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

/// Interval between two checks of a connection whose client has sent unread messages.
const INTERVAL: Duration = Duration::from_millis(100);

/// TCP keepalive: idle time before the first probe, interval of further probes, and time without an
/// acknowledgement after which the client counts as gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const UNANSWERED_TIME_MAX: Duration = Duration::from_secs(90);

/// A byte stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program on the same machine, over TCP.
    Loopback(SocketAddr),
    /// A program on another machine, over TCP.
    Remote(SocketAddr),
    /// A program on the same machine, over a Unix socket.
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

/// An accepted connection.
pub(crate) struct Accepted {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) watch: Watch,
    pub(crate) peer: Peer,
}

/// Detector of a lost client, for use while another task writes to the connection.
pub(crate) enum Watch {
    /// A second descriptor of a TCP connection.
    Tcp(TcpStream),
    /// A second descriptor of a Unix socket connection.
    Unix(UnixStream),
}

impl Watch {
    /// Waits until the client has closed its side, or the connection is broken.
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
            // Unread messages keep the socket readable.
            sleep(INTERVAL).await;
        }
    }
}

/// Prepares a TCP connection and its watch. Messages are sent as they are flushed.
pub(crate) fn tcp(stream: TcpStream) -> io::Result<Accepted> {
    stream.set_nodelay(true)?;
    let address = stream.peer_addr()?;
    let is_loopback = address.ip().to_canonical().is_loopback();
    let peer = if is_loopback { Peer::Loopback(address) } else { Peer::Remote(address) };
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE);
    socket.set_tcp_keepalive(&keepalive.with_interval(KEEPALIVE_INTERVAL))?;
    // A client that vanishes does not acknowledge the data that was sent to it.
    socket.set_tcp_user_timeout(Some(UNANSWERED_TIME_MAX))?;
    let stream = stream.into_std()?;
    let watch = TcpStream::from_std(stream.try_clone()?)?;
    let stream = Box::new(TcpStream::from_std(stream)?);
    Ok(Accepted { stream, watch: Watch::Tcp(watch), peer })
}

/// Prepares a Unix socket connection and its watch.
pub(crate) fn unix(stream: UnixStream) -> io::Result<Accepted> {
    let stream = stream.into_std()?;
    let watch = UnixStream::from_std(stream.try_clone()?)?;
    let stream = Box::new(UnixStream::from_std(stream)?);
    Ok(Accepted { stream, watch: Watch::Unix(watch), peer: Peer::Unix })
}
