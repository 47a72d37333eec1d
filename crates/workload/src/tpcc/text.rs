//! Random text and names (clause 4.3.2 of the specification).

use crate::random::Random;

/// Word in the data of ten items of a hundred.
const ORIGINAL: &[u8] = b"ORIGINAL";
const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";
const DIGITS: &[u8] = b"0123456789";
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Text of at most 500 bytes, stored inline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phrase {
    bytes: [u8; PHRASE_BYTES_MAX],
    len: usize,
}

const PHRASE_BYTES_MAX: usize = 500;

impl Phrase {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Draws `low` to `high` letters and digits: an a-string.
    pub(super) fn letters(random: &mut Random, low: u32, high: u32) -> Self {
        // The specification requires at least 26 letters in both cases and 10 digits.
        let length = random.between(low, high) as usize;
        let mut phrase = Self { bytes: [0; PHRASE_BYTES_MAX], len: length };
        for chunk in phrase.bytes[..length].chunks_mut(8) {
            let word = random.next().to_le_bytes();
            for (letter, byte) in chunk.iter_mut().zip(word) {
                *letter = LETTERS[usize::from(byte & 63)];
            }
        }
        phrase
    }

    /// Draws `count` digits: an n-string.
    pub(super) fn digits(random: &mut Random, count: usize) -> Self {
        let mut phrase = Self { bytes: [0; PHRASE_BYTES_MAX], len: count };
        for digit in &mut phrase.bytes[..count] {
            *digit = DIGITS[random.between(0, 9) as usize];
        }
        phrase
    }

    /// Draws a zip code: four digits and five ones (clause 4.3.2.7).
    pub(super) fn zip(random: &mut Random) -> Self {
        let mut phrase = Self::digits(random, 9);
        phrase.bytes[4..9].fill(b'1');
        phrase
    }

    /// Draws the data of an item or of its stock: 26 to 50 letters, a tenth of them with the word
    /// [`ORIGINAL`] that transactions look for.
    pub(super) fn data(random: &mut Random) -> Self {
        let mut phrase = Self::letters(random, 26, 50);
        if random.chance(10) {
            let room = u32::try_from(phrase.len - ORIGINAL.len()).unwrap_or(0);
            let at = random.between(0, room) as usize;
            phrase.bytes[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        phrase
    }

    /// Returns the last name of a number from 0 to 999: a syllable for each of its digits (clause
    /// 4.3.2.3).
    pub(super) fn last_name(number: u32) -> Self {
        let mut phrase = Self { bytes: [0; PHRASE_BYTES_MAX], len: 0 };
        for digit in [number / 100, number / 10, number] {
            let syllable = SYLLABLES[digit as usize % 10].as_bytes();
            phrase.bytes[phrase.len..phrase.len + syllable.len()].copy_from_slice(syllable);
            phrase.len += syllable.len();
        }
        phrase
    }
}

/// True if the data contains [`ORIGINAL`].
pub(super) fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_specification() {
        let name = |number| String::from_utf8(Phrase::last_name(number).bytes().to_vec());
        assert_eq!(name(371).as_deref(), Ok("PRICALLYOUGHT"));
        assert_eq!(name(40).as_deref(), Ok("BARPRESBAR"));
        let longest = (0..1000).map(|number| Phrase::last_name(number).bytes().len()).max();
        assert_eq!(longest, Some(15));
    }

    #[test]
    fn text_has_the_lengths_and_letters_that_it_should() {
        let mut random = Random::new(1, 1);
        let (mut lengths, mut originals) = ([0; 51], 0);
        for _ in 0..20_000 {
            let data = Phrase::data(&mut random);
            assert!(data.bytes().iter().all(|byte| LETTERS.contains(byte)));
            lengths[data.bytes().len()] += 1;
            originals += u32::from(is_original(data.bytes()));
        }
        assert!(lengths[..26].iter().all(|count| *count == 0));
        assert!(lengths[26..].iter().all(|count| (600..1_000).contains(count)), "{lengths:?}");
        assert!((1_850..2_150).contains(&originals), "{originals}");
        let zip = Phrase::zip(&mut random);
        assert!(zip.bytes()[..4].iter().all(u8::is_ascii_digit));
        assert_eq!(&zip.bytes()[4..], b"11111");
    }
}
