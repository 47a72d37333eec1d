//! Functions of PostgreSQL that read texts by templates, match regular expressions, find values of
//! JSON by paths, convert encodings and make arrays, with the values of PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

const TEMPLATES: &[(&str, &str)] = &[
    ("SELECT to_date('05 Dec 2000', 'DD Mon YYYY'), to_date('2024-02-29', NULL)", "2000-12-05 "),
    ("SELECT to_date('2024 60', 'YYYY DDD'), to_date(NULL, 'YYYY')", "2024-02-29 "),
    (
        "SELECT to_timestamp('2024-02-29 13:14:15.5', 'YYYY-MM-DD HH24:MI:SS.MS')::text",
        "2024-02-29 13:14:15.5+00",
    ),
    (
        "SELECT to_timestamp('2024-01-01 12:00 +05:30', 'YYYY-MM-DD HH24:MI TZH:TZM')::text",
        "2024-01-01 06:30:00+00",
    ),
    (
        "SELECT to_timestamp('0097-02-16 12:00', 'YYYY-MM-DD HH24:MI')::text",
        "0097-02-16 12:00:00+00",
    ),
    ("SELECT to_timestamp(1284352323.5)::text", "2010-09-13 04:32:03.5+00"),
    (
        "SELECT to_timestamp(x)::text FROM (VALUES ('2024-02-29 13:14:15.5'), (NULL)) AS t(x) \
         ORDER BY x",
        "2024-02-29 13:14:15.5+00\n",
    ),
    ("SELECT to_timestamp(x) IS NULL FROM (VALUES (NULL::text), (NULL)) AS t(x)", "true\ntrue"),
    (
        "SELECT to_number('12,454.8-', '99G999D9S'), to_number('<12>', '99PR'), \
         to_number('12', ''), to_number('1234', 'FM9G999')",
        "-12454.8 -12  1234",
    ),
    (
        "SELECT x, to_date(x, f) FROM (VALUES ('2024-05-01', 'YYYY-MM-DD'), ('010524', 'DDMMYY')) \
         AS t(x, f) ORDER BY x",
        "010524 2024-05-01\n2024-05-01 2024-05-01",
    ),
    (
        "SELECT sum(to_number(x, '9G999D99')) FROM (VALUES ('1,234.5'), ('12'), (NULL)) AS t(x)",
        "1246.50",
    ),
];

const PATTERNS: &[(&str, &str)] = &[
    ("SELECT regexp_matches('foobarbequebaz', 'ba.', 'g')", "[bar]\n[baz]"),
    ("SELECT (regexp_matches('a1b2', '[a-z]([0-9])', 'g'))[1]", "1\n2"),
    ("SELECT * FROM regexp_matches('foobarbequebaz', '(bar)(beque)')", "[bar, beque]"),
    ("SELECT m[2] FROM regexp_matches('a1b2', '([a-z])([0-9])', 'g') AS m", "1\n2"),
    ("SELECT count(*) FROM regexp_matches('abc', 'x')", "0"),
    (
        "SELECT a, regexp_matches(a, '.', 'g') FROM (VALUES ('ab'), ('c'), (NULL)) AS t(a)",
        "ab [a]\nab [b]\nc [c]",
    ),
    ("SELECT regexp_matches('abc', 'b'), regexp_matches('abc', 'B', 'i')", "true true"),
    (
        "SELECT regexp_match('abc', '(x)?b(c)'), regexp_match('ABC', 'b', 'i'), \
         (regexp_match('abc', '(x)?b(c)'))[1] IS NULL, regexp_match('abc', 'x')",
        "[, c] [B] true ",
    ),
    (
        "SELECT regexp_count('axb', 'x*'), regexp_count('ABCA', 'a', 2, 'i'), \
         regexp_count('a.c', '.', 1, 'q'), regexp_count('abc', 'b', 10)",
        "4 1 1 0",
    ),
    (
        "SELECT regexp_instr('ABCDEFGHI', '(c..)(...)', 1, 1, 0, 'i', 2), \
         regexp_instr('abcabc', 'b', 1, 2, 1), regexp_instr('abcabc', '^a', 4), \
         regexp_instr('abc', '(x)?b', 1, 1, 0, '', 1)",
        "6 6 0 0",
    ),
    (
        "SELECT regexp_like(E'a\\nb', 'a.b'), regexp_like(E'a\\nb', 'a.b', 'n'), \
         regexp_like('Hello', 'h', 'i')",
        "true false true",
    ),
    (
        "SELECT regexp_substr('ABCDEFGHI', '(c..)(...)', 1, 1, 'i', 2), \
         regexp_substr('abcabc', '^a', 4) IS NULL",
        "FGH true",
    ),
    (
        "SELECT regexp_replace('aaaa', 'a', 'b', 2, 2), regexp_replace('aaaa', 'a', 'b', 2, 0), \
         regexp_replace('axb', 'x*', '-', 'g'), regexp_replace('aaaa', 'A', 'b', 1, 3, 'i'), \
         regexp_replace('foobarbaz', 'b..', 'X', 5)",
        "aaba abbb -a--b- aaba foobarX",
    ),
];

