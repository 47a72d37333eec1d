//! Keywords of a number template, and its layout.

use datafusion::common::{Result, exec_err};

/// Maximum digits of a template, more than any number has. The formatter of floats has a limit too.
const PLACES_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Comma,
    Point,
    Zero,
    Nine,
    Exponent,
    Unpadded,
    Currency,
    Minus,
    Plus,
    Bracket,
    Roman,
    RomanLower,
    AnySign,
    Anchored,
    Ordinal,
    OrdinalLower,
    Shift,
    Nothing,
}

/// Keywords in capitals, ordered so that a keyword precedes its own prefixes.
const KEYWORDS: &[(&str, Keyword)] = &[
    ("EEEE", Keyword::Exponent),
    ("FM", Keyword::Unpadded),
    ("MI", Keyword::Minus),
    ("PL", Keyword::Plus),
    ("PR", Keyword::Bracket),
    ("RN", Keyword::Roman),
    ("SG", Keyword::AnySign),
    ("SP", Keyword::Nothing),
    ("TH", Keyword::Ordinal),
    (",", Keyword::Comma),
    (".", Keyword::Point),
    ("0", Keyword::Zero),
    ("9", Keyword::Nine),
    ("B", Keyword::Nothing),
    ("C", Keyword::Nothing),
    ("D", Keyword::Point),
    ("E", Keyword::Exponent),
    ("G", Keyword::Comma),
    ("L", Keyword::Currency),
    ("S", Keyword::Anchored),
    ("V", Keyword::Shift),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Literal(char),
    Keyword(Keyword),
}

/// Position of the sign of an `S`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Anchor {
    #[default]
    None,
    Before,
    Behind,
}

/// The places of a template, and its signs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Number of digits before and after the decimal point.
    pub(super) before: usize,
    pub(super) behind: usize,
    /// Number of decimal places that `V` shifts a number by.
    pub(super) shift: Option<usize>,
    pub(super) anchor: Anchor,
    /// Number of digits before the decimal point that precede an `S`.
    pub(super) before_anchor: usize,
    /// The place of the first zero, and the number of places up to the last one.
    pub(super) zero_first: Option<usize>,
    pub(super) zero_end: usize,
    pub(super) point: bool,
    pub(super) unpadded: bool,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) bracket: bool,
    pub(super) roman: bool,
    pub(super) exponent: bool,
}

impl Layout {
    /// Adds a keyword.
    ///
    /// # Errors
    /// If it contradicts an earlier one.
    pub(super) fn add(&mut self, keyword: Keyword) -> Result<()> {
        let refuse = |why: &str| exec_err!("a template of numbers is wrong: {why}");
        if self.exponent {
            return refuse("\"EEEE\" comes last");
        }
        let signed = self.plus || self.minus || self.bracket;
        let anchored = self.anchor != Anchor::None;
        match keyword {
            Keyword::Nine | Keyword::Zero if self.bracket => {
                return refuse("digits come before \"PR\"");
            }
            Keyword::Nine => self.digit(),
            Keyword::Zero => {
                if self.zero_first.is_none() && !self.point {
                    self.zero_first = Some(self.before);
                }
                if self.point {
                    self.behind += 1
                } else {
                    self.before += 1
                }
                self.zero_end = self.before + self.behind;
            }
            Keyword::Point if self.point => return refuse("it has more than one decimal point"),
            Keyword::Point if self.shift.is_some() => {
                return refuse("\"V\" and a decimal point do not go together");
            }
            Keyword::Point => self.point = true,
            Keyword::Shift if self.point => {
                return refuse("\"V\" and a decimal point do not go together");
            }
            Keyword::Shift => self.shift = Some(self.shift.unwrap_or(0)),
            Keyword::Unpadded => self.unpadded = true,
            Keyword::Anchored if self.anchor == Anchor::Before || signed => {
                return refuse("it has more than one sign");
            }
            Keyword::Anchored if !self.point => {
                self.anchor = Anchor::Before;
                self.before_anchor = self.before;
            }
            Keyword::Anchored => self.anchor = Anchor::Behind,
            Keyword::Minus | Keyword::Plus | Keyword::AnySign if anchored => {
                return refuse("it has more than one sign");
            }
            Keyword::Minus => self.minus = true,
            Keyword::Plus => self.plus = true,
            Keyword::AnySign => (self.minus, self.plus) = (true, true),
            Keyword::Bracket if anchored || self.plus || self.minus => {
                return refuse("it has more than one sign");
            }
            Keyword::Bracket => self.bracket = true,
            Keyword::Roman | Keyword::RomanLower => self.roman = true,
            Keyword::Exponent => {
                let other = self.unpadded || anchored || signed || self.roman;
                if other || self.shift.is_some() {
                    return refuse("\"EEEE\" goes with digits and a decimal point only");
                }
                self.exponent = true;
            }
            _ => {}
        }
        if self.before + self.behind + self.shift.unwrap_or(0) > PLACES_MAX {
            return refuse(&format!("it has more than {PLACES_MAX} digits"));
        }
        Ok(())
    }

    fn digit(&mut self) {
        match &mut self.shift {
            Some(shift) => *shift += 1,
            None if self.point => self.behind += 1,
            None => self.before += 1,
        }
    }
}

/// Returns the keyword that a text begins with, and the text behind it.
pub(super) fn keyword(text: &str) -> Option<(Keyword, &str)> {
    for (name, keyword) in KEYWORDS {
        let Some(word) = text.get(..name.len()) else { continue };
        let lower = name.to_ascii_lowercase();
        if word != *name && word != lower {
            continue;
        }
        let keyword = match keyword {
            Keyword::Roman if word == lower => Keyword::RomanLower,
            Keyword::Ordinal if word == lower => Keyword::OrdinalLower,
            other => *other,
        };
        return Some((keyword, &text[name.len()..]));
    }
    None
}
