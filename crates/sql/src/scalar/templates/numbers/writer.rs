//! Output of digits at the places of a number template.

use super::super::times::ordinal_ending;
use super::layout::{Anchor, Item, Keyword, Layout};

/// Writes one number by a template.
pub(super) struct Writer<'a> {
    layout: Layout,
    /// The digits, without a sign.
    digits: &'a [u8],
    /// Index of the next digit.
    next: usize,
    /// Number of places before the first digit.
    spaces: usize,
    negative: bool,
    sign_written: bool,
    /// The last digit to write, if `FM` drops trailing zeros.
    last: Option<usize>,
    /// The next place of the template, and the number of places.
    place: usize,
    places: usize,
    /// True right after a digit was written.
    in_number: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(mut layout: Layout, digits: &'a str, spaces: usize, negative: bool) -> Self {
        let digits = digits.as_bytes();
        let sign_written = if layout.plus || layout.minus {
            // `PL` alone does not show the sign of a negative number.
            layout.minus
        } else {
            if !negative && layout.unpadded {
                layout.bracket = false;
            }
            if layout.anchor == Anchor::Before && layout.before == layout.before_anchor {
                layout.anchor = Anchor::Behind;
            }
            !negative && layout.unpadded && layout.anchor == Anchor::None
        };
        let last = if layout.unpadded && layout.point {
            last_digit(digits, layout.zero_end, spaces)
        } else {
            None
        };
        let mut places = (layout.before + layout.behind).saturating_sub(1);
        places += usize::from(!sign_written && spaces == 0);
        Self {
            digits,
            next: 0,
            spaces,
            negative,
            sign_written,
            last,
            place: 0,
            places,
            in_number: false,
            layout,
        }
    }

    pub(super) fn write(mut self, items: &[Item], text: &mut String) {
        let space = |text: &mut String, unpadded: bool| {
            if !unpadded {
                text.push(' ');
            }
        };
        let unpadded = self.layout.unpadded;
        for item in items {
            let keyword = match item {
                Item::Literal(literal) => {
                    text.push(*literal);
                    continue;
                }
                Item::Keyword(keyword) => *keyword,
            };
            match keyword {
                Keyword::Nine | Keyword::Zero | Keyword::Point => self.place(keyword, text),
                Keyword::Comma if self.in_number => text.push(','),
                Keyword::Comma => space(text, unpadded),
                Keyword::Currency => text.push(' '),
                Keyword::Minus if self.negative => text.push('-'),
                Keyword::Minus => space(text, unpadded),
                Keyword::Plus if !self.negative => text.push('+'),
                Keyword::Plus => space(text, unpadded),
                Keyword::AnySign => text.push(if self.negative { '-' } else { '+' }),
                Keyword::Ordinal | Keyword::OrdinalLower => self.ordinal(keyword, text),
                _ => {}
            }
        }
    }

    fn ordinal(&self, keyword: Keyword, text: &mut String) {
        if self.digits.first() == Some(&b'#') || self.negative || self.layout.point {
            return;
        }
        let ending = ordinal_ending(&String::from_utf8_lossy(self.digits));
        match keyword {
            Keyword::Ordinal => text.push_str(&ending.to_uppercase()),
            _ => text.push_str(ending),
        }
    }

    /// Writes the place of a digit or of the decimal point.
    fn place(&mut self, keyword: Keyword, text: &mut String) {
        self.in_number = false;
        self.sign_before(text);
        let zero = self.layout.zero_first.is_some_and(|first| first <= self.place);
        if self.place < self.spaces {
            if zero {
                text.push('0');
                self.in_number = true;
            } else if !self.layout.unpadded {
                text.push(' ');
            }
        } else {
            self.digit(keyword, text);
            self.next += usize::from(self.next < self.digits.len());
        }
        let mut end = self.places + usize::from(self.spaces > 0) + usize::from(self.layout.point);
        if self.last == Some(self.next) {
            end = self.place;
        }
        if self.place + 1 == end {
            self.sign_behind(text);
        }
        self.place += 1;
    }

    fn digit(&mut self, keyword: Keyword, text: &mut String) {
        let Some(digit) = self.digits.get(self.next) else { return };
        let ends_at_point = self.last.is_some_and(|last| self.digits[last] == b'.');
        if *digit == b'.' {
            if !ends_at_point || self.layout.unpadded {
                text.push('.');
            }
        } else if self.last.is_some_and(|last| self.next > last) && keyword != Keyword::Zero {
            // A trailing zero that `FM` drops.
        } else if self.is_zero_before_point() {
            if !self.layout.unpadded {
                text.push(' ');
            } else if ends_at_point {
                text.push('0');
            }
        } else {
            text.push(char::from(*digit));
            self.in_number = true;
        }
    }

    /// True if the next digit is the only zero before the decimal point, which a 9 does not show.
    fn is_zero_before_point(&self) -> bool {
        let behind = self.layout.behind > 0;
        self.layout.zero_first.is_none()
            && self.next == 0
            && self.digits.first() == Some(&b'0')
            && behind
    }

    fn sign_before(&mut self, text: &mut String) {
        let at_digits = self.place >= self.spaces || self.layout.zero_first == Some(self.place);
        let ends_at_point = self.last.is_some_and(|last| self.digits[last] == b'.');
        if self.sign_written || !at_digits || self.is_zero_before_point() && !ends_at_point {
            return;
        }
        match self.layout.anchor {
            Anchor::Behind => return,
            Anchor::Before => text.push(if self.negative { '-' } else { '+' }),
            Anchor::None if self.layout.bracket => text.push(if self.negative { '<' } else { ' ' }),
            Anchor::None if self.negative => text.push('-'),
            Anchor::None if !self.layout.unpadded => text.push(' '),
            Anchor::None => {}
        }
        self.sign_written = true;
    }

    fn sign_behind(&self, text: &mut String) {
        if self.sign_written && self.layout.bracket {
            text.push(if self.negative { '>' } else { ' ' });
        } else if self.layout.anchor == Anchor::Behind {
            text.push(if self.negative { '-' } else { '+' });
        }
    }
}

/// The last digit that is not a trailing zero, or that a zero of the template requires.
fn last_digit(digits: &[u8], zero_end: usize, spaces: usize) -> Option<usize> {
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let last = digits[point..].iter().rposition(|digit| *digit != b'0' && *digit != b'.');
    let last = last.map_or(point, |last| point + last);
    if zero_end > spaces {
        Some(last.max((zero_end - spaces).min(digits.len() - 1)))
    } else {
        Some(last)
    }
}
