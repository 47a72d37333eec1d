//! Types of columns on the wire: their OIDs, and their values in the text and the binary format.
//! The bytes are those of PostgreSQL 15.

use std::error::Error;

use bytes::BytesMut;
use terrace_server::Limits;
use tokio_postgres::Client;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::common::{connect, with_server};

const UUID: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
const UUID_BYTES: [u8; 16] = [
    0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11,
];

/// The bytes of a value of any type.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

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

const TABLE: &str = "CREATE TABLE a (u UUID, j JSON, jb JSONB, v VARCHAR(5), c CHAR(5), b BYTEA, \
    t TIME, i INTERVAL, h HUGEINT, us UUID[])";

const TYPES: [Type; 10] = [
    Type::UUID,
    Type::JSON,
    Type::JSONB,
    Type::VARCHAR,
    Type::BPCHAR,
    Type::BYTEA,
    Type::TIME,
    Type::INTERVAL,
    Type::NUMERIC,
    Type::UUID_ARRAY,
];

async fn filled(client: &Client) {
    client.batch_execute(TABLE).await.expect("created");
    let row = format!(
        "INSERT INTO a VALUES (upper('{UUID}'), '[1]', '{{\"a\":1}}', 'ab', 'cd', '\\x00ff', \
         '12:34:56.5', '1 month 2 days 03:04:05', 99999999999999999999999999999999999999, \
         ['{UUID}'])"
    );
    client.batch_execute(&row).await.expect("filled");
}

