//! The message stream between the server and one client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use futures::FutureExt as _;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage};
use terrace_sql::sessions::{HeldBytes, HeldFor, SessionInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::cell::ColumnWriter;
use super::encoded::{encode, put_row};
use super::failure::{Failure, SqlState};
use super::message;
use crate::counters::Counters;
use crate::limits::Limits;
use crate::prefix::Prefix;
use crate::stream::{Peer, Stream};
use crate::tls::POSTGRESQL;

/// Number of bytes that are buffered before they are sent.
const OUTPUT_BYTES: usize = 64 << 10;
/// Number of bytes that are read at a time.
const INPUT_BYTES: usize = 8 << 10;

/// First byte of a TLS handshake. A start-up message cannot begin with it: its length would exceed
/// 350 MiB.
const TLS_HANDSHAKE: u8 = 22;

/// A connection that carries messages.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    peer: Peer,
    is_secure: bool,
    input: BytesMut,
    output: BytesMut,
    context: DecodeContext,
    message_bytes_max: usize,
    /// True if a text of the last message is not UTF-8.
    has_bad_text: bool,
    unread_time: Duration,
    counters: Arc<Counters>,
    /// Reservation for the memory of the input and output buffers, once there is a session to
    /// charge.
    held: Option<HeldBytes>,
    /// The size of that reservation, in units of [`INPUT_BYTES`].
    held_steps: usize,
}

impl Wire {
    /// Creates the message stream of a client that has yet to log in.
    pub(super) fn new(stream: Box<dyn Stream>, peer: Peer, limits: &Limits) -> Self {
        Self {
            stream,
            peer,
            is_secure: false,
            input: BytesMut::new(),
            output: BytesMut::new(),
            context: DecodeContext::default(),
            message_bytes_max: limits.login_bytes,
            has_bad_text: false,
            unread_time: limits.unread_time,
            counters: Arc::default(),
            held: None,
            held_steps: 0,
        }
    }

    /// Counts statements and errors in `counters` from now on.
    pub(super) fn counted(self, counters: &Arc<Counters>) -> Self {
        Self { counters: Arc::clone(counters), ..self }
    }

    /// Charges a session from now on for bytes that were read but not decoded, and for bytes that
    /// were not sent yet.
    pub(super) fn hold_for(&mut self, session: &Arc<SessionInfo>) {
        self.held = Some(session.hold(HeldFor::Client, 0));
        self.account();
    }

    fn account(&mut self) {
        if let Some(held) = &mut self.held {
            // Rounded up to units: each message that is taken out reduces the capacity by its
            // length, and the next read restores it. The reservation is not reduced by a single
            // unit.
            let steps = (self.input.capacity() + self.output.capacity()).div_ceil(INPUT_BYTES);
            if steps + 1 != self.held_steps {
                self.held_steps = steps;
                held.set(u64::try_from(steps * INPUT_BYTES).unwrap_or(u64::MAX));
            }
        }
    }

    /// Returns the other side of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// True if the connection uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Switches to TLS. The output buffer must have been sent.
    ///
    /// # Errors
    /// A client that has sent messages before its part of the handshake, which would pass for
    /// messages received over TLS (CVE-2021-23214), and a failed handshake.
    pub(super) async fn secure(&mut self, acceptor: &TlsAcceptor) -> Result<(), Failure> {
        if !self.input.is_empty() {
            return Err(Failure::fatal(SqlState::PROTOCOL, "messages before the TLS handshake"));
        }
        let plain = std::mem::replace(&mut self.stream, Box::new(tokio::io::empty()));
        self.stream = Box::new(acceptor.accept(plain).await?);
        self.is_secure = true;
        Ok(())
    }

    /// True if the client begins with a TLS handshake instead of a message; waits for its first
    /// byte. False for a client that leaves without one.
    ///
    /// # Errors
    /// A broken connection.
    pub(super) async fn begins_with_tls(&mut self) -> Result<bool, Failure> {
        if self.input.is_empty() {
            self.input.reserve(INPUT_BYTES);
            self.stream.read_buf(&mut self.input).await?;
        }
        Ok(self.input.first() == Some(&TLS_HANDSHAKE))
    }

