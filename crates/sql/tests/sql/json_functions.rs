//! JSON over texts, with the results of PostgreSQL 15, or of DuckDB 2.0 for functions that
//! PostgreSQL lacks.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Operators and functions of PostgreSQL.
const POSTGRES: &[(&str, &str)] = &[
    (r#"SELECT '{"a": [1, 2]}'::json->'a'"#, "[1, 2]"),
    (r#"SELECT '{"a": 12345678901234567890}'::json->'a'"#, "12345678901234567890"),
    (r#"SELECT '{"a": "x\u00e9"}'::json->>'a', '{"a": null}'::json->>'a'"#, "x\u{e9} "),
    (r#"SELECT '{"a": null}'::json->'a'"#, "null"),
    (r#"SELECT '[1, 2,3]'::json->-1, '[1,2,3]'::json->5, '[1]'::json->'a'"#, "3  "),
    (r#"SELECT '{"0":1}'::json->0, '1'::json->'a', '{"a":1,"a":2}'::json->'a'"#, "  2"),
    (r#"SELECT '{"a": {"b": [10,20]}}'::json #> '{a,b,1}'"#, "20"),
    (r#"SELECT '{"a": {"b": [10,20]}}'::json #>> ARRAY['a','b','-1']"#, "20"),
    (r#"SELECT '{"a,b":1}'::json #> '{"a,b"}', '{"a":1}'::json #> ARRAY['a',NULL]"#, "1 "),
    (r#"SELECT '{"a":1}'::json #> '{}', '{"a":1}'::json#>>'{}'"#, r#"{"a":1} {"a":1}"#),
    (
        r#"SELECT '{"a":{"b":"c"}}'::json->'a'->>'b', '{"a":1}'::json->>'a' = '1' AND true"#,
        "c true",
    ),
    (r#"SELECT '{"a":1,"b":2}'::jsonb @> '{"a":1}', '[1,2]'::jsonb @> '1'"#, "true true"),
    (r#"SELECT '[1,[2,3]]'::jsonb @> '[[2]]', '{"a":{"b":1}}'::jsonb @> '{"b":1}'"#, "true false"),
    (r#"SELECT '1'::jsonb @> '1.0', '"a"'::jsonb <@ '["a"]'"#, "true true"),
    (
        r#"SELECT '{"a":1}'::jsonb ? 'a', '["a"]'::jsonb ? 'a', '"a"'::jsonb ? 'b'"#,
        "true true false",
    ),
    (
        r#"SELECT '{"a":1}'::jsonb ?| ARRAY['x','a'], '{"a":1}'::jsonb ?& ARRAY['x','a']"#,
        "true false",
    ),
    (r#"SELECT '{"b": 1, "aa":2, "a":3, "b":4}'::jsonb"#, r#"{"a": 3, "b": 4, "aa": 2}"#),
    (r#"SELECT '[1.0, 1e2, 1.50e1, -0, 1E-3]'::jsonb"#, "[1.0, 100, 15.0, 0, 0.001]"),
    (r#"SELECT ' {"a" :1 } '::json"#, r#" {"a" :1 } "#),
    (r#"SELECT json_extract_path('{"a": {"b": [1, 2]}}', 'a', 'b')"#, "[1, 2]"),
    (r#"SELECT json_extract_path_text('{"a": {"b": "x"}}', 'a', 'b')"#, "x"),
    (r#"SELECT jsonb_extract_path('{"a":[5,6]}', 'a', '1')"#, "6"),
    ("SELECT json_array_length('[1,2]'), json_array_length(NULL)", "2 "),
    (
        r#"SELECT json_typeof('1'), json_typeof('"a"'), json_typeof('null'), json_typeof('[]'),
           json_typeof('{}'), json_typeof('true'), jsonb_typeof(NULL)"#,
        "number string null array object boolean ",
    ),
    (
        "SELECT json_build_object('a', 1, 'b', NULL, 'c', 'x', 'd', [1,2], 'e', 1.5)",
        r#"{"a" : 1, "b" : null, "c" : "x", "d" : [1,2], "e" : 1.5}"#,
    ),
    (
        "SELECT json_build_array(1, 'a', NULL, true), json_build_object()",
        r#"[1, "a", null, true] {}"#,
    ),
    ("SELECT jsonb_build_object('bb', 1, 'a', [1,2])", r#"{"a": [1, 2], "bb": 1}"#),
    ("SELECT to_json(1), to_json('a\"b'), to_json([1,NULL])", r#"1 "a\"b" [1,null]"#),
    (
        "SELECT to_json(DATE '2024-01-01'), to_json(1.50), to_json(true)",
        r#""2024-01-01" 1.50 true"#,
    ),
    ("SELECT to_json(NULL), to_json('nan'::double precision)", r#" "NaN""#),
    (r#"SELECT to_json('\x00ff'::bytea)"#, r#""\\x00ff""#),
    ("SELECT to_jsonb([1,2]), array_to_json([[1,2],[3,4]])", "[1, 2] [[1,2],[3,4]]"),
    ("SELECT row_to_json({'a': 1, 'b': 'x', 'c': [1,2]})", r#"{"a":1,"b":"x","c":[1,2]}"#),
    (
        r#"SELECT json_build_object('a', '{"x": 1}'::json), json_build_array('[1]'::json),
           to_json('{"x": 1}'::json)"#,
        r#"{"a" : {"x": 1}} [[1]] {"x": 1}"#,
    ),
    (
        "SELECT json_agg(x), jsonb_agg(x), json_object_agg(x::text, x*2),
         jsonb_object_agg(x::text, x*2) FROM generate_series(1,3) t(x)",
        r#"[1, 2, 3] [1, 2, 3] { "1" : 2, "2" : 4, "3" : 6 } {"1": 2, "2": 4, "3": 6}"#,
    ),
    ("SELECT json_agg(x) FROM generate_series(1,0) t(x)", ""),
    (
        r#"SELECT json_agg(x ORDER BY x DESC) FROM (VALUES ('{"a": 1}'), (NULL)) t(x)"#,
        r#"[null, "{\"a\": 1}"]"#,
    ),
    (
        "SELECT json_object_agg(k, v) FROM (VALUES ('x', 1), ('y', NULL)) t(k, v)",
        r#"{ "x" : 1, "y" : null }"#,
    ),
    (
        r#"SELECT json_strip_nulls('{"a": null, "b": [null, {"c": null, "d": 1}]}')"#,
        r#"{"b":[null,{"d":1}]}"#,
    ),
    (
        r#"SELECT jsonb_strip_nulls('{"a": null, "b": [null, {"c": null, "d": 1}]}')"#,
        r#"{"b": [null, {"d": 1}]}"#,
    ),
    (r#"SELECT jsonb_set('{"a":[1,2]}', '{a,0}', '9')"#, r#"{"a": [9, 2]}"#),
    (r#"SELECT jsonb_set('{"a":1}', '{b}', '2')"#, r#"{"a": 1, "b": 2}"#),
    (r#"SELECT jsonb_set('{"a":1}', '{b}', '2', false)"#, r#"{"a": 1}"#),
    (r#"SELECT jsonb_set('{"a":1}', '{b,c}', '2')"#, r#"{"a": 1}"#),
    (r#"SELECT jsonb_set('{"a":[1,2]}', '{a,5}', '9')"#, r#"{"a": [1, 2, 9]}"#),
    (r#"SELECT jsonb_set('{"a":[1,2]}', '{a,-5}', '9')"#, r#"{"a": [9, 1, 2]}"#),
    (r#"SELECT '{"a":1}'::jsonb || '{"b":2}'::jsonb"#, r#"{"a": 1, "b": 2}"#),
    (
        r#"SELECT '1'::jsonb || '2'::jsonb, '{"a":1}'::jsonb || '[1]'::jsonb"#,
        r#"[1, 2] [{"a": 1}, 1]"#,
    ),
    (r#"SELECT '{"a":1,"b":2}'::jsonb - 'a', '[1,2]'::jsonb - 0"#, r#"{"b": 2} [2]"#),
    (r#"SELECT '["a","b"]'::jsonb - 'a', '{"a":{"b":1}}'::jsonb #- '{a,b}'"#, r#"["b"] {"a": {}}"#),
    (r#"SELECT json_array_elements('[1,"a",null]')"#, "1\n\"a\"\nnull"),
    (r#"SELECT json_array_elements_text('[1,"a",null]')"#, "1\na\n"),
    (r#"SELECT json_object_keys('{"b":1,"a":2}')"#, "b\na"),
    ("SELECT count(*) FROM json_array_elements('[1,2,3]')", "3"),
    (r#"SELECT * FROM json_each('{"a":1,"b":"x"}')"#, "a 1\nb \"x\""),
    (r#"SELECT * FROM json_each_text('{"a":1,"b":"x","c":null}')"#, "a 1\nb x\nc "),
    (r#"SELECT e.value->>'n' FROM json_array_elements('[{"n":1},{"n":2}]') e"#, "1\n2"),
];

/// Functions of DuckDB.
const DUCKDB: &[(&str, &str)] = &[
    (
        r#"SELECT json_extract('{"a": [1, 2]}', '$.a'), json_extract('{"a": [1, 2]}', 'a')"#,
        "[1,2] [1,2]",
    ),
    (r#"SELECT json_extract('{"a": [1, 2]}', '/a/0'), json_extract('[1, 2,3]', -1)"#, "1 3"),
    (r#"SELECT json_extract('[1, 2,3]', '$[#-1]')"#, "3"),
    (r#"SELECT json_extract('{"a b": {"c":1}}', '$."a b".c')"#, "1"),
    (r#"SELECT json_extract('{"a":[{"b":1},{"b":2}]}', '$.a[*].b')"#, "[1, 2]"),
    (r#"SELECT json_extract('{"a":{"b":1,"c":2}}', '$.a.*')"#, "[1, 2]"),
    (
        r#"SELECT json_extract_string('{"a":null}', '$.a'), json_extract('{"a":null}', '$.a')"#,
        " null",
    ),
    (r#"SELECT json_extract_string('{"a":{"b": 1}}', '$.a')"#, r#"{"b":1}"#),
    (r#"SELECT '{"a":{"b": 1}}'::json->'$.a.b'"#, "1"),
    (r#"SELECT json_value('{"a":"x"}', '$.a'), json_value('{"a":[1]}', '$.a')"#, "\"x\" "),
    (r#"SELECT json_exists('{"a":null}', '$.a'), json_exists('{"a":null}', '$.b')"#, "true false"),
    (r#"SELECT json_array_length('{"a":[1]}', '$.a')"#, "1"),
    (r#"SELECT json_keys('{"b":1,"a":2}'), json_keys('[1]')"#, "[b, a] []"),
    (r#"SELECT json_keys('{"a":{"x":1}}', '$.a')"#, "[x]"),
    (
        r#"SELECT json_type('1'), json_type('-1'), json_type('1.5'), json_type('"a"'),
           json_type('null'), json_type('[]'), json_type('{}'), json_type('true'),
           json_type('12345678901234567890123'), json_type('{"a":1}', '$.a')"#,
        "UBIGINT BIGINT DOUBLE VARCHAR NULL ARRAY OBJECT BOOLEAN DOUBLE UBIGINT",
    ),
    ("SELECT json_valid('{'), json_valid('1'), json_valid(NULL)", "false true "),
    (
        r#"SELECT json_contains('{"a":[1,2]}', '{"a":[2]}'), json_contains('[1,2]', '1'),
           json_contains('{"a":{"b":1}}', '{"b":1}')"#,
        "true true true",
    ),
    (
        r#"SELECT json_pretty('{"a":[1,2],"b":{"c":{}},"d":[]}')"#,
        "{\n    \"a\": [\n        1,\n        2\n    ],\n    \"b\": {\n        \"c\": {}\n    \
         },\n    \"d\": []\n}",
    ),
    (
        r#"SELECT json_merge_patch('{"a":1,"b":{"x":1}}', '{"b":{"y":2},"a":null}')"#,
        r#"{"b":{"x":1,"y":2}}"#,
    ),
    (
        r#"SELECT json_merge_patch('{"a":1}', '{"b":2}', '{"c":3}'), json_merge_patch('{}', NULL)"#,
        r#"{"a":1,"b":2,"c":3} "#,
    ),
    ("SELECT json_array(1, 'a', NULL, [1,2], {'x': 1.5})", r#"[1,"a",null,[1,2],{"x":1.5}]"#),
    (
        "SELECT json_object('a', 1, 'b', NULL), json_object(), json_array()",
        r#"{"a":1,"b":null} {} []"#,
    ),
    ("SELECT to_json(MAP {'a': 1, 'b': 2}), json_quote('a')", r#"{"a":1,"b":2} "a""#),
    (r#"SELECT json('{"a": [1, 2]}'), TRY_CAST('{' AS JSON), 1::json"#, r#"{"a":[1,2]}  1"#),
    ("SELECT [1,2]::json, {'a': 1}::json, JSON '{\"a\":1}'", r#"[1,2] {"a":1} {"a":1}"#),
    (r#"SELECT json_object('a', '{"x": 1}'::json)"#, r#"{"a":{"x": 1}}"#),
    (
        "SELECT json_group_array(x), json_group_object(x::varchar, x*2) FROM range(3) t(x)",
        r#"[0,1,2] {"0":0,"1":2,"2":4}"#,
    ),
];

#[tokio::test]
async fn functions_return_what_postgresql_and_duckdb_return() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, POSTGRES).await;
    check(&session, DUCKDB).await;
}

#[tokio::test]
async fn columns_of_json_hold_texts() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = r#"CREATE TABLE t (id BIGINT, j JSON, b JSONB);
        INSERT INTO t VALUES (1, '{"a": {"b": 1.50}}', '{"x": 1}'), (2, NULL, NULL),
            (3, '[1, 2]', '[]')"#;
    show(&session, table).await;
    let cases = [
        ("SELECT id, j->'a'->'b' FROM t ORDER BY id", "1 1.50\n2 \n3 "),
        ("SELECT id FROM t WHERE j->'a'->>'b' = '1.50'", "1"),
        ("SELECT id, j->>0, b ? 'x' FROM t ORDER BY id", "1  true\n2  \n3 1 false"),
        (
            "SELECT id, e FROM (SELECT * FROM t WHERE id = 3) t, json_array_elements(t.j) x(e)",
            "3 1\n3 2",
        ),
        ("SELECT json_agg(j::json ORDER BY id) FROM t", r#"[{"a": {"b": 1.50}}, null, [1, 2]]"#),
        ("SELECT count(*) FROM t WHERE j IS NULL AND j->'a' IS NULL", "1"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn errors_name_the_input_and_its_place() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let deep = format!("SELECT '{}'::json", "[".repeat(100_000));
    let cases = [
        (
            "SELECT '{'::json",
            "invalid JSON at character 2 of \"{\": expected a name in double quotes",
        ),
        ("SELECT '[1,]'::jsonb", "invalid JSON at character 4 of \"[1,]\": expected a value"),
        (r#"SELECT '{"a":1'->'a'"#, "json_get: invalid JSON at character 7"),
        ("SELECT json_array_length('{}')", "json_array_length: a JSON value is no array"),
        ("SELECT json_extract('{}', '$a')", "invalid JSON path \"$a\""),
        ("SELECT json_extract(1, '$')", "argument 1 is Int64; give a JSON text"),
        ("SELECT json_extract('{}')", "json_extract takes 2 arguments, not 1"),
        ("SELECT json_object('a')", "json_object takes names and values in turn"),
        ("SELECT json_object(NULL, 1)", "the name of a JSON member cannot be NULL"),
        (r#"SELECT jsonb_set('[1]', '{x}', '2')"#, "\"x\" is no position of a JSON array"),
        ("SELECT jsonb_set('1', '{a}', '2')", "jsonb_set: the JSON value is no array or object"),
        ("SELECT '[]'::json[]", "a cast to JSON[]"),
        (deep.as_str(), "at most 512 levels of nesting"),
    ];
    for (statement, expected) in cases {
        let found = error(&session, statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
}
