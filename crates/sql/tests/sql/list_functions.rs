//! Lists, lambdas, structs and maps, with the results of DuckDB 2.0, or of PostgreSQL 15 for
//! functions that PostgreSQL has.

use crate::common::{MIB, check, engine, error, quoted, show};

const DRAM: u64 = 64 * MIB;

/// Lambdas and list comprehensions of DuckDB.
const LAMBDAS: &[(&str, &str)] = &[
    ("SELECT list_transform([1,2,3], x -> x + 1)", "[2, 3, 4]"),
    ("SELECT list_transform([1,2,3], lambda x: x + 1)", "[2, 3, 4]"),
    ("SELECT list_transform([1,2,3], lambda x, i: x * i)", "[1, 4, 9]"),
    ("SELECT list_transform([10,20], (x, i) -> x + i)", "[11, 22]"),
    ("SELECT list_apply([1,2], x -> x), array_transform([1,2], x -> x * 2)", "[1, 2] [2, 4]"),
    (
        "SELECT list_filter([1,NULL,3], lambda x: x > 1), list_transform([1,NULL], x -> x IS NULL)",
        "[3] [false, true]",
    ),
    ("SELECT list_filter([1,2,3], lambda x, i: i > 1)", "[2, 3]"),
    (
        "SELECT list_filter(NULL::int[], lambda x: true), list_transform([]::int[], lambda x: x)",
        " []",
    ),
    ("SELECT list_transform([1,2], lambda x: NULL)", "[, ]"),
    (
        "SELECT list_transform([[1,2],[3]], lambda x: list_transform(x, lambda y: y * len(x)))",
        "[[2, 4], [3]]",
    ),
    ("SELECT list_reduce([1,2,3], lambda x, y: x + y)", "6"),
    ("SELECT list_reduce([1,2,3], lambda x, y: x + y, 10)", "16"),
    ("SELECT list_reduce([1,2,3], lambda x, y, i: x + y * i)", "14"),
    ("SELECT list_reduce([1,2,3], lambda x, y, i: x + y * i, 0)", "14"),
    ("SELECT list_reduce(NULL::int[], lambda x, y: x + y)", ""),
    ("SELECT list_reduce([]::int[], lambda x, y: x + y, 7)", "7"),
    ("SELECT list_reduce([1,NULL,3], lambda x, y: coalesce(x,0) + coalesce(y,0))", "4"),
    ("SELECT list_reduce(['a','b'], lambda x, y: x || y, 'z')", "zab"),
    (
        "SELECT [1, 2] || NULL, NULL || [1], [1] || NULL::INT, (NULL || NULL) IS NULL",
        "[1, 2] [1] [1, ] true",
    ),
    (
        "SELECT list_reduce([1.5,2.5], lambda x, y: x + y), list_reduce([1.5,2.5], \
         lambda x, y: x * y)",
        "4.0 3.75",
    ),
    ("SELECT [x + 1 FOR x IN [1,2,3] IF x > 1], [x + i FOR x, i IN [10,20]]", "[3, 4] [11, 22]"),
    (
        "SELECT a, list_transform([1,2], x -> x + a) FROM (VALUES (10),(20)) t(a)",
        "10 [11, 12]\n20 [21, 22]",
    ),
    (
        "SELECT id, list_reduce(l, (x, y) -> x + y, id) FROM (VALUES (1, [1,2,3]), (2, \
         NULL), (3, []::bigint[]), (4, [5])) t(id, l) ORDER BY id",
        "1 7\n2 \n3 3\n4 9",
    ),
    // Lists of parameters, and of what an outer query has.
    ("SELECT list_transform([1,2], x -> [x, x + 1])", "[[1, 2], [2, 3]]"),
    ("SELECT [[x, 1] FOR x IN [1,2]]", "[[1, 1], [2, 1]]"),
    (
        "SELECT (SELECT list_transform([1,2], x -> [[x], [a]])) FROM (VALUES (10)) t(a)",
        "[[[1], [10]], [[2], [10]]]",
    ),
    // A name before `->` is a parameter in the argument of such a function alone.
    (r#"SELECT x -> 'a' FROM (VALUES ('{"a":1}')) t(x)"#, "1"),
    (r#"SELECT json_array(j -> 'a', j -> 'b') FROM (VALUES ('{"a":1,"b":[2]}')) t(j)"#, "[1,[2]]"),
    (r#"SELECT list_transform(['{"a":1}'], x -> x -> 'a')"#, "[1]"),
    ("SELECT l[1].a, q.l[2].A, (l[1]).a FROM (SELECT [{'a': 1}, {'a': 2}] AS l) q", "1 2 1"),
    ("SELECT (s).l[1].a.b, ((s).l[1]).a.b FROM (SELECT {'l': [{'a': {'b': 3}}]} AS s) q", "3 3"),
    ("SELECT l[2:3][1].a FROM (SELECT [{'a': 1}, {'a': 2}] AS l) q", "2"),
    ("SELECT lambda FROM (VALUES (1)) t(lambda)", "1"),
];

/// Functions of lists of DuckDB.
const DUCKDB: &[(&str, &str)] = &[
    (
        "SELECT list_sum([1,2,3]), list_avg([1,2]), list_min([3,1]), list_max([3,1]), \
         list_count([1,NULL]), list_product([2,3]), list_median([1,2,10]), \
         list_stddev_samp([1,2,3]), list_var_pop([1,2]), list_mode([1,1,2])",
        "6 1.5 1 3 1 6.0 2.0 1.0 0.25 1",
    ),
    ("SELECT list_sum([]::int[]), list_count([]::int[]), list_sum(NULL::int[])", " 0 "),
    (
        "SELECT list_aggregate([1,2,3], 'sum'), list_aggregate(['a','b'], 'string_agg', '-'), \
         list_aggr([1,2], 'avg'), list_aggregate([1,2,2], 'count'), list_aggregate([3,1], 'first')",
        "6 a-b 1.5 3 3",
    ),
    (
        "SELECT list_bool_and([true,false]), list_string_agg(['a','b']), list_histogram([1,1,2])",
        "false a,b {1: 2, 2: 1}",
    ),
    ("SELECT list_unique([1,1,NULL,2]), list_any_value([NULL,2,3])", "2 2"),
    // Both zeros are equal.
    ("SELECT list_unique([0.0::DOUBLE, -0.0::DOUBLE])", "1"),
    ("SELECT array_remove([-0.0::DOUBLE], 0.0::DOUBLE)", "[]"),
    ("SELECT width_bucket(-0.0::DOUBLE, ARRAY[0.0::DOUBLE])", "1"),
    ("SELECT map_extract(map {0.0::DOUBLE: 'a'}, -0.0::DOUBLE)", "[a]"),
    ("SELECT list_first([1,2]), list_last([1,2]), list_first([]::int[])", "1 2 "),
    ("SELECT list_sort([3,NULL,1]), list_sort([3,NULL,1], 'DESC')", "[1, 3, ] [3, 1, ]"),
    (
        "SELECT list_sort([3,NULL,1], 'ASC', 'NULLS FIRST'), list_reverse_sort([3,NULL,1])",
        "[, 1, 3] [3, 1, ]",
    ),
    ("SELECT list_sort([[2],[1]]), list_sort(['b','a']), list_sort(NULL)", "[[1], [2]] [a, b] "),
    (
        "SELECT list_grade_up([30,10,20]), list_grade_up([30,10,NULL]), \
         list_grade_up([30,10], 'DESC')",
        "[2, 3, 1] [2, 1, 3] [1, 2]",
    ),
    (
        "SELECT list_where([1,2,3], [true,false,true]), list_select([10,20,30], [1,3]), \
         list_select([10], [2])",
        "[1, 3] [10, 30] []",
    ),
    (
        "SELECT list_resize([1,2], 3), list_resize([1,2], 3, 0), list_resize([1,2,3], 1)",
        "[1, 2, ] [1, 2, 0] [1]",
    ),
    (
        "SELECT flatten([[1],[2,3],NULL]), list_value(1,2), list_pack(1,2), len([1,2]), len('abc')",
        "[1, 2, 3] [1, 2] [1, 2] 2 3",
    ),
    (
        "SELECT list_slice([1,2,3], 2, 3), list_slice([1,2,3,4], 1, 4, 2), \
         list_slice([1,2,3], -2, -1)",
        "[2, 3] [1, 3] [2, 3]",
    ),
    ("SELECT list_contains([1,2], 2), list_position([1,2], 2), list_position([1], 5)", "true 2 "),
    (
        "SELECT list_has_any([1], [1,2]), list_has_all([1,2], [1]), list_intersect([1,2], [2])",
        "true true [2]",
    ),
    ("SELECT [generate_series(1, 5, 2)], range(3), range(1, 3)", "[[1, 3, 5]] [0, 1, 2] [1, 2]"),
    ("SELECT struct_pack(a := 1, b := 'x'), struct_extract({'a': 1}, 'a')", "{a: 1, b: x} 1"),
    (
        "SELECT struct_insert({'a': 1}, b := 2), struct_update({'a': 1}, a := 3)",
        "{a: 1, b: 2} {a: 3}",
    ),
    (
        "SELECT map_from_entries([(1,'a'),(2,'b')]), map_contains(MAP {'a': 1}, 'a')",
        "{1: a, 2: b} true",
    ),
    (
        "SELECT map_extract_value(MAP {'a': 1}, 'a'), element_at(MAP {'a': 1}, 'b'), \
         cardinality(MAP {'a': 1})",
        "1 [] 1",
    ),
];

/// Functions of arrays of PostgreSQL.
const POSTGRES: &[(&str, &str)] = &[
    (
        "SELECT array_upper(ARRAY[1,2,3], 1), array_lower(ARRAY[1,2], 1), array_upper(ARRAY[1], 2)",
        "3 1 ",
    ),
    (
        "SELECT array_ndims(ARRAY[[1,2],[3,4]]), cardinality(ARRAY[[1,2],[3,4]]), \
         array_dims(ARRAY[[1,2],[3,4]])",
        "2 4 [1:2][1:2]",
    ),
    ("SELECT array_upper(ARRAY[[1,2,3],[4,5,6]], 2), array_upper(ARRAY[]::int[], 1)", "3 "),
    ("SELECT array_remove(ARRAY[1,2,1,NULL], 1), array_remove(ARRAY[1,NULL], NULL)", "[2, ] [1]"),
    (
        "SELECT array_replace(ARRAY[1,2,1], 1, 9), array_replace(ARRAY[1,NULL], NULL, 0)",
        "[9, 2, 9] [1, 0]",
    ),
    ("SELECT array_fill(7, ARRAY[3]), trim_array(ARRAY[1,2,3], 1)", "[7, 7, 7] [1, 2]"),
    ("SELECT array_positions(ARRAY[1,2,1], 1), array_position(ARRAY[1,2,1], 1, 2)", "[1, 3] 3"),
    (
        "SELECT array_to_string(ARRAY[1,NULL,3], ','), array_to_string(ARRAY[1,NULL,3], ',', '*')",
        "1,3 1,*,3",
    ),
    (
        "SELECT string_to_array('a,b', ','), string_to_array('abc', NULL), \
         string_to_array('a,b,', ',', 'b')",
        "[a, b] [a, b, c] [a, , ]",
    ),
    (
        "SELECT ARRAY[1,2] @> ARRAY[1], ARRAY[1,2] && ARRAY[2,3], ARRAY[1,2] <@ ARRAY[1,2,3]",
        "true true true",
    ),
    (
        "SELECT array_append(ARRAY[1], 2), array_prepend(0, ARRAY[1]), \
         array_cat(ARRAY[1], ARRAY[2])",
        "[1, 2] [0, 1] [1, 2]",
    ),
];

#[tokio::test]
async fn functions_return_what_postgresql_and_duckdb_return() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    check(&session, LAMBDAS).await;
    check(&session, DUCKDB).await;
    check(&session, POSTGRES).await;
}

#[tokio::test]
async fn columns_of_lists_are_like_constants() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let table = "CREATE TABLE t AS SELECT n, range(n) AS l FROM generate_series(0, 999) s(n)";
    show(&session, table).await;
    let cases = [
        ("SELECT sum(list_sum(list_transform(l, x -> x + 1))) FROM t", "166666500"),
        ("SELECT sum(list_reduce(l, (x, y) -> x + y, 0)) FROM t", "166167000"),
        ("SELECT count(*) FROM t WHERE len(list_filter(l, (x, i) -> x = i - 1)) = n", "1000"),
        ("SELECT count(*) FROM t WHERE list_sort(list_reverse_sort(l)) = l", "1000"),
        ("SELECT sum(list_unique(l)), max(array_upper(l, 1)) FROM t", "499500 999"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn errors_name_the_function_and_its_argument() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("SELECT list_reduce([]::int[], lambda x, y: x + y)", "list_reduce of an empty list"),
        ("SELECT list_transform(1, x -> x)", "list_transform takes a list as its first argument"),
        ("SELECT list_transform([1], 2)", "list_transform takes a list and a lambda"),
        ("SELECT list_filter([1], x -> x + 1)", "the lambda returns Int64; give a condition"),
        ("SELECT list_aggregate([1], 'nix')", "there is no aggregate \"nix\""),
        ("SELECT list_sum(1)", "list_sum takes a list"),
        ("SELECT list_sum([9223372036854775807, 1])", "bigint out of range"),
        ("SELECT list_sort([1], 'UP')", "\"UP\" is no order"),
        ("SELECT range(1, 30000000)", "a list of 29999999 elements is too long"),
        ("SELECT array_repeat(1, 1000000000)", "a list of 1000000000 elements is too long"),
        ("SELECT list_resize([1], 1000000000)", "a list of 1000000000 elements is too long"),
        ("SELECT array_fill(1, [100000000])", "array_fill makes at most"),
        ("SELECT trim_array([1], 2)", "the number of elements must be between 0 and 1"),
        ("SELECT struct_insert({'a': 1}, a := 2)", "the struct has a member \"a\""),
        ("SELECT struct_insert(1, a := 2)", "struct_insert takes a struct, not Int64"),
        ("SELECT struct_pack(1)", "the argument 1 of a struct"),
        ("SELECT map_from_entries([(1,'a'),(1,'b')])", "the keys of a map are different"),
    ];
    for (statement, expected) in cases {
        let found = error(&session, statement).await;
        assert!(found.contains(expected), "{statement}: {found}");
    }
}

/// The file that DuckDB writes, but for times.
#[tokio::test]
async fn nested_values_are_texts_in_csv_files() {
    let directory = tempfile::tempdir().expect("directory");
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let (path, name) = quoted(directory.path(), "nested.csv");
    let copy = format!(
        "COPY (SELECT [1,NULL,3] AS l, ['a','b,c','d''e'] AS t, {{'a':1,'b':'x'}} AS s, \
         MAP {{'k':1.5}} AS m, [DATE '2024-01-01'] AS d, [[1],[]] AS n, [true] AS b, \
         ['', 'NULL', 'a b', '[x]', '{{y}}', 'a\"b', ' s'] AS q, 7 AS i) TO {name}"
    );
    show(&session, &copy).await;
    let expected = "l,t,s,m,d,n,b,q,i\n\"[1, NULL, 3]\",\"[a, 'b,c', 'd\\'e']\",\"{'a': 1, 'b': \
                    x}\",{k=1.5},[2024-01-01],\"[[1], []]\",[true],\"['', 'NULL', a b, '[x]', \
                    '{y}', 'a\"\"b', ' s']\",7\n";
    assert_eq!(std::fs::read_to_string(path).expect("file"), expected);
}
