//! A client that can send arbitrary bytes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum time that a server may take for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A message from the server: its type, and the bytes after its length.
pub type Message = (u8, Vec<u8>);

/// A connection that sends and receives raw bytes.
pub struct Raw {
    pub stream: TcpStream,
}

/// Returns a message with a type.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &length(body.len()), body].concat()
}

/// Returns the length field of a message with `body` bytes after it.
fn length(body: usize) -> [u8; 4] {
    u32::try_from(body + 4).expect("a length").to_be_bytes()
}

/// Returns the start-up message of a connection.
pub fn startup() -> Vec<u8> {
    start(b"\0\x03\0\0user\0someone\0database\0main\0\0")
}

/// Returns a message without a type, as those before the login are.
pub fn start(body: &[u8]) -> Vec<u8> {
    [&length(body.len())[..], body].concat()
}

/// Returns a simple query.
pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

/// Returns a request to cancel a statement.
pub fn cancel(number: i32, secret: i32) -> Vec<u8> {
    start(&[80_877_102_i32, number, secret].map(i32::to_be_bytes).concat())
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw { stream: TcpStream::connect(address).await.expect("connected") }
    }

    /// Opens a connection and logs in. Returns it with its number and the secret to cancel its
    /// statements.
    pub async fn log_in(address: SocketAddr) -> (Raw, i32, i32) {
        let mut raw = Raw::connect(address).await;
        raw.send(&startup()).await.expect("sent");
        let mut key = (0, 0);
        loop {
            let (kind, body) = raw.next().await.expect("read").expect("a message");
            match kind {
                b'Z' => return (raw, key.0, key.1),
                b'K' => {
                    let number =
                        |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().expect("4"));
                    key = (number(0), number(4));
                }
                b'E' => panic!("refused: {}", text_of(&body)),
                _ => {}
            }
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Returns the next message; `None` if the server has closed the connection.
    pub async fn next(&mut self) -> io::Result<Option<Message>> {
        let read = async {
            let mut head = [0; 5];
            match self.stream.read_exact(&mut head).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            };
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; usize::try_from(length).expect("a length") - 4];
            self.stream.read_exact(&mut body).await?;
            Ok(Some((head[0], body)))
        };
        timeout(PATIENCE, read).await.expect("the server answers in time")
    }

    /// Returns all messages up to the next `ReadyForQuery` or the end of the connection.
    pub async fn answer(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        // A connection that is reset has ended as well.
        while let Ok(Some(message)) = self.next().await {
            let is_last = message.0 == b'Z';
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }

    /// Returns the class of the only error before the end of the connection.
    pub async fn last_error(&mut self) -> String {
        let messages = self.answer().await;
        let errors: Vec<_> = messages.iter().filter(|(kind, _)| *kind == b'E').collect();
        assert_eq!(errors.len(), 1, "{messages:?}");
        assert!(!messages.iter().any(|(kind, _)| *kind == b'Z'), "{messages:?}");
        class_of(&errors[0].1)
    }
}

/// Returns the class of an `ErrorResponse`.
pub fn class_of(body: &[u8]) -> String {
    field(body, b'C')
}

/// Returns the message of an `ErrorResponse`.
pub fn text_of(body: &[u8]) -> String {
    field(body, b'M')
}

fn field(body: &[u8], name: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let found = fields.find(|field| field[0] == name);
    String::from_utf8_lossy(found.map_or(&[], |field| &field[1..])).into_owned()
}

/// Returns the classes of the errors among messages.
pub fn errors(messages: &[Message]) -> Vec<String> {
    let errors = messages.iter().filter(|(kind, _)| *kind == b'E');
    errors.map(|(_, body)| class_of(body)).collect()
}