/// The values of the first row as texts.
async fn texts(client: &Client, query: &str) -> Vec<String> {
    let answer = client.simple_query(query).await.expect("answered");
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.expect("a row");
    (0..row.len()).map(|place| row.get(place).unwrap_or("null").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_have_types_and_texts_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        filled(&client).await;
        let statement = client.prepare("SELECT * FROM a").await.expect("prepared");
        let types: Vec<_> = statement.columns().iter().map(|it| it.type_().clone()).collect();
        assert_eq!(types, TYPES);
        let expected = [
            UUID,
            "[1]",
            "{\"a\": 1}",
            "ab",
            "cd",
            "\\x00ff",
            "12:34:56.5",
            "1 mon 2 days 03:04:05",
            "99999999999999999999999999999999999999",
            &format!("{{{UUID}}}"),
        ];
        assert_eq!(texts(&client, "SELECT * FROM a").await, expected);
        let formats = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) \
            FROM pg_attribute WHERE attrelid = 'a'::regclass";
        let expected = "uuid, json, jsonb, character varying(5), character(5), bytea, \
            time without time zone, interval, numeric(38,0), uuid[]";
        assert_eq!(texts(&client, formats).await, [expected]);
        let columns = "SELECT data_type, udt_name, character_maximum_length \
            FROM information_schema.columns WHERE table_name = 'a' AND column_name = ";
        let of = async |name: &str| texts(&client, &format!("{columns}'{name}'")).await;
        assert_eq!(of("u").await, ["uuid", "uuid", "null"]);
        assert_eq!(of("v").await, ["character varying", "varchar", "5"]);
        assert_eq!(of("jb").await, ["jsonb", "jsonb", "null"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_have_the_bytes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        filled(&client).await;
        let row = client.query_one("SELECT * FROM a", &[]).await.expect("a row");
        let bytes = |place: usize| row.get::<_, Raw>(place).0;
        assert_eq!(bytes(0), UUID_BYTES);
        assert_eq!(bytes(1), b"[1]");
        assert_eq!(bytes(2), b"\x01{\"a\": 1}");
        assert_eq!(bytes(3), b"ab");
        assert_eq!(bytes(5), [0, 255]);
        assert_eq!(bytes(6), 45_296_500_000_i64.to_be_bytes());
        let interval =
            [&11_045_000_000_i64.to_be_bytes()[..], &[0, 0, 0, 2], &[0, 0, 0, 1]].concat();
        assert_eq!(bytes(7), interval);
        let header = [1, 0, 2950, 1, 1, 16].map(u32::to_be_bytes).concat();
        assert_eq!(bytes(9), [&header[..], &UUID_BYTES].concat());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_sent_in_binary() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        filled(&client).await;
        let found = client.prepare("SELECT v FROM a WHERE u = $1").await.expect("prepared");
        assert_eq!(found.params(), [Type::UUID]);
        let rows = client.query(&found, &[&Raw(UUID_BYTES.to_vec())]).await.expect("rows");
        assert_eq!(rows[0].get::<_, &str>(0), "ab");
        let insert = "INSERT INTO a (u, jb, i, v) VALUES ($1, $2, $3, $4)";
        let insert = client.prepare(insert).await.expect("prepared");
        assert_eq!(insert.params(), [Type::UUID, Type::JSONB, Type::INTERVAL, Type::TEXT]);
        let interval = [&0_i64.to_be_bytes()[..], &[0, 0, 0, 3], &[0, 0, 0, 0]].concat();
        let values: [&(dyn ToSql + Sync); 4] =
            [&Raw(vec![7; 16]), &Raw(b"\x01[ 2]".to_vec()), &Raw(interval), &"x"];
        assert_eq!(client.execute(&insert, &values).await.expect("inserted"), 1);
        let inserted = "SELECT u, jb, i FROM a WHERE v = 'x'";
        let expected = ["07070707-0707-0707-0707-070707070707", "[2]", "3 days"];
        assert_eq!(texts(&client, inserted).await, expected);
        let cast = client.prepare("SELECT $1::uuid").await.expect("prepared");
        assert_eq!((cast.params(), cast.columns()[0].type_()), (&[Type::UUID][..], &Type::UUID));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_constants_have_types_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        for (expr, of, text) in [
            (format!("ARRAY['{UUID}'::uuid, NULL]"), Type::UUID_ARRAY, format!("{{{UUID},NULL}}")),
            (format!("ARRAY['{UUID}', '{UUID}'::uuid]"), Type::UUID_ARRAY, {
                format!("{{{UUID},{UUID}}}")
            }),
            (format!("'{{{UUID}}}'::uuid[]"), Type::UUID_ARRAY, format!("{{{UUID}}}")),
            ("ARRAY['[1]'::json]".to_owned(), Type::JSON_ARRAY, "{[1]}".to_owned()),
            ("ARRAY['[1]'::jsonb]".to_owned(), Type::JSONB_ARRAY, "{[1]}".to_owned()),
            (format!("coalesce(NULL::uuid, '{UUID}')"), Type::UUID, UUID.to_owned()),
            ("CASE WHEN true THEN '[1]' ELSE '{}'::jsonb END".to_owned(), Type::JSONB, {
                "[1]".to_owned()
            }),
        ] {
            let query = format!("SELECT {expr} AS x");
            let statement = client.prepare(&query).await.expect("prepared");
            assert_eq!(statement.columns()[0].type_(), &of, "{query}");
            client.query(&statement, &[]).await.expect("queried");
            assert_eq!(texts(&client, &query).await, [text], "{query}");
        }
        let made = format!("CREATE TABLE m AS SELECT ARRAY['{UUID}'::uuid] AS x FROM range(2)");
        assert_eq!(client.execute(&made, &[]).await.expect("made"), 2);
        let statement = client.prepare("SELECT x FROM m").await.expect("prepared");
        assert_eq!(statement.columns()[0].type_(), &Type::UUID_ARRAY);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_codes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        filled(&client).await;
        for (statement, code) in [
            ("INSERT INTO a (u) VALUES ('x')", "22P02"),
            ("INSERT INTO a (j) VALUES ('{')", "22P02"),
            ("SELECT 'x'::uuid", "22P02"),
            ("INSERT INTO a (v) VALUES ('abcdef')", "22001"),
            ("INSERT INTO a (c) VALUES ('abcdef')", "22001"),
            ("UPDATE a SET v = 'abcdef'", "22001"),
            ("CREATE TABLE w (x UHUGEINT)", "0A000"),
        ] {
            let error = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(error.code().map(|code| code.code()), Some(code), "{statement}: {error}");
        }
    })
    .await;
}
