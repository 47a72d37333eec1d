//! Parser of paths.

use datafusion::common::{Result, plan_datafusion_err};
use regex::{Regex, RegexBuilder};

use super::syntax::{Comparison, Condition, Expr, JsonPath, Method, Operator, Step};
use super::token::{Malformed, Token, tokens};

/// Maximum number of brackets and signs within each other, for which the parser recurses.
const DEPTH_MAX: usize = 64;
/// Bytes of one compiled regular expression and of its cache.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Characters of a path in an error message.
const EXCERPT_MAX: usize = 60;

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// Syntax errors, at their places.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let error = |malformed: Malformed| {
            let at = text.get(malformed.at..).unwrap_or_default();
            let excerpt = |text: &str| text.chars().take(EXCERPT_MAX).collect::<String>();
            plan_datafusion_err!(
                "invalid JSON path {:?} at {:?}: {}",
                excerpt(text),
                excerpt(at),
                malformed.reason
            )
        };
        let tokens = tokens(text).map_err(error)?;
        let mut parser =
            Parser { tokens: &tokens, next: 0, depth: 0, in_filters: 0, in_subscripts: 0 };
        parser.path().map_err(error)
    }
}

type Parsed<T> = std::result::Result<T, Malformed>;

/// An expression, or a condition.
enum Either {
    Value(Expr),
    Truth(Condition),
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    next: usize,
    depth: usize,
    /// Number of filters that enclose the next token; `@` is only valid in a filter.
    in_filters: usize,
    /// Number of subscripts that enclose the next token; `last` is only valid in a subscript.
    in_subscripts: usize,
}

