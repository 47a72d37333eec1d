//! The grammar of the statements, and the scripts that it generates.
//!
//! The files in `grammar` have a rule for each part of a script; `scripts.txt` describes their
//! form. Expressions are over one table with a fixed alias, so that a rule needs no scope: a
//! subquery names its columns like any other.

use std::collections::BTreeMap;

use crate::error::{CheckError, Result};
use crate::fuzz::dialect::Dialect;
use crate::fuzz::node::{Node, optional, parts, text};
use crate::fuzz::random::Random;

const FILES: [(&str, &str); 6] = [
    ("scripts.txt", include_str!("grammar/scripts.txt")),
    ("expressions.txt", include_str!("grammar/expressions.txt")),
    ("queries.txt", include_str!("grammar/queries.txt")),
    ("changes.txt", include_str!("grammar/changes.txt")),
    ("definitions.txt", include_str!("grammar/definitions.txt")),
    ("duckdb.txt", include_str!("grammar/duckdb.txt")),
];

/// The rule of a whole script.
const START: &str = "script";
/// The name that stands for no text.
const NOTHING: &str = "nothing";
/// Depth from which rules take their first alternative.
const DEPTH_MAX: usize = 6;
/// Text between two statements of a script.
const END: &str = " ; ";

/// Rules as they are written: a name, and alternatives with their weights.
type Rules = Vec<(String, Vec<(usize, String)>)>;

/// A grammar.
pub struct Grammar {
    rules: Vec<Rule>,
    start: usize,
}

struct Rule {
    name: String,
    alternatives: Vec<Alternative>,
    /// The text of the first alternatives.
    plain: String,
}

struct Alternative {
    weight: usize,
    pieces: Vec<Piece>,
}

enum Piece {
    Text(String),
    One(usize),
    /// A rule that may be left out, with the text before it.
    Optional(&'static str, usize),
    List {
        rule: usize,
        between: &'static str,
        from: usize,
        to: usize,
    },
}

/// The databases that judge a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judges {
    /// PostgreSQL.
    pub postgres: bool,
    /// DuckDB.
    pub duck: bool,
}

/// A generated script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The script as a tree; its text begins with the judges.
    pub node: Node,
}

impl Script {
    /// Returns the databases that judge the script.
    #[must_use]
    pub fn judges(&self) -> Judges {
        let text = self.node.render(Dialect::Terrace);
        let word = text.split(' ').next().unwrap_or_default();
        Judges { postgres: word.contains('p'), duck: word.contains('d') }
    }

    /// Returns the statements.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        let text = self.node.render(Dialect::Terrace);
        let text = text.split_once(' ').map_or("", |(_, text)| text);
        let statements = text.split(END).map(|it| it.trim().to_owned());
        statements.filter(|it| !it.is_empty()).collect()
    }
}

impl Grammar {
    /// Reads the grammar of this program.
    ///
    /// # Errors
    /// [`CheckError::Input`] for a line that is no rule, and a name without one.
    pub fn read() -> Result<Self> {
        Self::parsed(&FILES)
    }

    fn parsed(files: &[(&str, &str)]) -> Result<Self> {
        let mut rules = Rules::new();
        for (file, text) in files {
            for line in text.lines() {
                add_line(&mut rules, line).map_err(|what| {
                    CheckError::Input(format!("grammar/{file}: {line:?} {what}"))
                })?;
            }
        }
        let places = rules.iter().enumerate().map(|(place, (name, _))| (name.clone(), place));
        let places: BTreeMap<_, _> = places.collect();
        let start = place(&places, START)?;
        let rules = rules.iter().map(|(name, alternatives)| -> Result<Rule> {
            let alternative = |(weight, text): &(usize, String)| -> Result<Alternative> {
                Ok(Alternative { weight: *weight, pieces: pieces(&places, text)? })
            };
            let alternatives = alternatives.iter().map(alternative).collect::<Result<Vec<_>>>()?;
            Ok(Rule { name: name.clone(), alternatives, plain: String::new() })
        });
        let mut grammar = Self { rules: rules.collect::<Result<Vec<_>>>()?, start };
        for rule in 0..grammar.rules.len() {
            let plain = grammar.plain(rule, 0)?;
            grammar.rules[rule].plain = plain;
        }
        Ok(grammar)
    }

