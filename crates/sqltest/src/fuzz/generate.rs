//! Generator of random statements over tables.
//!
//! Statements avoid differences between DuckDB and PostgreSQL, which Terrace follows:
//!
//! | difference | what is generated |
//! |---|---|
//! | `/` of integers is a float in DuckDB | `//` for DuckDB, `/` for Terrace |
//! | a division by zero | a divisor that is a constant other than zero |
//! | the width at which arithmetic overflows | operands cast to BIGINT, small factors |
//! | a sum of BIGINT is as wide as it has to be in DuckDB | values that keep sums in 64 bits |
//! | the order of nulls | NULLS FIRST or LAST in every order |
//! | the order of rows that tie | orders by all columns where the order shows |
//! | the order of additions of floats | multiples of a quarter, whose sums are exact |
//! | a cast of a float or a decimal to an integer rounds or truncates | none |
//! | a cast of a float to text | none |
//! | precision and scale of a quotient of decimals | comparisons of it; powers of two divide |
//! | precision and scale of an average of decimals | averages of doubles |
//! | `date_trunc` of a DATE is a DATE or a TIMESTAMP | a cast to TIMESTAMP before |
//! | names of functions: `first(x ORDER BY y)`, `bool_and` | each database's own |
//! | nulls of rows are equal in DuckDB | `a = c AND b = d` for DuckDB |
//! | `SIMILAR TO` takes a regular expression in DuckDB | `regexp_full_match` for DuckDB |
//! | a name of a semi join: `SEMI JOIN`, `LEFT SEMI JOIN` | each database's own |
//! | `t.k` after `FULL` or `RIGHT JOIN ... USING (k)` | `k` alone |
//! | a scalar subquery of two rows | aggregates, or a limit of one row |
//! | text compared with numbers | none |
//! | the rows of one key in an ASOF JOIN | one row for each key |
//! | the order of rows in a POSITIONAL JOIN | orders by all columns |
//! | `FETCH FIRST n ROWS WITH TIES` | `QUALIFY rank() OVER (...) <= n` for DuckDB |
//! | a name that two columns of a subquery have | names of their own, but for the outermost query |
//! | the order of DISTINCT ON in `x IN (SELECT ...)`, which DuckDB 2.0.0 drops | `OFFSET 0` there |
//! | rows of a MERGE that change one row | one row for each key |
//! | generated columns are virtual in DuckDB | each database's own syntax |

mod aggregate;
mod change;
mod copy;
mod expression;
mod from;
mod one_value;
mod predicate;
mod relation;
mod select;
mod window;

use super::node::{Node, text};
use super::random::Random;
use super::schema::Table;
use super::types::{ColumnType, Kind};

/// Depth to which queries and expressions are nested.
const DEPTH_MAX: usize = 3;

/// Statements that change a table of the case, if any, and a last one whose rows are compared.
#[derive(Clone, Debug)]
pub struct Case {
    /// The statements.
    pub statements: Vec<Node>,
}

/// Name of the table that the statements of a case change.
pub const CHANGED: &str = "c";

/// The statements that create the macros; a later case replaces those of an earlier one.
const MACROS: [&str; 2] = [
    "CREATE OR REPLACE MACRO macro_int(x, y := 3) AS CASE WHEN x > 5 THEN y ELSE x + y END",
    "CREATE OR REPLACE MACRO macro_text(x, y := '!') AS coalesce(upper(x), '?') || y",
];

/// A column that an expression may name.
#[derive(Clone, Debug)]
struct Name {
    /// The name as written: `t1.id`.
    text: String,
    /// The part after the point.
    column: String,
    kind: Kind,
    /// The column's type; `None` unless it is a column of a table.
    exact: Option<ColumnType>,
}

/// A generated query and the columns of its result.
struct Made {
    node: Node,
    columns: Vec<(String, Kind)>,
}

/// Generator of the statements of a case.
pub struct Generator<'a> {
    random: &'a mut Random,
    tables: &'a [Table],
    /// Common table expressions in scope, with their columns.
    common: Vec<(String, Vec<(String, Kind)>)>,
    /// Columns in scope, one list for each enclosing query, innermost last.
    scopes: Vec<Vec<Name>>,
    aliases: usize,
    /// True if expressions may call the macros of the case.
    macros: bool,
}

impl<'a> Generator<'a> {
    /// Creates a generator of statements over tables.
    pub fn new(random: &'a mut Random, tables: &'a [Table]) -> Self {
        Self { random, tables, common: Vec::new(), scopes: Vec::new(), aliases: 0, macros: false }
    }

    /// Returns a random case.
    pub fn case(&mut self) -> Case {
        match self.random.below(100) {
            0..=14 => self.change(),
            15..=17 => self.macro_case(),
            _ => self.query_case(),
        }
    }

    fn query_case(&mut self) -> Case {
        Case { statements: vec![self.statement().node] }
    }

    /// Returns a case whose query calls macros.
    fn macro_case(&mut self) -> Case {
        self.macros = true;
        let mut statements: Vec<_> = MACROS.iter().map(|it| text(*it)).collect();
        statements.push(self.statement().node);
        Case { statements }
    }

    /// Returns a new alias for a table in a query.
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("{}{}", self.random.one(&["a", "b", "q"]), self.aliases)
    }
}
