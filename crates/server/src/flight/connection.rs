//! Connections: the byte stream that gRPC reads and writes, and the client's address and TLS state
//! for its calls.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use super::sessions::Connection;
use crate::stream::{Peer, Stream};

/// Size of the output buffer in bytes: HTTP/2 writes frames of 16 KiB, one after the other.
const OUT_BYTES: usize = 256 << 10;

/// The number, client and TLS state of a connection, attached to each of its calls.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) is_secure: bool,
    /// True once a call of the connection was admitted.
    pub(super) is_in: Arc<AtomicBool>,
}

/// Byte stream of a connection. Fails if no call is admitted within the login time.
pub(super) struct Io {
    stream: Box<dyn Stream>,
    facts: Facts,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes written but not sent.
    out: BytesMut,
    /// True if bytes were written since the last flush.
    is_written: bool,
    _connection: Connection,
}

impl Io {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        connection: Connection,
        peer: Peer,
        is_secure: bool,
        login_time: Duration,
    ) -> Self {
        let is_in = Arc::new(AtomicBool::new(false));
        let facts = Facts { number: connection.number, peer, is_secure, is_in };
        let deadline = Some(Box::pin(sleep(login_time)));
        let out = BytesMut::new();
        Self { stream, facts, deadline, out, is_written: false, _connection: connection }
    }

    /// Sends the buffered bytes.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Ready once the login time has passed and no call of the connection was admitted.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        self.deadline = None;
        if self.facts.is_in.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Connected for Io {
    type ConnectInfo = Facts;

    fn connect_info(&self) -> Facts {
        self.facts.clone()
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_late(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// Sends buffered bytes only at a flush that directly follows another flush: until then more
    /// bytes may come. Wakes the task for that second flush.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_written) && !self.out.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.out.len() >= OUT_BYTES {
            ready!(self.poll_out(cx))?;
        }
        let mut written = 0;
        for slice in slices {
            let left = OUT_BYTES - self.out.len();
            let taken = slice.len().min(left);
            self.out.extend_from_slice(&slice[..taken]);
            written += taken;
        }
        self.is_written = true;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