    /// Returns the text of a rule's first alternatives.
    fn plain(&self, rule: usize, depth: usize) -> Result<String> {
        let Rule { name, alternatives, .. } = &self.rules[rule];
        let endless = || CheckError::Input(format!("grammar: the first {name} never ends"));
        let first = alternatives.first().filter(|_| depth < 16).ok_or_else(endless)?;
        let mut plain = String::new();
        for piece in &first.pieces {
            match piece {
                Piece::Text(text) => plain.push_str(text),
                Piece::One(rule) | Piece::List { rule, .. } => {
                    plain.push_str(&self.plain(*rule, depth + 1)?);
                }
                Piece::Optional(..) => {}
            }
        }
        Ok(plain)
    }

    /// Returns the script of a seed and a number.
    #[must_use]
    pub fn script(&self, seed: u64, number: u64) -> Script {
        Script { node: self.expand(&mut Random::new(seed, number), self.start, 0) }
    }

    fn expand(&self, random: &mut Random, rule: usize, depth: usize) -> Node {
        let Rule { alternatives, plain, .. } = &self.rules[rule];
        let total: usize = alternatives.iter().map(|it| it.weight).sum();
        let mut number = if depth < DEPTH_MAX { random.below(total) } else { 0 };
        let chosen = alternatives.iter().find(|it| {
            let is_chosen = number < it.weight;
            number = number.saturating_sub(it.weight);
            is_chosen
        });
        let pieces = chosen.map(|it| it.pieces.as_slice()).unwrap_or_default();
        let nodes = pieces.iter().map(|piece| match piece {
            Piece::Text(it) => text(it.clone()),
            Piece::One(rule) => self.expand(random, *rule, depth + 1),
            Piece::Optional(before, rule) if random.percent(50) => {
                optional(parts([text(*before), self.expand(random, *rule, depth + 1)]))
            }
            Piece::Optional(..) => text(""),
            Piece::List { rule, between, from, to } => {
                let count = random.between(*from, *to);
                let items = (0..count).map(|_| self.expand(random, *rule, depth + 1)).collect();
                Node::List { head: "", items, between, tail: "", least: *from }
            }
        });
        let node = Box::new(parts(nodes.collect::<Vec<_>>()));
        Node::Rule { rule, plain: plain.clone(), node }
    }
}

/// Adds a line of a file to the rules.
fn add_line(rules: &mut Rules, line: &str) -> Result<(), &'static str> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if !line.starts_with(' ') {
        let name = line.strip_suffix(" =").ok_or("is no rule: a name and ` =`")?;
        if rules.iter().any(|(other, _)| other == name) {
            return Err("is there twice");
        }
        rules.push((name.to_owned(), Vec::new()));
        return Ok(());
    }
    let (_, alternatives) = rules.last_mut().ok_or("has no rule before it")?;
    let text = line.strip_prefix("    ").ok_or("is indented by less than four blanks")?;
    if text.starts_with(' ') {
        let (_, last) = alternatives.last_mut().ok_or("continues nothing")?;
        last.push(' ');
        last.push_str(text.trim());
        return Ok(());
    }
    let weighed = text.split_once("x ").and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
    let (weight, text) = weighed.unwrap_or((1, text));
    alternatives.push((weight, text.to_owned()));
    Ok(())
}

fn place(places: &BTreeMap<String, usize>, name: &str) -> Result<usize> {
    let place = places.get(name).copied();
    place.ok_or_else(|| CheckError::Input(format!("grammar: there is no rule {name}")))
}

