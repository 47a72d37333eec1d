//! Decimal and thousands separators of numbers in delimited values: `1.234,5` for `1234.5`.

use std::borrow::Cow;

use super::super::guess::Guess;

/// Decimal and thousands separators of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberFormat {
    /// Precedes the fraction.
    pub(crate) decimal: char,
    /// Separates groups of digits.
    pub(crate) thousands: Option<char>,
}

impl Default for NumberFormat {
    fn default() -> Self {
        Self { decimal: '.', thousands: None }
    }
}

impl NumberFormat {
    /// Replaces the separators of a number by those of SQL; `None` if their places are wrong. The
    /// other characters are not checked.
    pub(super) fn plain(self, text: &str) -> Option<Cow<'_, str>> {
        if self == Self::default() {
            return Some(Cow::Borrowed(text));
        }
        let mut plain = String::with_capacity(text.len());
        for letter in text.chars() {
            if letter == self.decimal {
                plain.push('.');
            } else if Some(letter) == self.thousands {
                if plain.contains('.') {
                    return None;
                }
            } else if letter == '.' {
                return None;
            } else {
                plain.push(letter);
            }
        }
        Some(Cow::Owned(plain))
    }

    /// The type of a value of text.
    pub(super) fn guess(self, text: &str) -> Guess {
        let is_number =
            |guess: &Guess| matches!(guess, Guess::Integer | Guess::Huge | Guess::Double);
        let as_it_is = Guess::of_text(text);
        if self == Self::default() {
            return as_it_is;
        }
        let number = self.plain(text.trim()).map(|plain| Guess::of_text(&plain));
        match number.filter(is_number) {
            Some(number) => number,
            None if is_number(&as_it_is) => Guess::Text,
            None => as_it_is,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types that DuckDB 2.0 infers.
    #[test]
    fn numbers_are_those_of_the_format() {
        let german = NumberFormat { decimal: ',', thousands: Some('.') };
        let comma = NumberFormat { decimal: ',', thousands: None };
        let groups = NumberFormat { decimal: '.', thousands: Some('\'') };
        for (format, text, guess, plain) in [
            (german, "1.234,25", Guess::Double, Some("1234.25")),
            (german, "-1.234.567", Guess::Integer, Some("-1234567")),
            (german, "1,5.0", Guess::Text, None),
            (comma, "1,5", Guess::Double, Some("1.5")),
            (comma, "1.5", Guess::Text, None),
            (comma, "7", Guess::Integer, Some("7")),
            (comma, "2024-01-02", Guess::Date, Some("2024-01-02")),
            (groups, "1'000.5", Guess::Double, Some("1000.5")),
            (NumberFormat::default(), "1.5", Guess::Double, Some("1.5")),
            (NumberFormat::default(), "1,5", Guess::Text, Some("1,5")),
        ] {
            assert_eq!(format.guess(text), guess, "{text}");
            assert_eq!(format.plain(text).as_deref(), plain, "{text}");
        }
    }
}
