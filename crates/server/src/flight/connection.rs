//! Connections as gRPC reads and writes them, and as calls know them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::server::Connected;

use super::sessions::Sessions;
use crate::stream::{Peer, Stream};

/// A connection that was taken, until this is dropped. Sessions that it alone has end then.
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) sessions: Arc<Sessions>,
    pub(super) _place: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sessions.closed(self.number);
    }
}

/// Facts of a connection, which each of its calls has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) is_secure: bool,
}

/// The bytes of a connection.
pub(super) struct Io {
    stream: Box<dyn Stream>,
    facts: Facts,
    _connection: Connection,
}

impl Io {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        connection: Connection,
        peer: Peer,
        is_secure: bool,
    ) -> Self {
        let facts = Facts { number: connection.number, peer, is_secure };
        Self { stream, facts, _connection: connection }
    }
}

impl Connected for Io {
    type ConnectInfo = Facts;

    fn connect_info(&self) -> Facts {
        self.facts
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
