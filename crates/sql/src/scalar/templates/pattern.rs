//! Templates of `to_date` and `to_timestamp`, as in PostgreSQL.

use datafusion::common::{Result, exec_err};

use super::times::{Field, keyword, prefix_of, quotation, suffix};

/// A part of a template that reads a part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node {
    Field(FieldNode),
    /// A blank, or an ASCII character that is no letter and no digit.
    Separator,
    /// Any other character.
    Letter {
        is_digit: bool,
    },
}

/// A field of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldNode {
    pub(super) field: Field,
    /// The keyword, as it is written.
    pub(super) name: String,
    /// True if the field takes digits of any number: no digits can follow, or `FM` precedes it.
    pub(super) is_open: bool,
    /// True if two characters such as `th` follow.
    pub(super) is_ordinal: bool,
}

/// A parsed template.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) nodes: Vec<Node>,
}

impl Pattern {
    /// # Errors
    /// For a format of `strptime`.
    pub(super) fn parsed(text: &str) -> Result<Self> {
        let mut nodes = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (is_unpadded, behind) = prefix_of(rest);
            rest = behind;
            if let Some((field, _, behind)) = keyword(rest) {
                let name = rest[..rest.len() - behind.len()].to_owned();
                let (is_ordinal, behind) = ordinal(behind);
                let is_open = is_unpadded || is_ordinal;
                nodes.push(Node::Field(FieldNode { field, name, is_open, is_ordinal }));
                rest = behind;
            } else if let Some(quoted) = rest.strip_prefix('"') {
                rest = quotation(quoted, |letter| {
                    nodes.push(Node::Letter { is_digit: letter.is_ascii_digit() });
                });
            } else {
                rest = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
                let mut letters = rest.chars();
                nodes.extend(letters.next().map(node));
                let behind = letters.as_str();
                if rest.starts_with('%') && behind.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    return exec_err!(
                        "to_date and to_timestamp take templates such as YYYY-MM-DD HH24:MI:SS, \
                         not {text}; strptime takes formats such as %Y-%m-%d"
                    );
                }
                rest = behind;
            }
        }
        open(&mut nodes);
        Ok(Self { nodes })
    }
}

/// Marks the fields that no digits can follow.
fn open(nodes: &mut [Node]) {
    let mut precedes_digits = false;
    for node in nodes.iter_mut().rev() {
        let is_digits = match node {
            Node::Field(of) => {
                of.is_open |= !precedes_digits;
                of.field.reads_digits(&of.name)
            }
            Node::Separator => false,
            Node::Letter { is_digit } => *is_digit,
        };
        precedes_digits = is_digits;
    }
}

fn ordinal(text: &str) -> (bool, &str) {
    let is_ordinal = text.starts_with("TH") || text.starts_with("th");
    let (_, behind) = suffix(text);
    (is_ordinal, behind)
}

fn node(letter: char) -> Node {
    match letter {
        letter if is_separator(letter) || is_blank(letter) => Node::Separator,
        letter => Node::Letter { is_digit: letter.is_ascii_digit() },
    }
}

pub(super) fn is_separator(letter: char) -> bool {
    letter.is_ascii_punctuation()
}

/// True for a blank of the C locale.
pub(super) fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t'..='\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_open_where_no_digits_follow() {
        let open = |text: &str| {
            let pattern = Pattern::parsed(text).expect(text);
            let fields = pattern.nodes.into_iter().filter_map(|node| match node {
                Node::Field(field) => Some(field.is_open),
                _ => None,
            });
            fields.collect::<Vec<_>>()
        };
        assert_eq!(open("YYYYMMDD"), [false, false, true]);
        assert_eq!(open("YYYY-MM-DD"), [true, true, true]);
        assert_eq!(open("FMYYYYMonDDth"), [true, false, true]);
        assert_eq!(open("YYYY1DD"), [false, true]);
        assert_eq!(open("HH24MIFF3"), [false, true, true]);
        assert!(Pattern::parsed("%Y-%m-%d").is_err());
    }
}