const JSON: &[(&str, &str)] = &[
    (
        r#"SELECT jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"x"'),
           jsonb_insert('{"a": [0,1,2]}', '{a, -1}', '"x"', true),
           jsonb_insert('{"a": 1}', '{b}', '2'), jsonb_insert('[1]', '{-9}', '0')"#,
        r#"{"a": [0, "x", 1, 2]} {"a": [0, 1, 2, "x"]} {"a": 1, "b": 2} [0, 1]"#,
    ),
    (
        r#"SELECT ('{"a":[1,{"b":"c"}]}'::jsonb)['a'][1]['b'], ('[1,2]'::jsonb)[-1],
           ('[1,2]'::jsonb)['1'], ('{"a":1}'::jsonb)['x'] IS NULL"#,
        "\"c\" 2 2 true",
    ),
    (
        r#"SELECT jsonb_set_lax('{"a":1}', '{a}', NULL), jsonb_set_lax('{"a":1,"b":2}', '{a}',
           NULL, true, 'delete_key'), jsonb_set_lax('{"a":1}', '{a}', NULL, true, 'return_target'),
           jsonb_set_lax('{"a":1}', '{b}', '2')"#,
        r#"{"a": null} {"b": 2} {"a": 1} {"a": 1, "b": 2}"#,
    ),
    (
        "SELECT jsonb_object('{b,1,a,NULL}'), jsonb_object(ARRAY['a','b'], ARRAY['1','2']), \
         jsonb_object('{}')",
        r#"{"a": null, "b": "1"} {"a": "1", "b": "2"} {}"#,
    ),
    (r#"SELECT jsonb_path_query('{"a":[1,2,3]}', '$.a[*] ? (@ > 1)')"#, "2\n3"),
    (r#"SELECT * FROM jsonb_path_query('{"a":[1,2]}', '$.a[*] ? (@ > $x)', '{"x":1}') AS v"#, "2"),
    (
        r#"SELECT jsonb_path_query_array('[1,2,3]', '$[*] ? (@ > 1)'),
           jsonb_path_query_first('[1,2,3]', '$[*] ? (@ > 1)'),
           jsonb_path_query_first('[]', '$[*]') IS NULL"#,
        "[2, 3] 2 true",
    ),
    (
        r#"SELECT jsonb_path_exists('{"a":1}', '$.a'), jsonb_path_match('{"a":1}', '$.a > 1'),
           jsonb_path_exists('{}', 'strict $.a', '{}', true) IS NULL"#,
        "true false true",
    ),
    (
        r#"SELECT '{"a":[1,2]}'::jsonb @? '$.a[*] ? (@ > 2)', '{"a":[1,2]}'::jsonb @@ '$.a[*] > 1',
           '{}'::jsonb @@ 'strict $.a' IS NULL, '{"a":1}'::jsonb @? '$.a'::jsonpath"#,
        "false true true true",
    ),
    (
        r#"SELECT i, j FROM (VALUES (1, '{"a":1}'::jsonb), (2, '{"a":5}'), (3, NULL)) AS t(i, j)
           WHERE j @@ '$.a > 2'"#,
        r#"2 {"a": 5}"#,
    ),
];

const ARRAYS: &[(&str, &str)] = &[
    (
        "SELECT '{{1,2},{3,4}}'::int[], '{{1,2},{3,4}}'::int[][]",
        "[[1, 2], [3, 4]] [[1, 2], [3, 4]]",
    ),
    ("SELECT ('{{1,2},{3,4}}'::int[])[2][1], '{1,2}'::int[][], '{}'::int[]", "3 [1, 2] []"),
    (
        "SELECT array_dims('{{1,2,3},{4,5,6}}'::int[]), array_ndims('{{{1}}}'::int[]), \
         array_length('{{1,2,3},{4,5,6}}'::int[], 2), '{{a,\"b,c\"}}'::text[]",
        "[1:2][1:3] 3 3 [[a, b,c]]",
    ),
    (
        "SELECT array_fill(11, ARRAY[2,3]), array_fill(7, ARRAY[3])",
        "[[11, 11, 11], [11, 11, 11]] [7, 7, 7]",
    ),
    (
        "SELECT width_bucket(5, ARRAY[1,3,7]), width_bucket(5.5, ARRAY[1,5,6]), \
         width_bucket(0, ARRAY[1,2]), width_bucket('b'::text, ARRAY['a','b','c']), \
         width_bucket(NULL::int, ARRAY[1]), width_bucket(DATE '2024-01-15', ARRAY[DATE \
         '2024-01-01', DATE '2024-02-01'])",
        "2 2 0 2  1",
    ),
    (
        "SELECT convert_from('\\xc3a4'::bytea, 'UTF8'), convert_to('\u{e4}', 'LATIN1'), \
         convert('\\xe4'::bytea, 'LATIN1', 'UTF8'), convert_from('text', 'UTF8')",
        "\u{e4} e4 c3a4 text",
    ),
];

const OTHERS: &[(&str, &str)] = &[
    (
        "SELECT sind(30), cosd(60), tand(45), cotd(45), asind(0.5), acosd(0.5), atand(1), \
         atan2d(1, 1)",
        "0.5 0.5 1.0 1.0 30.0 60.0 45.0 45.0",
    ),
    ("SELECT unistr('d\\0061t\\+000061 \\u0061'), unistr(NULL)", "data a "),
    (
        "SELECT 'a' IS NORMALIZED, U&'a\\0308' IS NFC NORMALIZED, U&'a\\0308' IS NOT NFD \
         NORMALIZED, normalize('a', NFC)",
        "true false false a",
    ),
];

#[tokio::test]
async fn functions_return_what_postgresql_returns() {
    let session = engine(DRAM).session().expect("session");
    for cases in [TEMPLATES, PATTERNS, JSON, ARRAYS, OTHERS] {
        check(&session, cases).await;
    }
}

#[tokio::test]
async fn templates_read_local_times_of_the_session() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "SET timezone = 'Europe/Berlin'").await;
    let cases = [
        (
            "SELECT to_timestamp('2024-07-01 12:00', 'YYYY-MM-DD HH24:MI')::text",
            "2024-07-01 12:00:00+02",
        ),
        (
            "SELECT to_timestamp('2024-03-31 02:30', 'YYYY-MM-DD HH24:MI')::text",
            "2024-03-31 03:30:00+02",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn columns_are_named_after_their_functions() {
    let session = engine(DRAM).session().expect("session");
    let cases = [
        ("SELECT regexp_matches FROM (SELECT regexp_matches('ab', '.', 'g')) t", "[a]\n[b]"),
        ("SELECT jsonb_path_query FROM (SELECT jsonb_path_query('[1]', '$[*]')) t", "1"),
        ("SELECT regexp_matches FROM regexp_matches('ab', 'b')", "[b]"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn errors_name_the_input() {
    let session = engine(DRAM).session().expect("session");
    let cases = [
        ("SELECT to_date('2024-13-01', 'YYYY-MM-DD')", "date/time field value out of range"),
        ("SELECT to_date('x', 'YYYY')", "invalid value \"x\" for \"YYYY\""),
        ("SELECT to_date('2024', '%Y')", "strptime takes formats such as %Y-%m-%d"),
        ("SELECT to_number('abc', '99')", "to_number finds no digits"),
        ("SELECT to_number('12', 'RN')", "\"RN\" is not supported for input"),
        ("SELECT regexp_match('abc', 'b', 'g')", "does not support the option g"),
        ("SELECT regexp_count('abc', 'b', 0)", "invalid value for parameter \"start\": 0"),
        ("SELECT regexp_replace('a', 'a', 'b', 1, -1)", "invalid value for parameter \"n\": -1"),
        ("SELECT regexp_instr('a', 'a', 1, 1, 2)", "invalid value for parameter \"endoption\": 2"),
        (
            r#"SELECT jsonb_insert('{"a": 1}', '{a}', '2')"#,
            "the key \"a\" exists; use jsonb_set to replace its value",
        ),
        ("SELECT jsonb_path_query('{}', '$.a =')", "invalid JSON path \"$.a =\" at \"=\""),
        ("SELECT '$.'::jsonpath", "invalid JSON path \"$.\""),
        ("SELECT jsonb_path_query('{}', 'strict $.a')", "does not contain the key \"a\""),
        ("SELECT jsonb_path_match('1', '$')", "the JSON path finds no single boolean"),
        ("SELECT jsonb_path_exists('1', '$x')", "a variable \"x\""),
        ("SELECT jsonb_path_exists('1', '$.a.datetime()')", ".datetime() is not supported"),
        (
            "SELECT * FROM json_populate_record(NULL::t, '{}')",
            "FROM json_to_record(x) AS r(a INT, b TEXT)",
        ),
        (
            "SELECT jsonb_populate_recordset(NULL::t, '[]')",
            "FROM jsonb_to_recordset(x) AS r(a INT, b TEXT)",
        ),
        ("SELECT '{{1},{2,3}}'::int[]", "say the elements of 2 dimensions"),
        ("SELECT width_bucket(5, ARRAY[1,NULL])", "must not contain NULL"),
        ("SELECT convert_from('\\xff'::bytea, 'UTF8')", "invalid byte sequence for encoding"),
        ("SELECT jsonb_set_lax('[1]', '{0}', NULL, true, 'x')", "\"delete_key\""),
        ("SELECT jsonb_object('{a}')", "a name without a value"),
        ("SELECT asind(2)", "the input 2 is out of range"),
        ("SELECT unistr('\\D83D')", "invalid Unicode surrogate pair"),
        ("SELECT convert_to('a', 'klingon')", "invalid encoding name \"klingon\""),
        ("SELECT array_fill(7, ARRAY[1000, 1000000])", "array_fill makes at most"),
    ];
    for (statement, expected) in cases {
        let found = error(&session, statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
}
