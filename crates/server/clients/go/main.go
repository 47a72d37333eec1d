// pgx: binary values, prepared statements, batches, COPY, transactions, database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var ctx = context.Background()

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func place() string {
	return fmt.Sprintf("host=%s port=%s user=%s password='%s' dbname=%s sslmode=%s",
		or(os.Getenv("TERRACE_HOST"), "127.0.0.1"), os.Getenv("TERRACE_PORT"),
		os.Getenv("TERRACE_USER"), os.Getenv("TERRACE_PASSWORD"),
		or(os.Getenv("TERRACE_DATABASE"), "main"), or(os.Getenv("TERRACE_SSLMODE"), "require"))
}

func connect() *pgx.Conn {
	connection, err := pgx.Connect(ctx, place())
	must(err)
	return connection
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%#v is not %#v", found, expected))
	}
}

func state(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return fmt.Sprint(err)
}

func values() {
	connection := connect()
	defer connection.Close(ctx)
	var i int32
	var l int64
	var f float64
	var b bool
	var t, n string
	var y []byte
	var d, z time.Time
	var a []int64
	var missing *string
	when := time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC)
	row := connection.QueryRow(ctx, "SELECT $1::integer, $2::bigint, $3::double precision, "+
		"$4::boolean, $5::text, $6::numeric(8, 3)::text, $7::bytea, $8::date, $9::timestamptz, "+
		"$10::bigint[], $11::text", 7, int64(1)<<40, 0.25, true, "it's \u2602", "12.500",
		[]byte{0, 255}, when.Truncate(24*time.Hour), when, []int64{1, 2, 3}, nil)
	must(row.Scan(&i, &l, &f, &b, &t, &n, &y, &d, &z, &a, &missing))
	same([]any{i, l, f, b, t, n, y, a}, []any{int32(7), int64(1) << 40, 0.25, true, "it's \u2602",
		"12.500", []byte{0, 255}, []int64{1, 2, 3}})
	same(d, when.Truncate(24*time.Hour))
	same(z.UTC(), when)
	same(missing, (*string)(nil))
}

func tables() {
	connection := connect()
	defer connection.Close(ctx)
	for _, text := range []string{"DROP TABLE IF EXISTS go_t",
		"CREATE TABLE go_t (k BIGINT, v TEXT, f DOUBLE PRECISION, s TIMESTAMP)"} {
		_, err := connection.Exec(ctx, text)
		must(err)
	}
	when := time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC)
	rows := make([][]any, 10000)
	for n := range rows {
		rows[n] = []any{int64(n), fmt.Sprint("v", n), float64(n) / 4, when}
	}
	columns := []string{"k", "v", "f", "s"}
	count, err := connection.CopyFrom(ctx, pgx.Identifier{"go_t"}, columns, pgx.CopyFromRows(rows))
	must(err)
	same(count, int64(10000))
	found, err := connection.Query(ctx, "SELECT k FROM go_t WHERE k < $1 ORDER BY k", 5)
	must(err)
	keys, err := pgx.CollectRows(found, pgx.RowTo[int64])
	must(err)
	same(keys, []int64{0, 1, 2, 3, 4})
	changed, err := connection.Exec(ctx, "UPDATE go_t SET v = $1 WHERE k >= $2", "x", 9000)
	must(err)
	same(changed.RowsAffected(), int64(1000))
}

func batches() {
	connection := connect()
	defer connection.Close(ctx)
	batch := &pgx.Batch{}
	for n := range 50 {
		batch.Queue("SELECT $1::bigint * 2", n)
	}
	results := connection.SendBatch(ctx, batch)
	for n := range 50 {
		var doubled int64
		must(results.QueryRow().Scan(&doubled))
		same(doubled, int64(2*n))
	}
	must(results.Close())
}

func transactions() {
	connection := connect()
	defer connection.Close(ctx)
	_, err := connection.Exec(ctx, "DROP TABLE IF EXISTS go_s; CREATE TABLE go_s (x BIGINT)")
	must(err)
	must(pgx.BeginFunc(ctx, connection, func(transaction pgx.Tx) error {
		_, err := transaction.Exec(ctx, "INSERT INTO go_s VALUES (1)")
		must(err)
		inner, err := transaction.Begin(ctx)
		must(err)
		_, err = inner.Exec(ctx, "INSERT INTO go_s VALUES (2)")
		must(err)
		return inner.Rollback(ctx)
	}))
	var sum int64
	must(connection.QueryRow(ctx, "SELECT sum(x)::bigint FROM go_s").Scan(&sum))
	same(sum, int64(1))
}

func modes() {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		connection := connect()
		for n := range 3 {
			var sum int64
			must(connection.QueryRow(ctx, "SELECT $1::bigint + 1", mode, n).Scan(&sum))
			same(sum, int64(n+1))
		}
		must(connection.Close(ctx))
	}
}

func standard() {
	database, err := sql.Open("pgx", place())
	must(err)
	defer database.Close()
	statement, err := database.Prepare("SELECT value FROM generate_series(1, $1::bigint) AS g(value)")
	must(err)
	rows, err := statement.Query(100)
	must(err)
	count := 0
	for rows.Next() {
		count++
	}
	must(rows.Err())
	same(count, 100)
}

func pools() {
	pool, err := pgxpool.New(ctx, place())
	must(err)
	defer pool.Close()
	ends := make(chan error)
	for n := range 40 {
		go func() {
			var doubled int64
			err := pool.QueryRow(ctx, "SELECT $1::bigint * 2", n).Scan(&doubled)
			if err == nil && doubled != int64(2*n) {
				err = fmt.Errorf("%d is not %d", doubled, 2*n)
			}
			ends <- err
		}()
	}
	for range 40 {
		must(<-ends)
	}
}

func failures() {
	connection := connect()
	defer connection.Close(ctx)
	for text, expected := range map[string]string{"SELECT * FROM missing_table": "42P01",
		"SELECT 1 / 0": "22012", "SELEC 1": "42601"} {
		_, err := connection.Exec(ctx, text)
		same(state(err), expected)
	}
	limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := connection.Exec(limited, "SELECT count(*) FROM generate_series(1, 1000000000000) a")
	if err == nil {
		panic("a late statement has ended")
	}
}

func main() {
	checks := []struct {
		name string
		run  func()
	}{
		{"values and parameters", values}, {"tables and COPY", tables}, {"batches", batches},
		{"transactions and savepoints", transactions}, {"all modes of execution", modes},
		{"database/sql", standard}, {"a pool serves many at once", pools},
		{"errors and limits of time", failures},
	}
	fmt.Printf("1..%d\n", len(checks))
	failed := false
	for index, check := range checks {
		func() {
			defer func() {
				if problem := recover(); problem != nil {
					failed = true
					fmt.Printf("not ok %d - %s\n", index+1, check.name)
					fmt.Println("# " + strings.ReplaceAll(fmt.Sprint(problem), "\n", "\n# "))
				}
			}()
			check.run()
			fmt.Printf("ok %d - %s\n", index+1, check.name)
		}()
	}
	if failed {
		os.Exit(1)
	}
}
