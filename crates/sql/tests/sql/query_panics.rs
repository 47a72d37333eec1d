//! A panicking operator: its query fails, and no other query is affected.

use crate::common::{MIB, engine, error, eventually, show};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_sql::{Engine, Session};

/// A function that panics on the argument 77,777, in whatever thread evaluates it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Explodes {
    signature: Signature,
    when_planned: bool,
}

impl Explodes {
    fn function(when_planned: bool) -> ScalarUDF {
        let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
        ScalarUDF::from(Self { signature, when_planned })
    }
}

impl ScalarUDFImpl for Explodes {
    fn name(&self) -> &str {
        if self.when_planned { "explodes_planned" } else { "explodes" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        assert!(!self.when_planned, "a type on purpose");
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let values = datafusion::arrow::array::AsArray::as_primitive::<
            datafusion::arrow::datatypes::Int64Type,
        >(&values);
        assert!(!values.values().contains(&77_777), "number {} on purpose", 77_777);
        Ok(args.args[0].clone())
    }
}

async fn filled() -> (Engine, Session) {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    session.context().register_udf(Explodes::function(false));
    session.context().register_udf(Explodes::function(true));
    let rows = "SELECT value AS id, value % 100 AS g, 'text of row ' || value AS p \
                FROM generate_series(1, 200000)";
    show(&session, &format!("CREATE TABLE t AS {rows}")).await;
    show(&session, "CREATE TABLE u AS SELECT id, g FROM t WHERE id % 2 = 0").await;
    (engine, session)
}

async fn nothing_is_held(engine: &Engine) {
    let queries = || {
        let consumers = engine.ledger().consumers();
        consumers.into_iter().filter(|it| it.name.starts_with("query")).count()
    };
    eventually("no query is in the ledger", || queries() == 0).await;
    eventually("no scan holds a pin", || engine.pins().pinned_bytes() == 0).await;
    let spaces = || engine.pool().spaces().iter().any(|it| it.name.starts_with("query"));
    eventually("no space is left", || !spaces()).await;
    assert!(engine.queries().running().is_empty());
}

/// Statements that panic in each kind of operator, above and below exchanges.
const STATEMENTS: &[&str] = &[
    "SELECT explodes(id) FROM t",
    "SELECT count(*) FROM t WHERE explodes(id) > 0",
    "SELECT g, sum(explodes(id)) FROM t GROUP BY g",
    "SELECT p, count(*) FROM t WHERE explodes(id) > 0 GROUP BY p",
    "SELECT t.p, u.id FROM t JOIN u ON explodes(t.id) = u.id WHERE u.g < 50",
    "SELECT count(*) FROM t JOIN u ON t.id = u.id AND explodes(t.id + u.id - t.id - 1) > 3",
    "SELECT count(*) FROM u JOIN (SELECT explodes(id) AS id FROM t) t ON t.id = u.id",
    "SELECT p FROM t ORDER BY explodes(id), p",
    "SELECT p, row_number() OVER (PARTITION BY g ORDER BY explodes(id)) FROM t",
    "SELECT id FROM t UNION ALL SELECT explodes(id) FROM t",
    "SELECT * FROM (SELECT DISTINCT explodes(id) AS e FROM t) ORDER BY e LIMIT 3",
    "SELECT count(*) FROM t, (SELECT max(explodes(id)) AS m FROM t) WHERE id < m",
    "CREATE TABLE v AS SELECT explodes(id) AS e FROM t",
    "INSERT INTO u SELECT explodes(id), g FROM t",
    "WITH RECURSIVE r AS (SELECT 77770 AS n UNION ALL SELECT explodes(n + 1) FROM r \
     WHERE n < 77790) SELECT * FROM r",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_its_query_and_nothing_else() {
    let (engine, session) = filled().await;
    let other = engine.session().expect("another session");
    for statement in STATEMENTS {
        let text = error(&session, statement).await;
        let parts = ["panic in ", "number 77777 on purpose", "query_panics.rs", "this is a bug"];
        assert!(parts.iter().all(|part| text.contains(part)), "{statement}\n{text}");
        for session in [&session, &other] {
            let counts = "SELECT count(*), (SELECT count(*) FROM u) AS n FROM t";
            assert_eq!(show(session, counts).await, "200000 100000", "after {statement}");
        }
        nothing_is_held(&engine).await;
    }
    let text = error(&session, "SELECT * FROM v").await;
    assert!(text.contains("not found"), "the table was not made: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_planner_is_an_error_too() {
    let (engine, session) = filled().await;
    let text = error(&session, "SELECT explodes_planned(id) FROM t").await;
    assert!(text.contains("panic in the planner") && text.contains("on purpose"), "{text}");
    assert_eq!(show(&session, "SELECT count(*) FROM t").await, "200000");
    nothing_is_held(&engine).await;
}

/// Runs in a child process to capture the output of a panic.
#[test]
fn a_panic_is_not_printed_beside_its_error() {
    const CHILD: &str = "TERRACE_TEST_PANIC_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("runtime");
        runtime.block_on(async {
            let (_engine, session) = filled().await;
            for statement in STATEMENTS {
                error(&session, statement).await;
            }
        });
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let name = "query_panics::a_panic_is_not_printed_beside_its_error";
    let child = std::process::Command::new(program)
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("runs");
    let printed = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{printed}");
    let ran = String::from_utf8_lossy(&child.stdout);
    assert!(ran.contains("1 passed"), "{ran}");
    assert!(!printed.contains("panicked"), "{printed}");
}
