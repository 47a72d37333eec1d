//! Values that paths find, with the results of PostgreSQL 15.

use super::super::text::Json;
use super::super::value::Value;
use super::evaluation::{Evaluation, STEPS_MAX};
use super::fault::Fault;
use super::syntax::JsonPath;

const DOCUMENT: &str = r#"{"a":[1,2,3,{"b":[4,5]}],"c":null,"d":"text","e":true,
    "f":{"g":{"h":1.50}}}"#;

/// The normal form of the document.
const WHOLE: &str = concat!(
    r#"{"a": [1, 2, 3, {"b": [4, 5]}], "c": null, "d": "text", "e": true, "#,
    r#""f": {"g": {"h": 1.50}}}"#,
);

const NONE: &str = "{}";

/// Documents, paths, variables, and the values or an error.
const QUERIES: &[(&str, &str, &str, &str)] = &[
    (DOCUMENT, "$", NONE, WHOLE),
    (DOCUMENT, "$.a", NONE, r#"[1, 2, 3, {"b": [4, 5]}]"#),
    (DOCUMENT, "$.a[*]", NONE, r#"1 | 2 | 3 | {"b": [4, 5]}"#),
    (DOCUMENT, "$.a[0]", NONE, "1"),
    (DOCUMENT, "$.a[last]", NONE, r#"{"b": [4, 5]}"#),
    (DOCUMENT, "$.a[last - 1, 0 to 1]", NONE, "3 | 1 | 2"),
    (DOCUMENT, "$.a[*].b", NONE, "[4, 5]"),
    (DOCUMENT, "strict $.a[*].b", NONE, "error"),
    (DOCUMENT, "lax $.x", NONE, ""),
    (DOCUMENT, "strict $.x", NONE, "error"),
    (
        DOCUMENT,
        "$.*",
        NONE,
        r#"[1, 2, 3, {"b": [4, 5]}] | null | "text" | true | {"g": {"h": 1.50}}"#,
    ),
    (DOCUMENT, "$.f.*.h", NONE, "1.50"),
    (DOCUMENT, "$.**.h", NONE, "1.50"),
    (DOCUMENT, "$.**{2}", NONE, r#"1 | 2 | 3 | {"b": [4, 5]} | {"h": 1.50}"#),
    (DOCUMENT, "$.**{1 to 2}.b", NONE, "[4, 5] | [4, 5]"),
    (DOCUMENT, "$.**{last}", NONE, r#"1 | 2 | 3 | 4 | 5 | null | "text" | true | 1.50"#),
    (DOCUMENT, "strict $.**.b", NONE, "[4, 5]"),
    (DOCUMENT, "$.d[*]", NONE, r#""text""#),
    (DOCUMENT, "strict $.d[*]", NONE, "error"),
    (DOCUMENT, "$.d[0]", NONE, r#""text""#),
    (DOCUMENT, "$.d[1]", NONE, ""),
    (DOCUMENT, "strict $.d[0]", NONE, "error"),
    (DOCUMENT, "$.a[1 to 10]", NONE, r#"2 | 3 | {"b": [4, 5]}"#),
    (DOCUMENT, "strict $.a[1 to 10]", NONE, "error"),
    (DOCUMENT, "$.a[1.7]", NONE, "2"),
    (DOCUMENT, r#"$.a["x"]"#, NONE, "error"),
    (DOCUMENT, "$.a[-1]", NONE, ""),
    (DOCUMENT, "$.a[3 to 1]", NONE, ""),
    (DOCUMENT, "$.a.size()", NONE, "4"),
    (DOCUMENT, "$.d.size()", NONE, "1"),
    (DOCUMENT, "strict $.d.size()", NONE, "error"),
    (DOCUMENT, "$.*.type()", NONE, r#""array" | "null" | "string" | "boolean" | "object""#),
    (DOCUMENT, "$.a[*].type()", NONE, r#""number" | "number" | "number" | "object""#),
    (r#"[1,2.5,-3.7,"4.5"]"#, "$[*].double()", NONE, "1 | 2.5 | -3.7 | 4.5"),
    ("[1,2.5,-3.7]", "$[*].abs()", NONE, "1 | 2.5 | 3.7"),
    ("[1,2.5,-3.7]", "$[*].floor()", NONE, "1 | 2 | -4"),
    ("[1,2.5,-3.7]", "$[*].ceiling()", NONE, "1 | 3 | -3"),
    (r#"["x"]"#, "$[*].double()", NONE, "error"),
    (r#"["inf"]"#, "$[*].double()", NONE, "error"),
    ("[true]", "$[*].double()", NONE, "error"),
    ("[null]", "$[*].abs()", NONE, "error"),
    (r#""1e3""#, "$.double()", NONE, "1000"),
    (r#""0.1""#, "$.double()", NONE, "0.1"),
    (
        r#"{"x":1,"yy":"z"}"#,
        "$.keyvalue()",
        NONE,
        r#"{"id": 0, "key": "x", "value": 1} | {"id": 0, "key": "yy", "value": "z"}"#,
    ),
    (r#"{"x":1,"yy":"z"}"#, "$.keyvalue().key", NONE, r#""x" | "yy""#),
    (r#"{"x":1}"#, "$.keyvalue().*", NONE, r#"0 | "x" | 1"#),
    ("[1]", "$.keyvalue()", NONE, "error"),
    ("{}", "$.keyvalue()", NONE, ""),
    ("[1,2,3,4,5]", "$[*] ? (@ > 2)", NONE, "3 | 4 | 5"),
    ("[1,2,3,4,5]", "$ ? (@ > 4)", NONE, "5"),
    ("[1,2,3,4,5]", "strict $ ? (@ > 4)", NONE, ""),
    (r#"[1,"a",null,true]"#, "$[*] ? (@ > 0)", NONE, "1"),
    (r#"[1,"a",null,true]"#, "$[*] ? (@ != null)", NONE, r#"1 | "a" | true"#),
    (r#"[1,"a",null,true]"#, r#"$[*] ? (@ == "a")"#, NONE, r#""a""#),
    (r#"[1,"a",null,true]"#, "$[*] ? ((@ > 0) is unknown)", NONE, r#""a" | true"#),
    (r#"[{"a":1},{"a":2},{"b":3}]"#, "$[*] ? (@.a > 1)", NONE, r#"{"a": 2}"#),
    (r#"[{"a":1},{"a":2},{"b":3}]"#, "$[*] ? (exists(@.b))", NONE, r#"{"b": 3}"#),
    (r#"[{"a":1},{"b":3}]"#, "$[*] ? (!exists(@.b))", NONE, r#"{"a": 1}"#),
    (r#"[{"a":1},{"b":3}]"#, "strict $[*] ? ((@.a == 1) is unknown)", NONE, r#"{"b": 3}"#),
    (r#"[{"a":1,"b":2},{"a":3,"b":3}]"#, "$[*] ? (@.a == @.b)", NONE, r#"{"a": 3, "b": 3}"#),
    (r#"[{"a":[1,2]},{"a":[3]}]"#, "$[*] ? (@.a[*] > 2)", NONE, r#"{"a": [3]}"#),
    (r#"[{"a":[1,2]},{"a":[3]}]"#, "$[*] ? (@.a > 2).a", NONE, "[3]"),
    ("[1,2,3]", "$[*] ? (@ > 1 && @ < 3)", NONE, "2"),
    ("[1,2,3]", "$[*] ? (@ < 2 || @ > 2)", NONE, "1 | 3"),
    ("[1,2,3]", "$[*] ? (!(@ == 2))", NONE, "1 | 3"),
    (r#"["abc","Abd","xyz"]"#, r#"$[*] ? (@ starts with "a")"#, NONE, r#""abc""#),
    (r#"["abc","Abd","xyz"]"#, r#"$[*] ? (@ like_regex "^a" flag "i")"#, NONE, r#""abc" | "Abd""#),
    (r#"["a\nb","ab"]"#, r#"$[*] ? (@ like_regex "a.b")"#, NONE, ""),
    (r#"["a\nb"]"#, r#"$[*] ? (@ like_regex "a.b" flag "s")"#, NONE, r#""a\nb""#),
    (r#"["a.b","axb"]"#, r#"$[*] ? (@ like_regex "a.b" flag "q")"#, NONE, r#""a.b""#),
    ("10", "$ + 3", NONE, "13"),
    ("10", "$ - 3 * 2", NONE, "4"),
    ("10", "$ / 4", NONE, "2.5000000000000000"),
    ("10", "$ / 0", NONE, "error"),
    ("10", "$ % 4", NONE, "2"),
    ("10", "-$", NONE, "-10"),
    ("[1,2]", "-$[*]", NONE, "-1 | -2"),
    ("[1,2]", "$ + 1", NONE, "error"),
    ("[1]", "$ + 1", NONE, "2"),
    (r#""a""#, "$ + 1", NONE, "error"),
    (r#""a""#, "-$", NONE, "error"),
    ("1.5", "+$", NONE, "1.5"),
    ("2", "3 - $ - 1", NONE, "0"),
    ("1", "2 * (3 + $)", NONE, "8"),
    ("7", "($ > 3)", NONE, "true"),
    ("7", "$ > 3", NONE, "true"),
    ("7", r#"$ > "x""#, NONE, "null"),
    ("[1,2]", "$[*] == 2", NONE, "true"),
    ("[1,2]", "$ > 1 && $ < 2", NONE, "true"),
    ("7", "($ > 3).type()", NONE, r#""boolean""#),
    ("7", r#"($ > "x").type()"#, NONE, r#""null""#),
    (r#"{"a":{"b":1}}"#, r#"$."a"."b""#, NONE, "1"),
    (r#"{"a b":{"c":1}}"#, r#"$."a b".c"#, NONE, "1"),
    (r#"{"a":1,"A":2}"#, "$.A", NONE, "2"),
    (r#"{"null":1}"#, "$.null", NONE, "1"),
    (r#"{"size":1}"#, "$.size", NONE, "1"),
    ("[[1,2],[3]]", "$[*]", NONE, "[1, 2] | [3]"),
    ("[[1,2],[3]]", "$[*][0]", NONE, "1 | 3"),
    ("[[1,2],[3]]", "$[*][*]", NONE, "1 | 2 | 3"),
    ("[[1,2],[3]]", "$[last][last]", NONE, "3"),
    ("[[1,[2]],3]", "$.**", NONE, "[[1, [2]], 3] | [1, [2]] | 1 | [2] | 2 | 3"),
    ("[]", "$[*]", NONE, ""),
    ("[]", "$[last]", NONE, ""),
    ("[]", "$.a", NONE, ""),
    ("[]", "strict $.a", NONE, "error"),
    (r#"{"a":[{"b":1},{"b":2}]}"#, "$.a.b", NONE, "1 | 2"),
    (r#"{"a":[[{"b":1}]]}"#, "$.a.b", NONE, ""),
    (r#"{"a":[[{"b":1}]]}"#, "$.a[*].b", NONE, "1"),
    ("[1,[2,3]]", "$ ? (@ == 2)", NONE, "[2, 3]"),
    ("[1,[2,3]]", "$[*] ? (@ == 2)", NONE, "2"),
    (r#"{"a":12345678901234567890123}"#, "$.a > 12345678901234567890122", NONE, "true"),
    ("1e2", "$", NONE, "100"),
    ("-0.0", "-$", NONE, "0.0"),
    (r#"{"a":1}"#, "lax $.a.b.c", NONE, ""),
    ("null", "$ == null", NONE, "true"),
    ("null", "$ > 1", NONE, "false"),
    ("null", "$ != 1", NONE, "true"),
    ("true", "$ == true", NONE, "true"),
    (r#""b""#, r#"$ > "a""#, NONE, "true"),
    ("[1,2]", "$ == $", NONE, "true"),
    ("{}", "$ == $", NONE, "null"),
    (r#"[{"a":2},{"a":1}]"#, "$[*].a ? (@ == 1)", NONE, "1"),
    ("[1,2,3]", "$[*] ? (@ == $[0])", NONE, "1"),
    ("[1,2,3]", "$[$[0]]", NONE, "2"),
    ("[0,1,2]", "$[last - $[1]]", NONE, "1"),
    (r#""x""#, r#""lit""#, NONE, r#""lit""#),
    (r#""x""#, "1.50", NONE, "1.50"),
    (r#""x""#, "null", NONE, "null"),
    ("[1,2,3]", "$.size() - 1", NONE, "2"),
    (r#"{"a":[1,2]}"#, "$.a.size() > 1", NONE, "true"),
    (r#"[1,"2",3]"#, "$[*].double() ? (@ > 1)", NONE, "2 | 3"),
    (r#"{"a":{"a":{"a":1}}}"#, "$.**.a", NONE, r#"{"a": {"a": 1}} | {"a": 1} | 1"#),
    (r#"{"a":{"a":{"a":1}}}"#, "$.**{0 to 1}.a", NONE, r#"{"a": {"a": 1}} | {"a": 1}"#),
    ("[[[1]]]", "$.**{3}", NONE, "1"),
    ("[1,2]", "strict $[*].a", NONE, "error"),
    ("[1,2]", "strict $.**.a", NONE, ""),
    (r#"[{"a":1}]"#, "strict $.a", NONE, "error"),
    (r#"[{"a":1}]"#, "strict $[*].a", NONE, "1"),
    ("[1,2,3]", "$[*] ? (@ > $x)", r#"{"x":1}"#, "2 | 3"),
    (r#"["ab","c"]"#, "$[*] ? (@ starts with $p)", r#"{"p":"a"}"#, r#""ab""#),
    ("1", "$x + $", r#"{"x":[2]}"#, "3"),
    ("1", "$y", r#"{"x":2}"#, "error"),
    ("1", r#"$"a b""#, r#"{"a b":{"c":[1, 2]}}"#, r#"{"c": [1, 2]}"#),
];

/// Paths that PostgreSQL refuses.
const MALFORMED: &[&str] = &[
    "",
    "$.a = 1",
    "1.type()",
    "$.1a",
    "NULL",
    "$.a ? (@ like_regex \"^a\" flag \"x\")",
    "! $.a == 1",
    "exists($.a).type()",
    "$.$a",
    "@.a",
    "last",
    "01",
    "$.a like_regex \"(\"",
    "($.a > 1) == true",
    "$ > 1 && 2",
    "a",
    "$.a + ",
    "$.a[",
    "$.a ? (@ > 1",
    "$.a ? @ > 1",
    "$.**{a}",
    "$.size(1)",
    "$.a starts with 1",
];

fn normal(text: &str) -> Value<'_> {
    Value::from(Json::parse(text).expect(text)).normalized()
}

fn values(document: &str, path: &str, variables: &str) -> Result<String, String> {
    let path = JsonPath::parse(path).map_err(|error| error.to_string())?;
    let (document, variables) = (normal(document), normal(variables));
    let mut found = Vec::new();
    let result = Evaluation::new(&path, &document, Some(&variables)).all(&mut found);
    result.map_err(|fault| match fault {
        Fault::Value(text) => text,
        Fault::Call(error) => error.to_string(),
    })?;
    let texts = found.iter().map(|item| {
        let mut out = String::new();
        item.write(&mut out);
        out
    });
    Ok(texts.collect::<Vec<_>>().join(" | "))
}

fn exists(document: &str, path: &str) -> Option<bool> {
    let path = JsonPath::parse(path).expect(path);
    let document = normal(document);
    Evaluation::new(&path, &document, None).any().ok()
}

#[test]
fn paths_find_the_values_of_postgresql() {
    for (document, path, variables, right) in QUERIES {
        let found = values(document, path, variables);
        match *right {
            "error" => assert!(found.is_err(), "{document} {path}: {found:?}"),
            right => assert_eq!(found.as_deref(), Ok(right), "{document} {path}"),
        }
    }
}

#[test]
fn malformed_paths_are_refused() {
    for path in MALFORMED {
        let error = JsonPath::parse(path).expect_err(path).to_string();
        assert!(error.contains("invalid JSON path"), "{path}: {error}");
    }
    let error = JsonPath::parse("$.a.datetime()").expect_err("no dates").to_string();
    assert!(error.contains(".datetime() is not supported"), "{error}");
}

/// In lax mode the first value ends the search, before a fault of the second one.
#[test]
fn searches_end_with_the_first_value() {
    assert_eq!(exists("[1, \"a\"]", "$[*].double()"), Some(true));
    assert_eq!(exists("[1, \"a\"]", "strict $[*].double()"), None);
    assert_eq!(exists("[\"a\", 1]", "$[*].double()"), None);
    assert_eq!(exists("[]", "$[*]"), Some(false));
}

#[test]
fn long_and_deep_paths_are_refused() {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(JsonPath::parse(&deep).expect_err("too long").to_string().contains("at most 1000"));
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(JsonPath::parse(&deep).expect_err("too deep").to_string().contains("at most 64"));
    let long = format!("$ ? ({})", vec!["@ > 1"; 200].join(" && "));
    assert_eq!(values("2", &long, NONE).as_deref(), Ok("2"));
    let sum = format!("$ {}", "+ 1 ".repeat(450));
    assert_eq!(values("1", &sum, NONE).as_deref(), Ok("451"));
}

/// `.**` twice finds each value as often as it has ancestors.
#[test]
fn the_number_of_values_is_bounded() {
    let document = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let error = values(&document, "$.**.**.**", NONE).expect_err("too many values");
    assert!(error.contains("finds more than"), "{error}");
}

/// Each filter finds the innermost value of the document, within the search of the one around it.
#[test]
fn nested_filters_of_deep_documents_are_evaluated() {
    let document = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let path =
        (0..60).fold("$.**{last}".to_owned(), |inner, _| format!("$.**{{last}} ? ({inner} == 1)"));
    assert_eq!(values(&document, &path, NONE).as_deref(), Ok("1"));
}

/// The array has no value at the level, and no member to compare its elements with; the text does
/// not match.
#[test]
fn steps_that_find_nothing_are_counted() {
    let array = format!("[{}]", vec!["0"; 1_000].join(","));
    let text = format!("\"{}\"", "a".repeat(10_000));
    let cases = [(&array, "$.**{9}"), (&array, "$ == $[0].a"), (&text, r#"$ like_regex "b""#)];
    for (document, path) in cases {
        let document = normal(document);
        let parsed = JsonPath::parse(path).expect(path);
        let mut evaluation = Evaluation::new(&parsed, &document, None);
        evaluation.steps = STEPS_MAX - 100;
        let result = evaluation.all(&mut Vec::new());
        assert!(matches!(result, Err(Fault::Call(_))), "{path}");
    }
}
