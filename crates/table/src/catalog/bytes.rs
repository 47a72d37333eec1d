//! Encoding and decoding of the fields of catalog records.

/// Encoder that appends fields to a record.
pub(super) struct FieldWriter(Vec<u8>);

impl FieldWriter {
    /// Begins a record of this version.
    pub(super) fn new(version: u8) -> Self {
        Self(vec![version])
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    pub(super) fn len(&mut self, len: usize) {
        // Every supported target has pointers of at most 64 bits.
        self.word(len as u64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.0.extend(bytes);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Decoder that takes the fields of a record one after another. Its error says what was missing.
pub(super) struct FieldReader<'a>(&'a [u8]);

/// Reason that a record cannot be encoded or decoded, as a text.
pub(super) type Missing = String;

impl<'a> FieldReader<'a> {
    /// Begins to decode a record, which must be of this version.
    pub(super) fn new(record: &'a [u8], version: u8) -> Result<Self, Missing> {
        match record.split_first() {
            Some((&found, rest)) if found == version => Ok(Self(rest)),
            Some((found, _)) => Err(format!("version {found} where {version} was expected")),
            None => Err("no bytes".to_owned()),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Missing> {
        let (&byte, rest) = self.0.split_first().ok_or("no byte")?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn word(&mut self) -> Result<u64, Missing> {
        let (word, rest) = self.0.split_first_chunk().ok_or("no number")?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(super) fn len(&mut self) -> Result<usize, Missing> {
        usize::try_from(self.word()?).map_err(|error| error.to_string())
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Missing> {
        let len = self.len()?;
        let (bytes, rest) =
            self.0.split_at_checked(len).ok_or_else(|| format!("fewer than {len} bytes"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, Missing> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|error| error.to_string())
    }

    /// Checks that the record ends here.
    pub(super) fn end(self) -> Result<(), Missing> {
        match self.0.len() {
            0 => Ok(()),
            rest => Err(format!("{rest} bytes too many")),
        }
    }
}