    /// Switches to TLS for a client that has begun with the handshake.
    ///
    /// # Errors
    /// A failed handshake, and a client that does not request PostgreSQL's protocol by its name
    /// (ALPN): it may be made to send messages of another protocol (ALPACA).
    pub(super) async fn secure_directly(&mut self, acceptor: &TlsAcceptor) -> Result<(), Failure> {
        let plain = std::mem::replace(&mut self.stream, Box::new(tokio::io::empty()));
        let begun = Prefix::new(std::mem::take(&mut self.input).freeze(), plain);
        let stream = acceptor.accept(begun).await?;
        let is_named = stream.get_ref().1.alpn_protocol() == Some(POSTGRESQL);
        self.stream = Box::new(stream);
        self.is_secure = true;
        if is_named {
            return Ok(());
        }
        let text = "a TLS handshake without the protocol \"postgresql\" (ALPN); connect with \
                    sslnegotiation=direct of libpq 17, or with sslnegotiation=postgres";
        Err(Failure::fatal(SqlState::PROTOCOL, text))
    }

    /// Returns the context for decoding messages; it changes during the login.
    pub(super) fn context(&mut self) -> &mut DecodeContext {
        &mut self.context
    }

    /// Sets the maximum length of messages in bytes.
    pub(super) fn allow_message_bytes(&mut self, bytes: usize) {
        self.message_bytes_max = bytes;
    }

