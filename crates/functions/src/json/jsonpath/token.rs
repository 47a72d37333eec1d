//! Tokenizer of paths.

/// A token of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Sign(&'static str),
    /// A keyword or a name without quotes.
    Word(String),
    Text(String),
    Number(String),
    /// The name behind `$`.
    Variable(String),
    End,
}

/// Operators and punctuation; longer ones precede their prefixes, since the first match is taken.
const SIGNS: [&str; 28] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", ".", "*", "[", "]", "(", ")", "{",
    "}", "?", ",", "+", "-", "/", "%", "!", "<", ">", ":",
];

/// Maximum number of tokens, since the evaluation recurses over accessors and operators.
const TOKENS_MAX: usize = 1_000;

/// A place in a path at which it is malformed, and the reason.
pub(super) struct Malformed {
    pub(super) at: usize,
    pub(super) reason: String,
}

/// The tokens of a path with the bytes at which they begin; the last one is the end.
///
/// # Errors
/// For unknown signs, numbers that letters follow, texts without an end, and too many tokens.
pub(super) fn tokens(path: &str) -> Result<Vec<(usize, Token)>, Malformed> {
    let mut lexer = Lexer { path, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        tokens.push((at, token));
        if tokens.len() > TOKENS_MAX {
            let reason = format!("a path has at most {TOKENS_MAX} names and signs");
            return Err(Malformed { at, reason });
        }
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    path: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.path.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn malformed<T>(&self, reason: &str) -> Result<T, Malformed> {
        Err(Malformed { at: self.at, reason: reason.to_owned() })
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) -> Result<(), Malformed> {
        loop {
            let blanks = self.rest().len() - self.rest().trim_start_matches(is_blank).len();
            self.at += blanks;
            let Some(comment) = self.rest().strip_prefix("/*") else { return Ok(()) };
            match comment.find("*/") {
                Some(end) => self.at += end + 4,
                None => return self.malformed("a comment ends in */"),
            }
        }
    }

    fn token(&mut self) -> Result<Token, Malformed> {
        let rest = self.rest();
        let Some(first) = self.peek() else { return Ok(Token::End) };
        let second = rest.chars().nth(1);
        let is_decimal = first == '.' && second.is_some_and(|next| next.is_ascii_digit());
        if first.is_ascii_digit() || is_decimal {
            return self.number();
        }
        if first == '"' {
            return self.text().map(Token::Text);
        }
        if first == '$' && second == Some('"') {
            self.at += 1;
            return self.text().map(Token::Variable);
        }
        if first == '$' && second.is_some_and(is_of_word) {
            self.at += 1;
            return self.word().map(Token::Variable);
        }
        if is_of_word(first) {
            return self.word().map(Token::Word);
        }
        match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            None => self.malformed("a path has no such sign"),
        }
    }

    /// Reads a number, which no name can follow.
    fn number(&mut self) -> Result<Token, Malformed> {
        let rest = self.rest();
        let digits = |from: usize| {
            let rest = rest.get(from..).unwrap_or_default();
            rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()
        };
        let whole = digits(0);
        let mut end = whole;
        if rest.get(end..).is_some_and(|rest| rest.starts_with('.')) {
            end += 1 + digits(end + 1);
        }
        let mantissa = end;
        if let Some(behind) = rest.get(end..).and_then(|rest| rest.strip_prefix(['e', 'E'])) {
            let sign = usize::from(behind.starts_with(['+', '-']));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return self.malformed("digits follow the exponent's sign");
            }
            end += 1 + sign + exponent;
        }
        let has_zero = whole > 1 && rest.starts_with('0');
        if has_zero || rest.get(end..).is_some_and(|rest| rest.starts_with(is_of_word)) {
            return self.malformed("letters or digits follow a number");
        }
        self.at += end;
        let (mantissa, exponent) = (&rest[..mantissa], &rest[mantissa..end]);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let whole = if whole.is_empty() { "0" } else { whole };
        let point = if fraction.is_empty() { "" } else { "." };
        Ok(Token::Number(format!("{whole}{point}{fraction}{exponent}")))
    }

    /// Reads a text in quotes.
    fn text(&mut self) -> Result<String, Malformed> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return self.malformed("a text ends in a double quote"),
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => text.push(self.escaped()?),
                Some(other) => {
                    self.at += other.len_utf8();
                    text.push(other);
                }
            }
        }
    }

    fn word(&mut self) -> Result<String, Malformed> {
        let mut word = String::new();
        while let Some(next) = self.peek().filter(|next| is_of_word(*next)) {
            match next {
                '\\' => word.push(self.escaped()?),
                other => {
                    self.at += other.len_utf8();
                    word.push(other);
                }
            }
        }
        Ok(word)
    }

    /// Reads the character of a backslash and what follows it.
    fn escaped(&mut self) -> Result<char, Malformed> {
        self.at += 1;
        let Some(kind) = self.peek() else {
            return self.malformed("a character follows a backslash");
        };
        self.at += kind.len_utf8();
        let letter = match kind {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => return self.of_code(2),
            'u' => return self.of_code(4),
            other => other,
        };
        Ok(letter)
    }

    /// Reads a code point of `digits` hexadecimal digits, or of digits within braces.
    fn of_code(&mut self, digits: usize) -> Result<char, Malformed> {
        let first = self.code(digits)?;
        let code = match first {
            0xd800..0xdc00 if self.rest().starts_with("\\u") => {
                self.at += 2;
                match self.code(4)? {
                    low @ 0xdc00..0xe000 => 0x1_0000 + ((first & 0x3ff) << 10) + (low & 0x3ff),
                    _ => first,
                }
            }
            code => code,
        };
        match char::from_u32(code).filter(|letter| *letter != '\0') {
            Some(letter) => Ok(letter),
            None => self.malformed("an escape is no character of Unicode"),
        }
    }

    fn code(&mut self, digits: usize) -> Result<u32, Malformed> {
        let rest = self.rest();
        let (code, length) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((code, _)) if digits == 4 && code.len() <= 6 => (Some(code), code.len() + 2),
            _ => (rest.get(..digits), digits),
        };
        let code = code.filter(|code| code.chars().all(|c| c.is_ascii_hexdigit()));
        match code.and_then(|code| u32::from_str_radix(code, 16).ok()) {
            Some(code) => {
                self.at += length;
                Ok(code)
            }
            None => self.malformed("hexadecimal digits follow \\x and \\u"),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// True for a character of a name without quotes.
fn is_of_word(c: char) -> bool {
    !is_blank(c) && !"?%$.[]{}()|&!=<>@#,*:-+/\"".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        let of = |token: Token| match token {
            Token::Sign(sign) => sign.to_owned(),
            Token::Word(word) => format!("<{word}>"),
            Token::Text(text) => format!("'{text}'"),
            Token::Number(number) => format!("#{number}"),
            Token::Variable(name) => format!("${{{name}}}"),
            Token::End => String::new(),
        };
        match tokens(path) {
            Ok(tokens) => tokens.into_iter().map(|(_, token)| of(token)).collect(),
            Err(Malformed { at, .. }) => format!("error at {at}"),
        }
    }

    #[test]
    fn paths_have_tokens() {
        assert_eq!(shown("strict $.a[*] /* c */ .\"b c\""), "<strict>$.<a>[*].'b c'");
        assert_eq!(shown("$x+$\"y z\">=1.50e+3"), "${x}+${y z}>=#1.50e+3");
        assert_eq!(shown(r#""a\x41\u0042\u{43}\q\ud83d\ude00""#), "'aABCq\u{1f600}'");
        assert_eq!(shown("1. .5 0"), "#1#0.5#0");
        assert_eq!(shown("$.\u{e4}\\u0062"), "$.<\u{e4}b>");
        for (path, at) in [("01", 0), ("1.type()", 0), ("1e", 0), ("\"a", 2), ("/* a", 0)] {
            assert_eq!(shown(path), format!("error at {at}"), "{path}");
        }
        assert_eq!(shown("$.a = 1"), "error at 4");
    }
}
