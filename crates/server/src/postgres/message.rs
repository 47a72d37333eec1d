//! Validates the form of messages before they are decoded: the decoder trusts the lengths and
//! counts in a message, and panics or reads into the next message if they are wrong.

use pgwire::messages::DecodeContext;

/// Request codes that come before the start-up message, in place of a protocol version.
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Length of a request to cancel a statement without its secret, and maximum length of a secret, in
/// bytes.
const CANCEL_BYTES: usize = 12;
const SECRET_BYTES_MAX: usize = 256;

/// Checks that a message has the form of its type, without bytes after its last field. `bytes` are
/// the whole message, including its type and length. Returns true if its texts are UTF-8.
///
/// # Errors
/// A description of the defect.
pub(super) fn check(bytes: &[u8], context: &DecodeContext) -> Result<bool, &'static str> {
    if context.awaiting_frontend_startup {
        return start(bytes.get(4..).unwrap_or_default());
    }
    let (kind, body) = (bytes.first().copied().unwrap_or(0), bytes.get(5..).unwrap_or_default());
    let mut fields = Fields { left: body, is_utf8: true };
    match kind {
        b'Q' => fields.text()?,
        b'P' => {
            fields.text()?;
            fields.text()?;
            fields.numbers(4)?;
        }
        b'B' => bind(&mut fields)?,
        b'C' | b'D' => match fields.take(1)? {
            b"S" | b"P" => fields.text()?,
            _ => return Err("it is of no statement and of no portal"),
        },
        b'E' => {
            fields.text()?;
            fields.take(4)?;
        }
        b'f' => fields.text()?,
        b'H' | b'S' | b'X' | b'c' => {}
        b'd' | b'p' => fields.left = &[],
        _ => return Err("there is no such type"),
    }
    fields.end()
}

/// Checks a message that comes before the login.
fn start(body: &[u8]) -> Result<bool, &'static str> {
    let mut fields = Fields { left: body, is_utf8: true };
    let code = fields.take(4)?;
    match code.iter().fold(0, |code, byte| code << 8 | u32::from(*byte)) {
        SSL | GSS => {}
        CANCEL
            if (CANCEL_BYTES + 1..=CANCEL_BYTES + SECRET_BYTES_MAX).contains(&(body.len() + 4)) =>
        {
            fields.left = &[];
        }
        CANCEL => return Err("it has no secret"),
        _ => {
            // Pairs of a name and a value, then an empty name.
            while fields.left.first().is_some_and(|first| *first != 0) {
                fields.text()?;
                fields.text()?;
            }
            fields.text()?;
            if !fields.is_utf8 {
                return Err("its texts are not UTF-8");
            }
        }
    }
    fields.end()
}

fn bind(fields: &mut Fields<'_>) -> Result<(), &'static str> {
    fields.text()?;
    fields.text()?;
    fields.numbers(2)?;
    for _ in 0..fields.count()? {
        let length = fields.take(4)?;
        let length = length.iter().fold(0_u32, |length, byte| length << 8 | u32::from(*byte));
        // A length of -1 stands for a null.
        if length != u32::MAX {
            fields.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        }
    }
    fields.numbers(2)
}

/// The remaining bytes of a message.
struct Fields<'a> {
    left: &'a [u8],
    is_utf8: bool,
}

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], &'static str> {
        let taken = self.left.split_at_checked(bytes);
        let (taken, left) = taken.ok_or("it ends before its last field")?;
        self.left = left;
        Ok(taken)
    }

    /// Takes a text that ends with a zero byte.
    fn text(&mut self) -> Result<(), &'static str> {
        let end = self.left.iter().position(|byte| *byte == 0);
        let text = self.take(end.ok_or("a text in it has no end")?)?;
        self.is_utf8 &= std::str::from_utf8(text).is_ok();
        self.take(1).map(drop)
    }

    fn count(&mut self) -> Result<usize, &'static str> {
        let bytes = self.take(2)?;
        Ok(bytes.iter().fold(0, |count, byte| count << 8 | usize::from(*byte)))
    }

    /// Takes a count and that many numbers of `bytes` bytes each.
    fn numbers(&mut self, bytes: usize) -> Result<(), &'static str> {
        let count = self.count()?;
        self.take(count * bytes).map(drop)
    }

    fn end(self) -> Result<bool, &'static str> {
        if self.left.is_empty() { Ok(self.is_utf8) } else { Err("it goes on after its last field") }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use pgwire::messages::PgWireFrontendMessage;

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn after_start() -> DecodeContext {
        let mut context = DecodeContext::default();
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        context
    }

    const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x01";

    #[test]
    fn messages_of_the_right_form_pass() {
        for (kind, body) in [
            (b'Q', &b"SELECT 1\0"[..]),
            (b'P', b"\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'B', BIND),
            (b'D', b"Sname\0"),
            (b'C', b"P\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
            (b'd', b"any\0thing"),
        ] {
            let kind = char::from(kind);
            let bytes = message(kind as u8, body);
            assert_eq!(check(&bytes, &after_start()), Ok(true), "{kind}");
        }
        assert_eq!(check(&message(b'Q', b"\xff\0"), &after_start()), Ok(false));
    }

    /// Cuts, lengthens and damages each message at each position. A message that passes the check
    /// must be decoded to its end without a panic.
    #[test]
    fn messages_of_another_form_are_refused_or_decoded_to_their_end() {
        let mut refused = 0;
        for (kind, body) in [
            (b'Q', &b"SELECT 1\0"[..]),
            (b'P', b"\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'B', BIND),
            (b'D', b"Sname\0"),
            (b'E', b"\0\0\0\0\0"),
        ] {
            let cut = (0..body.len()).map(|end| body[..end].to_vec());
            let longer = [body, b"\0"].concat();
            let damaged = (0..body.len() * 256).map(|n| {
                let mut body = body.to_vec();
                body[n / 256] = u8::try_from(n % 256).unwrap_or(0);
                body
            });
            for body in cut.chain([longer]).chain(damaged) {
                let bytes = message(kind, &body);
                if check(&bytes, &after_start()).is_err() {
                    refused += 1;
                    continue;
                }
                let mut input = BytesMut::from(&bytes[..]);
                input.extend_from_slice(b"S\0\0\0\x04");
                let decoded = PgWireFrontendMessage::decode(&mut input, &after_start());
                assert!(matches!(decoded, Ok(Some(_))), "{bytes:?}: {decoded:?}");
                assert_eq!(&input[..], b"S\0\0\0\x04", "{bytes:?}");
            }
        }
        assert!(refused > 1_000, "{refused}");
    }

    #[test]
    fn a_start_has_pairs_of_texts_and_an_end() {
        let start = |body: &[u8]| {
            let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
            check(&[&length[..], body].concat(), &DecodeContext::default())
        };
        assert_eq!(start(b"\0\x03\0\0user\0me\0\0"), Ok(true));
        assert_eq!(start(&SSL.to_be_bytes()), Ok(true));
        assert_eq!(start(&[&CANCEL.to_be_bytes()[..], &[0; 8]].concat()), Ok(true));
        for wrong in [
            &b"\0\x03\0\0user\0me\0"[..],
            b"\0\x03\0\0user\0",
            b"\0\x03\0\0\xff\0me\0\0",
            b"\0\x03\0\0user\0me\0\0more",
            b"\0\x03",
            b"\x04\xd2\x16\x2f-",
            b"\x04\xd2\x16\x2e",
        ] {
            assert!(start(wrong).is_err(), "{wrong:?}");
        }
    }
}