    /// Returns the next message; `None` if the client has closed the connection.
    ///
    /// # Errors
    /// A broken connection, and a malformed or too long message. The connection cannot be used
    /// after that.
    pub(super) async fn next(&mut self) -> Result<Option<PgWireFrontendMessage>, Failure> {
        loop {
            let length = self.check_length()?;
            if let Some(length) = length.filter(|length| *length <= self.input.len())
                && let Some(message) = self.decode(length)?
            {
                // A message of several MiB must not keep its memory.
                if self.input.is_empty() && self.input.capacity() > 4 * OUTPUT_BYTES {
                    self.input = BytesMut::new();
                }
                self.account();
                return Ok(Some(message));
            }
            // Memory is reserved for bytes that arrive, not for the length that a message
            // announces.
            self.input.reserve(INPUT_BYTES);
            self.account();
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return match self.input.is_empty() {
                    true => Ok(None),
                    false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                };
            }
        }
    }

    /// True if the next message has been received.
    pub(super) fn has_next(&self) -> bool {
        // True also for a message with an invalid length, which is refused when it is read.
        self.check_length().map_or(true, |length| length.is_some_and(|it| it <= self.input.len()))
    }

    /// True if the next message is a `Sync` that has been received.
    pub(super) fn has_sync_next(&self) -> bool {
        self.input.first() == Some(&b'S')
    }

    /// Fails if a text of the last message is not UTF-8.
    ///
    /// # Errors
    /// A failure that the connection survives.
    pub(super) fn check_text(&self) -> Result<(), Failure> {
        let text = "the statement is not text in UTF-8, the only client_encoding there is";
        if self.has_bad_text { Err(Failure::new(SqlState::BAD_TEXT, text)) } else { Ok(()) }
    }

    /// Returns the length in bytes of the next message, including its type and length field; `None`
    /// if the length has not arrived. Fails for an invalid length before the message arrives.
    fn check_length(&self) -> Result<Option<usize>, Failure> {
        let offset = usize::from(!self.context.awaiting_frontend_startup);
        let Some(bytes) = self.input.get(offset..offset + 4) else { return Ok(None) };
        let length = bytes.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        if length < 4 {
            return Err(Failure::fatal(SqlState::PROTOCOL, "a message without a length"));
        }
        if length > self.message_bytes_max {
            let most = self.message_bytes_max;
            let text = format!("a message of {length} bytes; at most {most} are possible");
            return Err(Failure::fatal(SqlState::TOO_LARGE, text));
        }
        Ok(Some(offset + length))
    }

    /// Decodes the next message, which has `length` bytes.
    fn decode(&mut self, length: usize) -> Result<Option<PgWireFrontendMessage>, Failure> {
        let malformed = |why: &dyn std::fmt::Display| {
            Failure::fatal(SqlState::PROTOCOL, format!("a message that has no meaning: {why}"))
        };
        let bytes = self.input.get(..length).unwrap_or_default();
        let is_utf8 = message::check(bytes, &self.context).map_err(|why| malformed(&why))?;
        self.has_bad_text = !is_utf8;
        let decoded = PgWireFrontendMessage::decode(&mut self.input, &self.context);
        decoded.map_err(|error| malformed(&error))
    }

    /// Adds a message to the output buffer.
    ///
    /// # Errors
    /// A message that is too long; none of it is sent.
    pub(super) fn put(&mut self, message: PgWireBackendMessage) -> Result<(), Failure> {
        self.counters.count(&message);
        encode(&message, &mut self.output)
    }

    /// Adds encoded messages to the output buffer. They must not include the end of a statement,
    /// which is counted.
    pub(super) fn put_encoded(&mut self, messages: &[u8]) {
        self.output.extend_from_slice(messages);
    }

    /// Adds the encoded rows and command tag of a statement to the output buffer, and counts the
    /// statement.
    pub(super) fn put_answer(&mut self, messages: &[u8]) {
        self.counters.count_statement();
        self.put_encoded(messages);
    }

    /// Adds a row of a batch to the output buffer.
    ///
    /// # Errors
    /// As [`put_row`].
    pub(super) fn put_row(&mut self, columns: &[ColumnWriter], row: usize) -> Result<(), Failure> {
        put_row(&mut self.output, columns, row)
    }

    /// Adds bytes of a COPY to the output buffer.
    ///
    /// # Errors
    /// More bytes than a message can hold.
    pub(super) fn put_copy(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Ok(length) = i32::try_from(bytes.len() + 4) else {
            let most = i32::MAX;
            let text = format!("a row of {} bytes; messages have at most {most}", bytes.len());
            return Err(Failure::new(SqlState::TOO_LARGE, text));
        };
        self.output.put_u8(b'd');
        self.output.put_i32(length);
        self.output.put_slice(bytes);
        Ok(())
    }

    /// True if the output buffer is full enough to be sent.
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES
    }

    /// Sends the output buffer.
    ///
    /// # Errors
    /// A broken connection, and a client that does not read.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        self.account();
        // A client that reads takes a short answer at once, which needs no timer.
        match self.send().now_or_never() {
            Some(sent) => sent?,
            None => match timeout(self.unread_time, self.send()).await {
                Ok(sent) => sent?,
                Err(_) => {
                    let text = format!("the client has read nothing for {:?}", self.unread_time);
                    return Err(Failure::fatal(SqlState::CONNECTION, text));
                }
            },
        }
        // A row of several MiB must not keep its memory.
        if self.output.capacity() > 4 * OUTPUT_BYTES {
            self.output = BytesMut::new();
            self.account();
        }
        Ok(())
    }

    /// Writes the output buffer. If this future is dropped, the bytes written so far are no longer
    /// in the buffer.
    async fn send(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            // A vectored write of one buffer takes longer.
            match self.stream.write(&self.output).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                // Clearing makes the whole capacity of the buffer usable again.
                written if written == self.output.len() => self.output.clear(),
                written => self.output.advance(written),
            }
        }
        self.stream.flush().await
    }

    /// Sends the output buffer if it is full.
    ///
    /// # Errors
    /// As [`Wire::flush`].
    pub(super) async fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.is_full() { self.flush().await } else { Ok(()) }
    }

    /// Sends the output buffer and closes the connection.
    pub(super) async fn close(&mut self) -> Result<(), Failure> {
        self.flush().await?;
        Ok(self.stream.shutdown().await?)
    }
}
