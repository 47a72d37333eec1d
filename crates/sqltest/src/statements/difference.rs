//! Differences between the replies of Terrace and of another database to a statement.

use super::reply::Reply;

/// The comment of a statement whose rows have an order.
const ORDERED: &str = "/* ordered */";

/// A difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The other database.
    pub peer: &'static str,
    /// Kind of the difference, such as `types: integer, not text`; equal differences have the same
    /// kind.
    pub kind: String,
    /// The statements up to the one that differs.
    pub statements: Vec<String>,
    /// Terrace's reply.
    pub ours: Reply,
    /// The other reply.
    pub theirs: Reply,
}

impl Difference {
    /// Returns the line that the list of known differences matches.
    #[must_use]
    pub fn line(&self) -> String {
        let last = self.statements.last().map_or("", String::as_str);
        format!("{}: {} | {last}", self.peer, self.kind)
    }

    /// True if both are of one kind.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.peer == other.peer && self.kind == other.kind
    }
}

/// Returns the kinds of the differences between two replies, and true if later statements may
/// differ as a consequence.
#[must_use]
pub fn kinds(statement: &str, ours: &Reply, theirs: &Reply) -> (Vec<String>, bool) {
    let ends = |kind: String| (vec![kind], true);
    match (ours, theirs) {
        (Reply::Lost(what), _) => ends(format!("no reply: {what}")),
        (Reply::Refused { state, message }, _) if state.starts_with("XX") => {
            ends(format!("internal error: {}", crate::outcome::reason(message)))
        }
        (Reply::Refused { state, .. }, Reply::Refused { state: other, .. }) => {
            match other.is_empty() || class(state) == class(other) {
                true => (Vec::new(), false),
                // Both refuse: what follows is the same.
                false => (vec![format!("state: {state}, not {other}")], false),
            }
        }
        (Reply::Refused { state, message }, _) => {
            ends(format!("refused: {state} {}", crate::outcome::reason(message)))
        }
        (_, Reply::Refused { state, message }) => {
            ends(format!("accepted: {state} {}", crate::outcome::reason(message)))
        }
        (Reply::Rows(ours), Reply::Rows(theirs)) => {
            let mut kinds = types(&ours.types, &theirs.types);
            let is_same = ours.same_rows(theirs, statement.contains(ORDERED));
            if !is_same {
                kinds.push("rows".to_owned());
            }
            (kinds, !is_same)
        }
        (Reply::Done(ours), Reply::Done(theirs)) if ours != theirs => {
            (vec![format!("count: {ours}, not {theirs}")], false)
        }
        _ => (Vec::new(), false),
    }
}

/// Returns the class of an SQLSTATE.
fn class(state: &str) -> &str {
    state.get(..2).unwrap_or(state)
}

fn types(ours: &[String], theirs: &[String]) -> Vec<String> {
    if ours.is_empty() || theirs.is_empty() {
        return Vec::new();
    }
    let pairs = ours.iter().zip(theirs).filter(|(one, other)| one != other);
    let mut kinds: Vec<_> =
        pairs.map(|(one, other)| format!("types: {one}, not {other}")).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::reply::Table;
    use crate::value::Value;

    fn refused(state: &str) -> Reply {
        Reply::Refused { state: state.to_owned(), message: "no".to_owned() }
    }

    fn rows(of: &str, number: &str) -> Reply {
        let rows = vec![vec![Value::Number(number.to_owned())]];
        Reply::Rows(Table { types: vec![of.to_owned()], rows })
    }

    #[test]
    fn classes_of_errors_are_compared() {
        assert!(kinds("", &refused("42P01"), &refused("42703")).0.is_empty());
        let (found, ends) = kinds("", &refused("22000"), &refused("42703"));
        assert_eq!((found, ends), (vec!["state: 22000, not 42703".to_owned()], false));
        assert!(kinds("", &refused("XX000"), &refused("XX000")).1);
        assert!(kinds("", &refused("42601"), &Reply::Done(0)).1);
    }

    #[test]
    fn types_and_rows_are_compared() {
        assert!(kinds("", &rows("integer", "1"), &rows("integer", "1.0")).0.is_empty());
        let (found, ends) = kinds("", &rows("integer", "1"), &rows("numeric", "1"));
        assert_eq!((found, ends), (vec!["types: integer, not numeric".to_owned()], false));
        assert_eq!(kinds("", &rows("integer", "1"), &rows("integer", "2")).0, ["rows"]);
        assert_eq!(kinds("", &Reply::Done(1), &Reply::Done(2)).0, ["count: 1, not 2"]);
    }
}
