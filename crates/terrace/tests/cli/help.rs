//! Commands of the prompt that begin with a dot or a backslash, and the place of syntax errors.

use crate::harness::Home;
use crate::prompt::typed;

#[test]
fn commands_with_a_dot() {
    let home = Home::new();
    let file = home.write("more.sql", "INSERT INTO t VALUES (1, 'x');\n");
    let text = format!(
        "CREATE TABLE t (k BIGINT NOT NULL, s VARCHAR);\nCREATE VIEW v AS SELECT k FROM t;\n\
         .read {}\n.tables\n.schema t\n.schema\n.mode\n.mode csv\nSELECT * FROM t;\n.timer on\n\
         SELECT 7 AS seven;\n.timer off\n.databases\n.help\n.quit\nSELECT 42;\n",
        file.display()
    );
    let ran = typed(&home, &["sql", "--dram", "64MiB"], &text);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in [
        "public   v ",
        "k BIGINT NOT NULL,\n  s VARCHAR\n);\n",
        "CREATE VIEW v AS SELECT k FROM t;\n",
        "the format of results is table\n",
        "the format of results is csv\nk,s\n1,x\n",
        "timing is on\nseven\n7\n",
        " s\ntiming is off\n",
        "main",
        "SUMMARIZE table",
    ] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.out.contains("42") && !ran.out.contains("pg_class"), "{ran:?}");
}

#[test]
fn definitions_can_be_run_again() {
    let home = Home::new();
    let create = "CREATE SCHEMA s; CREATE TABLE t (a INTEGER[], \"B c\" DECIMAL(5,2) NOT NULL); \
                  CREATE TABLE s.u (x TIMESTAMP); CREATE VIEW v AS SELECT a FROM t;\n.schema\n";
    let ran = typed(&home, &["sql", "--dram", "64MiB"], create);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let again = format!("CREATE SCHEMA s;\n{}.schema\n", ran.out);
    let second = typed(&home, &["sql", "--dram", "64MiB"], &again);
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.out, ran.out);
}

#[test]
fn lists_with_a_backslash() {
    let home = Home::new();
    let text = "CREATE TABLE t (k BIGINT);\nCREATE VIEW v AS SELECT k FROM t;\n\\dt\n\
                SELECT 'between';\n\\dv\n\\df array_app\n\\timing off\n";
    let ran = typed(&home, &["sql", "--dram", "64MiB"], text);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (tables, views) = ran.out.split_once("between").expect("both lists");
    assert!(tables.contains("public  t") && !tables.contains("public  v"), "{ran:?}");
    assert!(views.contains("public  v") && !views.contains("public  t"), "{ran:?}");
    assert!(views.contains("array_append                 scalar"), "{ran:?}");
}

#[test]
fn wrong_commands_have_one_clear_error() {
    let home = Home::new();
    for (wrong, part) in [
        (".nonsense", "there is no command .nonsense"),
        (".mode xml", "table, csv, json, ndjson and lines"),
        (".timer maybe", "there is no command .timer maybe"),
        (".read /no/such.sql", "/no/such.sql"),
        (".schema tt", "did you mean t?"),
        ("\\d tt", "there is no table tt; \\d lists them; did you mean t?"),
        ("\\di", "there are no indexes"),
        ("\\e", "there is no command \\e"),
        ("SELECT * FROM tt", "did you mean t?"),
        ("SELECT kk FROM t", "kk"),
        ("INSTALL httpfs", "INSTALL httpfs is not possible"),
    ] {
        let text = format!("CREATE TABLE t (k BIGINT);\n{wrong}\n;SELECT 42;\n");
        let ran = typed(&home, &["sql", "--dram", "64MiB"], &text);
        assert_eq!(ran.code, Some(1), "{wrong}: {ran:?}");
        assert!(ran.err.contains(part) && !ran.out.contains("42"), "{wrong}: {ran:?}");
    }
}

#[test]
fn syntax_errors_show_their_line() {
    let home = Home::new();
    for (wrong, part) in [
        ("SELCT 1", "LINE 1: SELCT 1\n        ^\n"),
        ("SELECT 1\nORDER SELECT 2", "LINE 2: ORDER SELECT 2\n        ^\n"),
    ] {
        let ran = home.run(&["sql", "--dram", "64MiB", "-c", wrong]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains(part), "{wrong}: {ran:?}");
    }
}

#[test]
fn the_catalog_of_postgres_is_there() {
    let home = Home::new();
    let text = "CREATE TABLE t (k INTEGER NOT NULL, s VARCHAR); CREATE VIEW v AS SELECT k FROM t;\n\
                .mode csv\n\
                SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'public';\n\
                SELECT viewname FROM pg_views WHERE schemaname = 'public';\n\
                SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                WHERE table_name = 't' ORDER BY ordinal_position;\n\
                SELECT table_name FROM information_schema.views WHERE table_schema = 'public';\n\
                SELECT 't'::regclass::text AS name, current_schema() AS here;\n\
                SET search_path = nope, public;\n\
                SELECT count(*) AS n FROM pg_class WHERE relname = 't';\n";
    let ran = typed(&home, &["sql", "--dram", "64MiB"], text);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in [
        "tablename\nt\n",
        "viewname\nv\n",
        "k,integer,NO\ns,text,YES\n",
        "table_name\nv\n",
        "name,here\nt,public\n",
        "n\n1\n",
    ] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn functions_of_the_catalog_leave_those_of_the_session() {
    let home = Home::new();
    let text = "SELECT format('{} {:>3}', 1, 2) AS f, md5('\\x41') AS m, \
                age(TIMESTAMP '2024-03-01', TIMESTAMP '2024-01-01') IS NULL AS a, age(7) AS x";
    let ran = home.run(&["sql", "--dram", "64MiB", "--format", "csv", "-c", text]);
    assert_eq!(ran.out, "f,m,a,x\n1   2,4cb0d3c78dfb3f54e63789df0d6172a0,false,0\n", "{ran:?}");
}
