//! Syntax tree of parsed paths.

use std::cmp::Ordering;

use regex::Regex;

/// A path.
#[derive(Clone, Debug)]
pub(super) struct JsonPath {
    /// False for paths that begin with `strict`.
    pub(super) is_lax: bool,
    pub(super) root: Expr,
}

/// An expression of a sequence of values.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    /// `$`.
    Root,
    /// `@`, in a filter.
    Current,
    /// `last`, in a subscript.
    Last,
    /// `$name`.
    Variable(String),
    /// A number, a boolean or null.
    Word(String),
    Text(String),
    /// `-x`, or `+x` if not `negates`.
    Sign {
        negates: bool,
        operand: Box<Self>,
    },
    /// Operators of equal precedence, applied from the left.
    Arithmetic {
        first: Box<Self>,
        rest: Vec<(Operator, Self)>,
    },
    /// The boolean of a condition.
    Truth(Box<Condition>),
    /// The values that accessors find, one after the other.
    Steps(Box<Self>, Vec<Step>),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// The character of the operator.
    pub(super) fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        }
    }
}

/// An accessor.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `.name`.
    Member(String),
    /// `.*`.
    Members,
    /// `[*]`.
    Elements,
    /// `[0, 2 to last]`.
    Subscripts(Vec<(Expr, Option<Expr>)>),
    /// `.**{first to last}`, with the levels below the value; `u32::MAX` is the last one.
    Descendants {
        first: u32,
        last: u32,
    },
    /// `? (...)`.
    Filter(Condition),
    Method(Method),
}

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

impl Method {
    /// The name of the method.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Size => "size",
            Self::Double => "double",
            Self::Ceiling => "ceiling",
            Self::Floor => "floor",
            Self::Abs => "abs",
            Self::KeyValue => "keyvalue",
        }
    }

    /// The method of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        let all = [
            Self::Type,
            Self::Size,
            Self::Double,
            Self::Ceiling,
            Self::Floor,
            Self::Abs,
            Self::KeyValue,
        ];
        all.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }
}

/// A condition, which is true, false or unknown.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// True if all are, joined by `&&`.
    All(Vec<Self>),
    /// True if one is, joined by `||`.
    Any(Vec<Self>),
    Not(Box<Self>),
    IsUnknown(Box<Self>),
    Exists(Expr),
    Compare {
        comparison: Comparison,
        left: Expr,
        right: Expr,
    },
    StartsWith {
        text: Expr,
        prefix: Expr,
    },
    Matches {
        text: Expr,
        regex: Regex,
    },
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// True for values in this order.
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}