/// Splits an alternative into texts and references to rules.
fn pieces(places: &BTreeMap<String, usize>, text: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let (mut before, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('<') {
        before.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some((name, kind, behind)) = reference(rest) else {
            before.push('<');
            rest = &rest[1..];
            continue;
        };
        rest = behind;
        if name == NOTHING {
            continue;
        }
        let blank = match kind {
            Kind::Optional if before.ends_with(' ') => {
                before.pop();
                " "
            }
            _ => "",
        };
        pieces.push(Piece::Text(std::mem::take(&mut before)));
        let rule = place(places, name)?;
        pieces.push(match kind {
            Kind::One => Piece::One(rule),
            Kind::Optional => Piece::Optional(blank, rule),
            Kind::List { between, from, to } => Piece::List { rule, between, from, to },
        });
    }
    before.push_str(rest);
    pieces.push(Piece::Text(before));
    Ok(pieces)
}

enum Kind {
    One,
    Optional,
    List { between: &'static str, from: usize, to: usize },
}

/// Reads `<name>`, `<name?>`, `<name,1-3>` or `<name;1-3>` at the start of a text; returns the text
/// behind it too.
fn reference(text: &str) -> Option<(&str, Kind, &str)> {
    let inner = text.strip_prefix('<')?;
    let length = inner.find(|it: char| !it.is_ascii_lowercase() && it != '_')?;
    let (name, inner) = inner.split_at(length);
    if name.is_empty() {
        return None;
    }
    if let Some(behind) = inner.strip_prefix('>') {
        return Some((name, Kind::One, behind));
    }
    if let Some(behind) = inner.strip_prefix("?>") {
        return Some((name, Kind::Optional, behind));
    }
    let between = match inner.chars().next()? {
        ',' => ", ",
        ';' => END,
        _ => return None,
    };
    let (range, behind) = inner.get(1..)?.split_once('>')?;
    let (from, to) = range.split_once('-')?;
    Some((name, Kind::List { between, from: from.parse().ok()?, to: to.parse().ok()? }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_follow_from_their_numbers() {
        let grammar = Grammar::read().expect("the grammar");
        let texts = || (0..300).map(|at| grammar.script(1, at).statements()).collect::<Vec<_>>();
        assert_eq!(texts(), texts());
        let all = texts().concat().join("\n");
        for word in ["MERGE", "ROLLUP", "EXCLUDE", "PIVOT", "FETCH", "ALTER TABLE", "LATERAL"] {
            assert!(all.contains(word), "no {word}");
        }
        assert!(!all.contains(END) && !all.contains("<value>"), "{all}");
    }

    #[test]
    fn references_are_read() {
        let rules = "b =\n    x\nc =\n    2x <b>\n";
        let text =
            "script =\n    @p a <b> < <c?> <c,2-2>\n      <nothing><> 1\n".to_owned() + rules;
        let grammar = Grammar::parsed(&[("test", text.as_str())]).expect("a grammar");
        let script = grammar.script(1, 1);
        let statements = script.statements().concat();
        assert!(statements.starts_with("a x <") && statements.ends_with("<> 1"), "{statements}");
        assert_eq!(script.judges(), Judges { postgres: true, duck: false });
        assert_eq!(grammar.plain(0, 0).expect("plain"), "@p a x < x <> 1");
    }

    #[test]
    fn a_smaller_script_has_a_part_less() {
        let text = "script =\n    @p <s;1-3>\ns =\n    one\n    two <s>\n";
        let grammar = Grammar::parsed(&[("test", text)]).expect("a grammar");
        let mut script = grammar.script(3, 2);
        while let Some(node) = script.node.smaller().pop() {
            script = Script { node };
        }
        assert_eq!(script.statements(), ["one"]);
    }

    #[test]
    fn unknown_rules_are_refused() {
        assert!(Grammar::parsed(&[("test", "script =\n    <missing>\n")]).is_err());
        assert!(Grammar::parsed(&[("test", "script =\n    <script>\n")]).is_err());
        assert!(Grammar::parsed(&[("test", "script\n")]).is_err());
    }
}