impl Parser<'_> {
    fn path(&mut self) -> Parsed<JsonPath> {
        let is_strict = self.take_word("strict");
        if !is_strict {
            self.take_word("lax");
        }
        let root = self.either()?.value();
        match self.peek() {
            Token::End => Ok(JsonPath { is_lax: !is_strict, root }),
            _ => self.expected("an operator, an accessor or the end is expected"),
        }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn expected<T>(&self, reason: &str) -> Parsed<T> {
        let at = self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(at, _)| *at);
        Err(Malformed { at, reason: reason.to_owned() })
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Sign(next) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Word(next) if next.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    fn require(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { self.expected(&format!("{sign:?} is expected")) }
    }

    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => self.expected(&format!("a path has at most {DEPTH_MAX} levels of brackets")),
            false => Ok(()),
        }
    }

    /// Parses an expression or a condition.
    fn either(&mut self) -> Parsed<Either> {
        self.joined(Self::conjunction, "||", Condition::Any)
    }

    fn conjunction(&mut self) -> Parsed<Either> {
        self.joined(Self::comparison, "&&", Condition::All)
    }

    /// Parses an operand, or several conditions with `&&` or `||` between them.
    fn joined(
        &mut self,
        operand: fn(&mut Self) -> Parsed<Either>,
        sign: &str,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Parsed<Either> {
        let first = operand(self)?;
        if !matches!(self.peek(), Token::Sign(next) if *next == sign) {
            return Ok(first);
        }
        let mut all = vec![self.truth(first)?];
        while self.take(sign) {
            let next = operand(self)?;
            all.push(self.truth(next)?);
        }
        Ok(Either::Truth(join(all)))
    }

    fn truth(&self, either: Either) -> Parsed<Condition> {
        match either {
            Either::Truth(condition) => Ok(condition),
            Either::Value(_) => self.expected("a condition is expected before this"),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        match self.sum()? {
            Either::Value(expr) => Ok(expr),
            Either::Truth(_) => self.expected("a value is expected before this, not a condition"),
        }
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let either = self.either()?;
        self.truth(either)
    }

    fn comparison(&mut self) -> Parsed<Either> {
        if self.take("!") {
            return self.negation().map(Either::Truth);
        }
        let left = match self.sum()? {
            Either::Value(left) => left,
            truth @ Either::Truth(_) => return Ok(truth),
        };
        let comparison = match self.peek() {
            Token::Sign("==") => Comparison::Equal,
            Token::Sign("!=" | "<>") => Comparison::NotEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessOrEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterOrEqual,
            _ => return self.match_of(left),
        };
        self.next += 1;
        let right = self.expr()?;
        Ok(Either::Truth(Condition::Compare { comparison, left, right }))
    }

    /// Parses the condition behind `!`, which is in parentheses.
    fn negation(&mut self) -> Parsed<Condition> {
        let condition = if self.take("(") {
            self.enter()?;
            let condition = self.condition()?;
            self.require(")")?;
            self.depth -= 1;
            condition
        } else if self.take_word("exists") {
            self.exists()?
        } else {
            return self.expected("a condition in parentheses is expected behind !");
        };
        Ok(Condition::Not(Box::new(condition)))
    }

    fn exists(&mut self) -> Parsed<Condition> {
        self.require("(")?;
        self.enter()?;
        let expr = self.expr()?;
        self.require(")")?;
        self.depth -= 1;
        Ok(Condition::Exists(expr))
    }

    /// Parses `starts with` or `like_regex` behind a value, if it is there.
    fn match_of(&mut self, text: Expr) -> Parsed<Either> {
        if self.take_word("starts") {
            if !self.take_word("with") {
                return self.expected("with is expected behind starts");
            }
            let prefix = match self.peek().clone() {
                Token::Text(prefix) => Expr::Text(prefix),
                Token::Variable(name) => Expr::Variable(name),
                _ => return self.expected("a text or a variable is expected"),
            };
            self.next += 1;
            return Ok(Either::Truth(Condition::StartsWith { text, prefix }));
        }
        if !self.take_word("like_regex") {
            return Ok(Either::Value(text));
        }
        let pattern = self.literal()?;
        let flags = if self.take_word("flag") { self.literal()? } else { String::new() };
        match regex(&pattern, &flags) {
            Ok(regex) => Ok(Either::Truth(Condition::Matches { text, regex })),
            Err(reason) => self.expected(&reason),
        }
    }

    fn literal(&mut self) -> Parsed<String> {
        let Token::Text(text) = self.peek().clone() else {
            return self.expected("a text in double quotes is expected");
        };
        self.next += 1;
        Ok(text)
    }

    fn sum(&mut self) -> Parsed<Either> {
        self.chain(Self::product, |token| match token {
            Token::Sign("+") => Some(Operator::Add),
            Token::Sign("-") => Some(Operator::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Parsed<Either> {
        self.chain(Self::signed, |token| match token {
            Token::Sign("*") => Some(Operator::Multiply),
            Token::Sign("/") => Some(Operator::Divide),
            Token::Sign("%") => Some(Operator::Remainder),
            _ => None,
        })
    }

    /// Parses operands with operators between them.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Parsed<Either>,
        operator: fn(&Token) -> Option<Operator>,
    ) -> Parsed<Either> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(next) = operator(self.peek()) {
            if matches!(first, Either::Truth(_)) {
                return self.expected("a value is expected before this, not a condition");
            }
            self.next += 1;
            let Either::Value(right) = operand(self)? else {
                return self.expected("a value is expected before this, not a condition");
            };
            rest.push((next, right));
        }
        Ok(match first {
            Either::Value(first) if !rest.is_empty() => {
                Either::Value(Expr::Arithmetic { first: Box::new(first), rest })
            }
            first => first,
        })
    }

    fn signed(&mut self) -> Parsed<Either> {
        let negates = match self.peek() {
            Token::Sign("-") => true,
            Token::Sign("+") => false,
            _ => return self.accessed(),
        };
        self.next += 1;
        self.enter()?;
        let operand = self.signed()?;
        self.depth -= 1;
        let Either::Value(operand) = operand else {
            return self.expected("a value is expected before this, not a condition");
        };
        Ok(Either::Value(Expr::Sign { negates, operand: Box::new(operand) }))
    }

    /// Parses a value and its accessors.
    fn accessed(&mut self) -> Parsed<Either> {
        let first = match self.primary()? {
            Either::Truth(condition @ Condition::Exists(_)) => {
                return Ok(Either::Truth(condition));
            }
            other => other,
        };
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        Ok(match (first, steps.is_empty()) {
            (first, true) => first,
            (first, false) => Either::Value(Expr::Steps(Box::new(first.value()), steps)),
        })
    }

    fn primary(&mut self) -> Parsed<Either> {
        let token = self.peek().clone();
        let is_word = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
        let value = match token {
            Token::Sign("$") => Expr::Root,
            Token::Sign("@") if self.in_filters > 0 => Expr::Current,
            Token::Sign("@") => {
                return self.expected("@ is the value in a filter, as in ? (@ > 1)");
            }
            Token::Number(number) => Expr::Word(number),
            Token::Text(text) => Expr::Text(text),
            Token::Variable(name) => Expr::Variable(name),
            Token::Word(word) if ["true", "false", "null"].contains(&word.as_str()) => {
                Expr::Word(word)
            }
            Token::Word(word) if is_word(&word, "last") && self.in_subscripts > 0 => Expr::Last,
            Token::Word(word) if is_word(&word, "last") => {
                return self.expected("last is a position, as in [last]");
            }
            Token::Word(word) if is_word(&word, "exists") => {
                self.next += 1;
                return self.exists().map(Either::Truth);
            }
            Token::Sign("(") => return self.parenthesized(),
            _ => {
                return self.expected(
                    "a value is expected: $, @, a variable, a number, a text in double quotes, \
                     true, false or null",
                );
            }
        };
        self.next += 1;
        Ok(Either::Value(value))
    }

    fn parenthesized(&mut self) -> Parsed<Either> {
        self.next += 1;
        self.enter()?;
        let inner = self.either()?;
        self.require(")")?;
        self.depth -= 1;
        let Either::Truth(condition) = inner else { return Ok(inner) };
        if !self.take_word("is") {
            return Ok(Either::Truth(match condition {
                // Accessors can follow the parentheses.
                exists @ Condition::Exists(_) => Condition::All(vec![exists]),
                other => other,
            }));
        }
        match self.take_word("unknown") {
            true => Ok(Either::Truth(Condition::IsUnknown(Box::new(condition)))),
            false => self.expected("unknown is expected behind is"),
        }
    }

    /// Parses an accessor, if one is next.
    fn step(&mut self) -> Parsed<Option<Step>> {
        let step = if self.take(".") {
            self.member()?
        } else if self.take("[") {
            self.subscripts()?
        } else if self.take("?") {
            self.require("(")?;
            self.enter()?;
            self.in_filters += 1;
            let condition = self.condition()?;
            self.in_filters -= 1;
            self.require(")")?;
            self.depth -= 1;
            Step::Filter(condition)
        } else {
            return Ok(None);
        };
        Ok(Some(step))
    }

    /// Parses what follows a period.
    fn member(&mut self) -> Parsed<Step> {
        if self.take("*") {
            return Ok(Step::Members);
        }
        if self.take("**") {
            return self.descendants();
        }
        let (name, is_word) = match self.peek().clone() {
            Token::Word(name) => (name, true),
            Token::Text(name) => (name, false),
            _ => return self.expected("the name of a member, * or ** is expected"),
        };
        self.next += 1;
        let is_call = is_word && matches!(self.peek(), Token::Sign("("));
        if !is_call {
            return Ok(Step::Member(name));
        }
        if name.eq_ignore_ascii_case("datetime") {
            return self.expected(
                ".datetime() is not supported: compare texts, or cast the values that a path \
                 without it finds",
            );
        }
        let Some(method) = Method::of(&name) else {
            return self.expected(
                "no method has this name; type, size, double, ceiling, floor, abs and keyvalue are \
                 methods",
            );
        };
        self.next += 1;
        self.require(")")?;
        Ok(Step::Method(method))
    }

    fn descendants(&mut self) -> Parsed<Step> {
        if !self.take("{") {
            return Ok(Step::Descendants { first: 0, last: u32::MAX });
        }
        let first = self.level()?;
        let last = if self.take_word("to") { self.level()? } else { first };
        self.require("}")?;
        Ok(Step::Descendants { first, last })
    }

    fn level(&mut self) -> Parsed<u32> {
        if self.take_word("last") {
            return Ok(u32::MAX);
        }
        let level = match self.peek() {
            Token::Number(number) => number.parse().ok(),
            _ => None,
        };
        match level {
            Some(level) => {
                self.next += 1;
                Ok(level)
            }
            None => self.expected("a number of levels or last is expected"),
        }
    }

    fn subscripts(&mut self) -> Parsed<Step> {
        if self.take("*") {
            self.require("]")?;
            return Ok(Step::Elements);
        }
        self.enter()?;
        self.in_subscripts += 1;
        let mut all = Vec::new();
        loop {
            let from = self.expr()?;
            let to = if self.take_word("to") { Some(self.expr()?) } else { None };
            all.push((from, to));
            if !self.take(",") {
                break;
            }
        }
        self.in_subscripts -= 1;
        self.depth -= 1;
        self.require("]")?;
        Ok(Step::Subscripts(all))
    }
}

impl Either {
    fn value(self) -> Expr {
        match self {
            Self::Value(expr) => expr,
            Self::Truth(condition) => Expr::Truth(Box::new(condition)),
        }
    }
}

/// Compiles a regular expression with the flags `i`, `s`, `m` and `q`.
fn regex(pattern: &str, flags: &str) -> std::result::Result<Regex, String> {
    if let Some(unknown) = flags.chars().find(|flag| !"ismq".contains(*flag)) {
        return Err(format!("the flag {unknown:?} is not supported; i, s, m and q are"));
    }
    let pattern = match flags.contains('q') {
        true => regex::escape(pattern),
        false => pattern.to_owned(),
    };
    let compiled = RegexBuilder::new(&pattern)
        .case_insensitive(flags.contains('i'))
        .dot_matches_new_line(flags.contains('s'))
        .multi_line(flags.contains('m'))
        .size_limit(PROGRAM_BYTES_MAX)
        .dfa_size_limit(PROGRAM_BYTES_MAX)
        .build();
    compiled.map_err(|error| format!("{pattern:?} is no regular expression: {error}"))
}
