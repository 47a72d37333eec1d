//! Byte stream in front of which bytes are put back that were read from it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

/// A byte stream that first returns bytes that were read from it before.
pub(crate) struct Prefix {
    bytes: Bytes,
    stream: Box<dyn Stream>,
}

impl Prefix {
    pub(crate) fn new(bytes: Bytes, stream: Box<dyn Stream>) -> Self {
        Self { bytes, stream }
    }
}

impl AsyncRead for Prefix {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = self.bytes.len().min(buf.remaining());
        buf.put_slice(&self.bytes[..count]);
        self.bytes.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prefix {
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
}
