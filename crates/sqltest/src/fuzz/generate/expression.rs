//! Scalar expressions, by kind.

use super::super::dialect::Dialect;
use super::super::node::{Node, call, commas, expression, parts, text};
use super::super::types::{ColumnType, Kind};
use super::{DEPTH_MAX, Generator};

impl Generator<'_> {
    /// Returns an expression of a kind; `level` is its depth in other expressions, `depth` that of
    /// its query in other queries.
    pub(super) fn scalar(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        if level >= 3 || self.random.percent(55) {
            return match self.column_of(kind) {
                Some(column) if self.random.percent(88) => column,
                _ => self.constant(kind),
            };
        }
        match self.random.below(12) {
            0 | 1 => self.case_when(kind, level, depth),
            2 => self.function_of_same(kind, level, depth),
            3 if depth + 1 < DEPTH_MAX => self.scalar_subquery(kind, depth),
            _ => self.of_kind(kind, level, depth),
        }
    }

    /// Returns a column in scope; `None` if none has this kind.
    pub(super) fn column_of(&mut self, kind: Kind) -> Option<Node> {
        let scope = self.scopes.last()?;
        let names: Vec<_> = scope.iter().filter(|name| name.kind == kind).collect();
        if names.is_empty() {
            return None;
        }
        let place = self.random.below(names.len());
        Some(expression(kind, text(names[place].text.clone())))
    }

    /// Returns a column of an enclosing query; `None` if none has this kind.
    pub(super) fn outer_column(&mut self, kind: Kind) -> Option<Node> {
        let (_, outer) = self.scopes.split_last()?;
        let names: Vec<_> = outer.iter().flatten().filter(|name| name.kind == kind).collect();
        if names.is_empty() {
            return None;
        }
        let place = self.random.below(names.len());
        Some(expression(kind, text(names[place].text.clone())))
    }

    /// Returns a constant; null in 8 of 100 cases.
    pub(super) fn constant(&mut self, kind: Kind) -> Node {
        let column = self.type_of(kind);
        if self.random.percent(8) {
            let name = |dialect| format!("CAST(NULL AS {})", column.name(dialect));
            return expression(kind, Node::Each(name(Dialect::Terrace), name(Dialect::Duck)));
        }
        let value = column.value(self.random);
        let literal = |dialect| value.literal(column, dialect);
        let (terrace, duck) = (literal(Dialect::Terrace), literal(Dialect::Duck));
        let node = if terrace == duck { text(terrace) } else { Node::Each(terrace, duck) };
        expression(kind, node)
    }

    fn type_of(&mut self, kind: Kind) -> ColumnType {
        match kind {
            Kind::Decimal => {
                let (precision, scale) = *self.random.one(&[(9, 2), (15, 0), (18, 6)]);
                ColumnType::Decimal { precision, scale }
            }
            kind => kind.wide(),
        }
    }

    fn case_when(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        let mut nodes = vec![text("CASE")];
        for _ in 0..self.random.between(1, 2) {
            nodes.push(text(" WHEN "));
            nodes.push(self.predicate(DEPTH_MAX.max(depth), level + 2));
            nodes.push(text(" THEN "));
            nodes.push(self.scalar(kind, level + 1, depth));
        }
        if self.random.percent(75) {
            nodes.push(text(" ELSE "));
            nodes.push(self.scalar(kind, level + 1, depth));
        }
        nodes.push(text(" END"));
        expression(kind, parts(nodes))
    }

    /// Returns a function whose arguments and result have one kind.
    fn function_of_same(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        let name = *self.random.one(&["coalesce", "coalesce", "nullif", "greatest", "least"]);
        // The databases derive different common types of a decimal and a float of two widths.
        let arguments =
            vec![self.widened(kind, level + 1, depth), self.widened(kind, level + 1, depth)];
        expression(kind, call(name, arguments))
    }

    /// Returns an expression; a number is cast to the widest type of its kind.
    fn widened(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        let inner = self.scalar(kind, level, depth);
        match kind {
            Kind::Int | Kind::Float | Kind::Decimal => cast(kind, inner),
            _ => inner,
        }
    }

    fn of_kind(&mut self, kind: Kind, level: usize, depth: usize) -> Node {
        match kind {
            Kind::Bool => self.predicate(depth.max(1), level + 1),
            Kind::Int => self.int(level, depth),
            Kind::Float => self.float(level, depth),
            Kind::Decimal => self.decimal(level, depth),
            Kind::Text => self.words(level, depth),
            Kind::Date => self.case_when(kind, level, depth),
            Kind::Timestamp => self.moment(level, depth),
            Kind::TimestampTz => self.case_when(kind, level, depth),
        }
    }

    fn int(&mut self, level: usize, depth: usize) -> Node {
        let left = cast(Kind::Int, self.scalar(Kind::Int, level + 1, depth));
        if self.macros && self.random.percent(25) {
            return expression(Kind::Int, call("macro_int", vec![left]));
        }
        let node = match self.random.below(8) {
            0..=2 => {
                let right = cast(Kind::Int, self.scalar(Kind::Int, level + 1, depth));
                let operator = *self.random.one(&[" + ", " - "]);
                parts([text("("), left, text(operator), right, text(")")])
            }
            3 => {
                let factor = self.random.number(-3, 7);
                parts([text("("), left, text(format!(" * {factor})"))])
            }
            4 => {
                let divisor = *self.random.one(&[-3, 2, 3, 7]);
                let divide = Node::Each(" / ".to_owned(), " // ".to_owned());
                let divisor = text(format!("CAST({divisor} AS BIGINT))"));
                parts([text("("), left, divide, divisor])
            }
            5 => {
                let divisor = *self.random.one(&[2, 3, 5, 10]);
                parts([text("("), left, text(format!(" % {divisor})"))])
            }
            6 => {
                let inner = self.scalar(Kind::Text, level + 1, depth);
                let name = Node::Each("character_length(".to_owned(), "length(".to_owned());
                cast(Kind::Int, parts([name, inner, text(")")]))
            }
            _ => {
                let part = *self.random.one(&["YEAR", "MONTH", "DAY"]);
                let inner = self.scalar(Kind::Date, level + 1, depth);
                let node = parts([text(format!("EXTRACT({part} FROM ")), inner, text(")")]);
                cast(Kind::Int, node)
            }
        };
        expression(Kind::Int, node)
    }

    fn float(&mut self, level: usize, depth: usize) -> Node {
        let left = cast(Kind::Float, self.scalar(Kind::Float, level + 1, depth));
        let node = match self.random.below(4) {
            0 | 1 => {
                let right = cast(Kind::Float, self.scalar(Kind::Float, level + 1, depth));
                let operator = *self.random.one(&[" + ", " - "]);
                parts([text("("), left, text(operator), right, text(")")])
            }
            2 => cast(Kind::Float, self.scalar(Kind::Int, level + 1, depth)),
            _ => call("abs", vec![left]),
        };
        expression(Kind::Float, node)
    }

    fn decimal(&mut self, level: usize, depth: usize) -> Node {
        let narrow = |node| parts([text("CAST("), node, text(" AS DECIMAL(15,3))")]);
        let left = narrow(self.scalar(Kind::Decimal, level + 2, depth));
        let right = match self.random.below(3) {
            0 => self.scalar(Kind::Int, level + 2, depth),
            _ => self.scalar(Kind::Decimal, level + 2, depth),
        };
        let operator = *self.random.one(&[" + ", " - ", " * "]);
        let node = parts([text("("), left, text(operator), narrow(right), text(")")]);
        // The databases give a product different precisions; any of them fits this type.
        expression(Kind::Decimal, parts([text("CAST("), node, text(" AS DECIMAL(34,6))")]))
    }

    /// Returns a quotient of a decimal, at times as an alternative of a value. The divisor is a
    /// power of two: a decimal of 15 digits and the float that DuckDB divides compare alike.
    pub(super) fn quotient(&mut self, level: usize, depth: usize) -> Node {
        let narrow = |node| parts([text("CAST("), node, text(" AS DECIMAL(15,3))")]);
        let dividend = narrow(self.scalar(Kind::Decimal, level + 2, depth));
        let divisor = *self.random.one(&["2", "4", "8", "CAST(4 AS DECIMAL(5,1))", "0.5"]);
        let quotient = parts([text("("), dividend, text(format!(" / {divisor})"))]);
        let other = narrow(self.constant(Kind::Decimal));
        match self.random.below(4) {
            0 => {
                let condition = self.predicate(DEPTH_MAX.max(depth), level + 2);
                let (when, then) = (text("(CASE WHEN "), text(" THEN "));
                parts([when, condition, then, quotient, text(" ELSE "), other, text(" END)")])
            }
            1 => call("coalesce", vec![quotient, other]),
            2 => call("greatest", vec![other, quotient]),
            _ => quotient,
        }
    }

    fn words(&mut self, level: usize, depth: usize) -> Node {
        let left = self.scalar(Kind::Text, level + 1, depth);
        if self.macros && self.random.percent(25) {
            return expression(Kind::Text, call("macro_text", vec![left]));
        }
        let node = match self.random.below(8) {
            0 => {
                let right = self.scalar(Kind::Text, level + 1, depth);
                parts([text("("), left, text(" || "), right, text(")")])
            }
            6 => self.slice(left, level, depth),
            7 => parts([text("json_extract_string(json_object('k', "), left, text("), '$.k')")]),
            1 => call("upper", vec![left]),
            2 => call("lower", vec![left]),
            3 => {
                let (from, length) = (self.random.between(1, 4), self.random.between(0, 5));
                call("substr", vec![left, text(from.to_string()), text(length.to_string())])
            }
            4 => call("replace", vec![left, text("'a'"), text("'xyz'")]),
            _ => {
                let number = cast(Kind::Int, self.scalar(Kind::Int, level + 1, depth));
                parts([text("CAST("), number, text(" AS VARCHAR)")])
            }
        };
        expression(Kind::Text, node)
    }

    /// Returns a slice of a list of texts, joined, or one of its elements.
    fn slice(&mut self, first: Node, level: usize, depth: usize) -> Node {
        let second = self.scalar(Kind::Text, level + 1, depth);
        let [low, high] = [(); 2].map(|()| self.random.number(-3, 4));
        let (head, tail) = match self.random.below(5) {
            0 => ("[", format!("][{low}]")),
            1 => ("array_to_string([", format!("][{low}:], '|')")),
            2 => ("array_to_string([", format!("][:{high}], '|')")),
            3 => ("array_to_string([", format!("][{low}:{high}], '|')")),
            _ => ("array_to_string([", "][1:4:2], '|')".to_owned()),
        };
        // A joined list leaves nulls out; an element may be one.
        let elements = [first, text("'m'"), second, text("'z'")];
        let elements = elements.map(|it| parts([text("coalesce("), it, text(", '?')")]));
        parts([text(head), commas(elements.to_vec()), text(tail)])
    }

    fn moment(&mut self, level: usize, depth: usize) -> Node {
        let days = self.scalar(Kind::Date, level + 1, depth);
        let moment = parts([text("CAST("), days, text(" AS TIMESTAMP)")]);
        let node = match self.random.below(3) {
            0 => moment,
            1 => {
                let inner = self.scalar(Kind::Timestamp, level + 1, depth);
                let spans = ["1 month", "1 day 2 hours", "1 year 3 months", "36 hours", "-5 days"];
                let operator = *self.random.one(&[" + ", " - "]);
                let span = text(format!("{operator}INTERVAL '{}')", self.random.one(&spans)));
                parts([text("("), inner, span])
            }
            _ => {
                let unit = *self.random.one(&["'year'", "'month'", "'day'", "'hour'"]);
                let inner = match self.random.percent(50) {
                    true => self.scalar(Kind::Timestamp, level + 1, depth),
                    false => moment,
                };
                call("date_trunc", vec![text(unit), inner])
            }
        };
        expression(Kind::Timestamp, node)
    }
}

/// Casts an expression to the widest type of a kind.
pub(super) fn cast(kind: Kind, node: Node) -> Node {
    let column = kind.wide();
    let name = column.name(Dialect::Duck);
    parts([text("CAST("), node, text(format!(" AS {name})"))])
}
