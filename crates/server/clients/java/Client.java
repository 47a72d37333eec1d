// pgjdbc: values, prepared statements, batches, fetch size, COPY, metadata, transactions.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import org.postgresql.PGConnection;

public final class Client {
    interface Check {
        void run() throws Exception;
    }

    static String environment(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    static Connection connect(String... settings) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", environment("TERRACE_USER", "admin"));
        properties.setProperty("password", environment("TERRACE_PASSWORD", ""));
        properties.setProperty("sslmode", environment("TERRACE_SSLMODE", "require"));
        for (int at = 0; at < settings.length; at += 2) {
            properties.setProperty(settings[at], settings[at + 1]);
        }
        String url = "jdbc:postgresql://" + environment("TERRACE_HOST", "127.0.0.1") + ":"
            + environment("TERRACE_PORT", "5432") + "/" + environment("TERRACE_DATABASE", "main");
        return DriverManager.getConnection(url, properties);
    }

    static void same(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    static void run(Connection connection, String... texts) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : texts) {
                statement.execute(text);
            }
        }
    }

    static List<List<Object>> rows(ResultSet result) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        int columns = result.getMetaData().getColumnCount();
        while (result.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= columns; column++) {
                row.add(result.getObject(column));
            }
            rows.add(row);
        }
        return rows;
    }

    static void values() throws Exception {
        String text = "SELECT ?::integer, ?::bigint, ?::double precision, ?::boolean, ?::text, "
            + "?::numeric(10, 2), ?::date, ?::timestamp, ?::bytea, ?::text";
        OffsetDateTime when = OffsetDateTime.of(2024, 2, 29, 12, 34, 56, 0, ZoneOffset.UTC);
        // The driver names a statement that has run five times, and takes its results in binary.
        for (String mode : List.of("extended", "extendedCacheEverything", "simple")) {
            try (Connection connection = connect("preferQueryMode", mode);
                 PreparedStatement statement = connection.prepareStatement(text)) {
                for (int times = 0; times < 8; times++) {
                    statement.setInt(1, 7);
                    statement.setLong(2, 1L << 40);
                    statement.setDouble(3, 0.1);
                    statement.setBoolean(4, true);
                    statement.setString(5, "it's \u2602");
                    statement.setBigDecimal(6, new BigDecimal("12.50"));
                    statement.setObject(7, LocalDate.of(2024, 2, 29));
                    statement.setTimestamp(8, Timestamp.valueOf("2024-02-29 12:34:56.789"));
                    statement.setBytes(9, new byte[] {0, -1});
                    statement.setNull(10, Types.VARCHAR);
                    try (ResultSet result = statement.executeQuery()) {
                        same(result.next(), true);
                        same(result.getInt(1), 7);
                        same(result.getLong(2), 1L << 40);
                        same(result.getDouble(3), 0.1);
                        same(result.getBoolean(4), true);
                        same(result.getString(5), "it's \u2602");
                        same(result.getBigDecimal(6), new BigDecimal("12.50"));
                        same(result.getDate(7), Date.valueOf("2024-02-29"));
                        same(result.getTimestamp(8), Timestamp.valueOf("2024-02-29 12:34:56.789"));
                        same(result.getBytes(9), new byte[] {0, -1});
                        same(result.getString(10), null);
                    }
                }
            }
        }
        try (Connection connection = connect();
             PreparedStatement statement = connection.prepareStatement("SELECT ?::timestamptz")) {
            statement.setObject(1, when);
            try (ResultSet result = statement.executeQuery()) {
                result.next();
                same(result.getObject(1, OffsetDateTime.class).toInstant(), when.toInstant());
            }
        }
    }

    static void batches() throws Exception {
        for (String rewrites : List.of("false", "true")) {
            try (Connection connection = connect("reWriteBatchedInserts", rewrites)) {
                run(connection, "DROP TABLE IF EXISTS jdbc_b", "CREATE TABLE jdbc_b (k BIGINT, v TEXT)");
                try (PreparedStatement insert =
                         connection.prepareStatement("INSERT INTO jdbc_b VALUES (?, ?)")) {
                    for (int row = 0; row < 500; row++) {
                        insert.setLong(1, row);
                        insert.setString(2, "v" + row);
                        insert.addBatch();
                    }
                    same(insert.executeBatch().length, 500);
                }
                try (Statement statement = connection.createStatement()) {
                    same(rows(statement.executeQuery("SELECT count(*), sum(k)::bigint FROM jdbc_b")),
                        List.of(List.of(500L, 124750L)));
                    same(statement.executeUpdate("UPDATE jdbc_b SET v = 'x' WHERE k < 100"), 100);
                }
            }
        }
    }

    static void fetchSize() throws Exception {
        try (Connection connection = connect()) {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(100);
                ResultSet result = statement.executeQuery(
                    "SELECT value FROM generate_series(1, 20000) AS g(value) ORDER BY value");
                long sum = 0;
                while (result.next()) {
                    sum += result.getLong(1);
                }
                same(sum, 200010000L);
            }
            connection.commit();
        }
    }

    static void copy() throws Exception {
        try (Connection connection = connect()) {
            run(connection, "DROP TABLE IF EXISTS jdbc_c", "CREATE TABLE jdbc_c (k BIGINT, v TEXT)");
            StringBuilder lines = new StringBuilder();
            for (int row = 0; row < 10000; row++) {
                lines.append(row).append(",v").append(row).append('\n');
            }
            var manager = connection.unwrap(PGConnection.class).getCopyAPI();
            String in = "COPY jdbc_c FROM STDIN (FORMAT csv)";
            same(manager.copyIn(in, new StringReader(lines.toString())), 10000L);
            StringWriter out = new StringWriter();
            manager.copyOut("COPY (SELECT * FROM jdbc_c ORDER BY k) TO STDOUT (FORMAT csv)", out);
            same(out.toString(), lines.toString());
        }
    }

    static void transactions() throws Exception {
        try (Connection connection = connect()) {
            run(connection, "DROP TABLE IF EXISTS jdbc_t", "CREATE TABLE jdbc_t (x BIGINT)");
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            connection.setAutoCommit(false);
            run(connection, "INSERT INTO jdbc_t VALUES (1)");
            Savepoint savepoint = connection.setSavepoint("here");
            run(connection, "INSERT INTO jdbc_t VALUES (2)");
            connection.rollback(savepoint);
            connection.commit();
            connection.setReadOnly(true);
            try (Statement statement = connection.createStatement()) {
                same(rows(statement.executeQuery("SELECT x FROM jdbc_t")), List.of(List.of(1L)));
            }
            connection.rollback();
        }
    }

    static void metadata() throws Exception {
        try (Connection connection = connect()) {
            run(connection, "DROP TABLE IF EXISTS jdbc_m",
                "CREATE TABLE jdbc_m (k BIGINT NOT NULL, v VARCHAR, n NUMERIC(10, 2), d DATE)");
            DatabaseMetaData metadata = connection.getMetaData();
            same(metadata.getDatabaseProductName(), "PostgreSQL");
            List<String> columns = new ArrayList<>();
            try (ResultSet result = metadata.getColumns(null, "public", "jdbc_m", "%")) {
                while (result.next()) {
                    columns.add(result.getString("COLUMN_NAME") + " "
                        + result.getInt("DATA_TYPE") + " " + result.getString("IS_NULLABLE"));
                }
            }
            same(columns, List.of("k " + Types.BIGINT + " NO", "v " + Types.VARCHAR + " YES",
                "n " + Types.NUMERIC + " YES", "d " + Types.DATE + " YES"));
            List<String> tables = new ArrayList<>();
            String[] kinds = {"TABLE"};
            try (ResultSet result = metadata.getTables(null, "public", "jdbc_%", kinds)) {
                while (result.next()) {
                    tables.add(result.getString("TABLE_NAME"));
                }
            }
            same(tables.contains("jdbc_m"), true);
            List<String> schemas = new ArrayList<>();
            try (ResultSet result = metadata.getSchemas()) {
                while (result.next()) {
                    schemas.add(result.getString(1));
                }
            }
            same(schemas.containsAll(Arrays.asList("public", "pg_catalog", "information_schema")), true);
            metadata.getPrimaryKeys(null, "public", "jdbc_m").close();
            metadata.getIndexInfo(null, "public", "jdbc_m", false, true).close();
            metadata.getImportedKeys(null, "public", "jdbc_m").close();
            metadata.getTypeInfo().close();
            metadata.getCatalogs().close();
            metadata.getFunctions(null, null, "%").close();
            try (PreparedStatement statement =
                     connection.prepareStatement("SELECT k, n FROM jdbc_m WHERE v = ?")) {
                same(statement.getMetaData().getColumnTypeName(1), "int8");
                same(statement.getMetaData().getPrecision(2), 10);
                same(statement.getMetaData().getScale(2), 2);
                same(statement.getParameterMetaData().getParameterCount(), 1);
            }
        }
    }

    static void failures() throws Exception {
        Map<String, String> cases = new LinkedHashMap<>();
        cases.put("SELECT * FROM missing_table", "42P01");
        cases.put("SELECT 1 / 0", "22012");
        cases.put("SELEC 1", "42601");
        try (Connection connection = connect()) {
            for (Map.Entry<String, String> entry : cases.entrySet()) {
                try {
                    run(connection, entry.getKey());
                    throw new AssertionError(entry.getKey() + " has no error");
                } catch (SQLException error) {
                    same(error.getSQLState(), entry.getValue());
                }
            }
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                statement.execute("SELECT count(*) FROM generate_series(1, 1000000000000) a");
                throw new AssertionError("a late statement has ended");
            } catch (SQLException error) {
                same(error.getSQLState(), "57014");
            }
            same(connection.isValid(5), true);
        }
    }

    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("values and parameters", Client::values);
        checks.put("batches", Client::batches);
        checks.put("a fetch size takes rows as they go", Client::fetchSize);
        checks.put("COPY in and out", Client::copy);
        checks.put("transactions and savepoints", Client::transactions);
        checks.put("metadata", Client::metadata);
        checks.put("errors and limits of time", Client::failures);
        System.out.println("1.." + checks.size());
        int number = 0;
        boolean failed = false;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            number++;
            try {
                check.getValue().run();
                System.out.println("ok " + number + " - " + check.getKey());
            } catch (Exception | AssertionError problem) {
                failed = true;
                System.out.println("not ok " + number + " - " + check.getKey());
                System.out.println("# " + problem.toString().replace("\n", "\n# "));
                for (StackTraceElement element : problem.getStackTrace()) {
                    if (element.getClassName().startsWith("Client")) {
                        System.out.println("#   at " + element);
                    }
                }
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
