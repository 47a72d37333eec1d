//! Encodings and numbers of delimited values, values of JSON that are no objects, and whole files,
//! with the rows that DuckDB 2.0 returns.

use crate::common::show;
use crate::file_functions::Home;

/// UTF-16 with a byte order mark.
fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_have_encodings() {
    let home = Home::new();
    home.write("l.csv", b"a,b\n1,\xe9\n2,\xfc\n");
    home.write("u.csv", &utf16("a,b\n1,\u{e9}\n2,\u{1f600}\n"));
    home.write("h.csv", &utf16("a,b\n1,x"));
    home.write("odd.csv", b"a,b\n1,2\n3");
    home.check(&[
        ("SELECT a + 1, b FROM read_csv('@/l.csv', encoding = 'latin-1')", "2 \u{e9}\n3 \u{fc}"),
        (
            "SELECT a, b FROM read_csv('@/l.csv', encoding = 'ISO-8859-1', skip = 0)",
            "1 \u{e9}\n2 \u{fc}",
        ),
        ("SELECT a + 1, b FROM read_csv('@/u.csv', encoding = 'utf-16')", "2 \u{e9}\n3 \u{1f600}"),
        ("SELECT count(*) FROM read_csv('@/h.csv', encoding = 'UTF16')", "1"),
    ])
    .await;
    home.refuse(&[
        ("SELECT * FROM read_csv('@/l.csv')", &["@/l.csv, line 2", "not UTF-8"]),
        ("SELECT * FROM read_csv('@/l.csv', encoding = 'utf-7')", &["utf-8, latin-1 or utf-16"]),
        ("SELECT * FROM read_csv('@/odd.csv', encoding = 'utf-16')", &["@/odd.csv", "no UTF-16"]),
        ("COPY (SELECT 1) TO '@/x.csv' (ENCODING 'latin1')", &["use UTF8"]),
    ])
    .await;
    show(&home.session, "CREATE TABLE t (a INT, b TEXT)").await;
    let copy = "COPY t FROM '@/l.csv' (FORMAT csv, HEADER, ENCODING 'LATIN1')";
    show(&home.session, &home.text(copy)).await;
    let copy = "COPY t FROM '@/u.csv' (HEADER, ENCODING 'utf-16')";
    show(&home.session, &home.text(copy)).await;
    home.check(&[("SELECT b FROM t ORDER BY a, b", "\u{e9}\n\u{e9}\n\u{fc}\n\u{1f600}")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_have_separators() {
    let home = Home::new().with(&[
        ("a.csv", "a;b\n1,5;2\n2,25;3\n"),
        ("b.csv", "a;b\n1,5;2\n1.234,25;3\n"),
        ("c.csv", "a;b\n1.234;x\n5.678;y\n"),
        ("d.csv", "a;b\n1.5;x\n"),
    ]);
    home.check(&[
        ("SELECT a * 2, b FROM read_csv('@/a.csv', decimal_separator = ',')", "3.0 2\n4.5 3"),
        ("SELECT a || 'x' FROM read_csv('@/b.csv', decimal_separator = ',')", "1,5x\n1.234,25x"),
        (
            "SELECT a FROM read_csv('@/b.csv', decimal_separator = ',', thousands = '.')",
            "1.5\n1234.25",
        ),
        (
            "SELECT a + 1, b FROM read_csv('@/c.csv', decimal_separator = ',', thousands = '.')",
            "1235 x\n5679 y",
        ),
        (
            "SELECT a FROM read_csv('@/b.csv', delim = ';', decimal_separator = ',', \
             thousands = '.', types = {'a': 'DECIMAL(10, 2)'})",
            "1.50\n1234.25",
        ),
        ("SELECT a || 'x' FROM read_csv('@/d.csv', decimal_separator = ',')", "1.5x"),
    ])
    .await;
    home.refuse(&[
        ("SELECT * FROM read_csv('@/a.csv', decimal_separator = ';')", &["'.' or ','"]),
        ("SELECT * FROM read_csv('@/a.csv', thousands = '.')", &["the same character"]),
        ("SELECT * FROM read_csv('@/a.csv', thousands = 'ab')", &["one character"]),
        (
            "SELECT * FROM read_csv('@/d.csv', delim = ';', decimal_separator = ',', \
             types = {'a': 'DOUBLE'})",
            &["@/d.csv, line 2", "'1.5' is no DOUBLE"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_are_no_objects_are_a_column() {
    let home = Home::new().with(&[
        ("s.json", "[1,2,3]"),
        ("l.json", "1\n2\n\"x\"\n"),
        ("aa.json", "[[1,2],[3]]"),
        ("al.json", "[1,2]\n[3]\n"),
        ("ao.json", "[{\"a\":1}]\n[{\"a\":2}]\n"),
        ("top.json", "\"x\""),
        ("mix.json", "[1, \"x\", null, {\"a\":  1, \"b c\": [1, 2]}]"),
        ("o.json", "{\"a\":1}\n{\"a\":2}\n"),
        ("n.json", "{\"a\":1}\nnull\n{\"a\":2}"),
        ("null.json", "null\nnull"),
        ("d.json", "[\"2024-01-02\",\"2024-02-03\"]"),
    ]);
    home.check(&[
        ("SELECT json + 1 FROM '@/s.json'", "2\n3\n4"),
        ("SELECT json FROM '@/l.json'", "1\n2\n\"x\""),
        ("SELECT json[1] FROM '@/aa.json'", "1\n3"),
        ("SELECT json[1] FROM '@/al.json'", "1\n3"),
        ("SELECT json[1]['a'] FROM '@/ao.json'", "1\n2"),
        ("SELECT json FROM '@/top.json'", "x"),
        ("SELECT json FROM '@/mix.json'", "1\n\"x\"\n\n{\"a\":1,\"b c\":[1,2]}"),
        ("SELECT json ->> 'b c' FROM '@/mix.json'", "\n\n\n[1,2]"),
        ("SELECT count(*) FROM '@/mix.json'", "4"),
        ("SELECT json['a'] FROM read_json('@/o.json', records = false)", "1\n2"),
        ("SELECT a FROM read_json('@/o.json', records = 'auto')", "1\n2"),
        ("SELECT a FROM read_json('@/n.json')", "1\n\n2"),
        ("SELECT json FROM '@/null.json'", "\n"),
        ("SELECT json + INTERVAL '1 day' = '2024-01-03' FROM '@/d.json'", "true\nfalse"),
        ("SELECT json FROM read_json('@/s.json', format = 'unstructured')", "[1, 2, 3]"),
        ("SELECT json[1]['a'] FROM read_json('@/ao.json', format = 'nd')", "1\n2"),
        ("SELECT a + 1 FROM read_json('@/s.json', columns = {'a': 'INT'})", "2\n3\n4"),
        (
            "SELECT x['a'] FROM read_json('@/o.json', columns = {'x': 'STRUCT<a INT>'}, \
             records = false)",
            "1\n2",
        ),
        ("SELECT json FROM read_json(['@/s.json', '@/o.json'])", "1\n2\n3\n{\"a\":1}\n{\"a\":2}"),
        (
            "SELECT json FROM read_json_objects('@/mix.json')",
            "1\n\"x\"\nnull\n{\"a\":  1, \"b c\": [1, 2]}",
        ),
        ("SELECT json ->> 'a' FROM read_ndjson_objects('@/o.json')", "1\n2"),
        ("SELECT count(*) FROM read_json_objects('@/aa.json', format = 'unstructured')", "1"),
    ])
    .await;
    home.refuse(&[
        ("SELECT * FROM read_json('@/s.json', records = true)", &["@/s.json", "no objects"]),
        ("SELECT * FROM read_json('@/s.json', records = 3)", &["true, false or auto"]),
        (
            "SELECT * FROM read_json('@/o.json', columns = {'a': 'INT', 'b': 'INT'}, \
             records = false)",
            &["one column"],
        ),
        (
            "SELECT a FROM read_json('@/o.json', columns = {'a': 'INT'}, records = false)",
            &["line 1"],
        ),
    ])
    .await;
    show(&home.session, "CREATE TABLE j (x INT)").await;
    show(&home.session, &home.text("COPY j FROM '@/s.json'")).await;
    home.check(&[("SELECT sum(x) FROM j", "6")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_files_are_rows() {
    let home = Home::new().with(&[("a.txt", "one\ntwo\n"), ("b.txt", "")]);
    home.write("c.bin", b"\x80\xff");
    let sparse = std::fs::File::create(home.path("big.bin")).expect("a file");
    sparse.set_len(3 << 30).expect("a length");
    home.check(&[
        ("SELECT size FROM read_blob('@/big.bin')", "3221225472"),
        ("SELECT content LIKE 'Linux%', size FROM read_text('/proc/version')", "true 0"),
        ("SELECT content, size FROM read_text('@/a.txt')", "one\ntwo\n 8"),
        ("SELECT size FROM read_text('@/*.txt') ORDER BY filename", "8\n0"),
        ("SELECT filename FROM read_blob(['@/a.txt', '@/c.bin'])", "@/a.txt\n@/c.bin"),
        ("SELECT content, size FROM read_blob('@/c.bin')", "80ff 2"),
        ("SELECT size FROM read_text('@/c.bin')", "2"),
        ("SELECT last_modified > '2020-01-01' FROM read_text('@/a.txt')", "true"),
        ("SELECT count(*) FROM read_text('@/nosuch*')", "0"),
        ("SELECT count(*) FROM read_text('@/nosuch')", "0"),
    ])
    .await;
    home.refuse(&[
        ("SELECT content FROM read_text('@/c.bin')", &["@/c.bin is not UTF-8", "read_blob"]),
        ("SELECT content FROM read_text('@/a.txt', nosuch = 1)", &["no option nosuch"]),
        (
            "SELECT content FROM read_blob('@/big.bin')",
            &["@/big.bin has 3221225472 bytes", "split the file"],
        ),
    ])
    .await;
    show(&home.session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'").await;
    show(&home.session, "CREATE ROLE ada; SET ROLE ada").await;
    home.refuse(&[("SELECT * FROM read_text('@/a.txt')", &["permission denied"])]).await;
}
