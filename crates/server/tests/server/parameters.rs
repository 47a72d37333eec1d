//! Parameters whose types the client names, and names of columns, as in PostgreSQL 15.

use bytes::BytesMut;
use std::error::Error;
use terrace_server::Limits;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::common::{connect, with_server};

/// The bytes of a value of any type.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// An array of one dimension with the `numeric` 1.5 and a null.
const NUMERICS: [u8; 40] = [
    0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 6, 164, 0, 0, 0, 2, 0, 0, 0, 1, //
    0, 0, 0, 12, 0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 19, 136, //
    255, 255, 255, 255,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_have_the_types_that_the_client_names() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let sum = "SELECT (sum(x) * 2 = 3)::text FROM unnest($1::numeric[]) x";
        let sum = client.prepare_typed(sum, &[Type::NUMERIC_ARRAY]).await.expect("prepared");
        let row = client.query_one(&sum, &[&Raw(NUMERICS.to_vec())]).await.expect("a row");
        assert_eq!(row.get::<_, &str>(0), "true");
        let ago = "SELECT (now() - $1 < now() - interval '1 hour')::text";
        let ago = client.prepare_typed(ago, &[Type::INTERVAL]).await.expect("prepared");
        let day = Raw([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0].to_vec());
        let row = client.query_one(&ago, &[&day]).await.expect("a row");
        assert_eq!(row.get::<_, &str>(0), "true");
        let joined = client.query_one("SELECT $1 || $2", &[&"a", &"b"]).await.expect("a row");
        assert_eq!(joined.get::<_, &str>(0), "ab");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_written_out_functions_have_their_names() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let query = "SELECT substring('abc' FROM 2 FOR 1), substring('abc' FROM 'b'), \
            position('b' IN 'abc'), jsonb_array_elements('[1]'), date('2024-01-01'), \
            substr('abc', 2), (t).id, date(t.d), timestamp '2024-01-02' - timestamp '2024-01-01' \
            FROM (SELECT 1 AS id, '2024-01-01' AS d) t";
        let statement = client.prepare(query).await.expect("prepared");
        let names: Vec<_> = statement.columns().iter().map(|it| it.name().to_owned()).collect();
        let expected = "substring substring position jsonb_array_elements date substr id date \
            ?column?";
        assert_eq!(names.join(" "), expected);
    })
    .await;
}
