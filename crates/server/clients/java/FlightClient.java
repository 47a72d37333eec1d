// The Flight SQL driver for JDBC: values, prepared statements, batches, metadata, transactions.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;

public final class FlightClient {
    interface Check {
        void run() throws Exception;
    }

    static String environment(String name) {
        String value = System.getenv(name);
        return value == null ? "" : value;
    }

    static Connection connect(String password) throws SQLException {
        Properties properties = new Properties();
        String root = environment("TERRACE_ROOT");
        if (root.isEmpty()) {
            properties.setProperty("useEncryption", "false");
        } else {
            properties.setProperty("tlsRootCerts", root);
            properties.setProperty("user", environment("TERRACE_USER"));
            properties.setProperty("password", password);
        }
        String location = environment("TERRACE_FLIGHT");
        String address = location.substring(location.indexOf("://") + 3);
        return DriverManager.getConnection("jdbc:arrow-flight-sql://" + address, properties);
    }

    static Connection connect() throws SQLException {
        return connect(environment("TERRACE_PASSWORD"));
    }

    static void same(Object found, Object expected) {
        if (!Objects.deepEquals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    static List<List<Object>> rows(ResultSet result) throws SQLException {
        try (result) {
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
    }

    static List<List<Object>> query(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return rows(statement.executeQuery(text));
        }
    }

    static int update(Connection connection, String text) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate(text);
        }
    }

    static void logins() throws Exception {
        if (environment("TERRACE_ROOT").isEmpty()) {
            return;
        }
        try (Connection connection = connect("wrong")) {
            query(connection, "SELECT 1");
            throw new AssertionError("it has logged in");
        } catch (SQLException expected) {
            String text = expected.toString() + expected.getCause();
            same(text.contains("password authentication failed"), true);
        }
        try (Connection connection = connect()) {
            Object user = query(connection, "SELECT current_user").get(0).get(0);
            same(user.toString(), environment("TERRACE_USER"));
        }
    }

    static void values() throws Exception {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            String text = "SELECT 1::bigint, 'y', 1.50::decimal(9, 2), DATE '2024-01-01', "
                + "TIMESTAMP '2024-01-01 10:00:00', true, NULL::text, '\\x00ff'::bytea, "
                + "2.5::double precision AS f";
            try (ResultSet row = statement.executeQuery(text)) {
                same(row.next(), true);
                same(row.getLong(1), 1L);
                same(row.getString(2), "y");
                same(row.getBigDecimal(3), new BigDecimal("1.50"));
                same(row.getDate(4).toString(), "2024-01-01");
                same(row.getTimestamp(5).toString(), "2024-01-01 10:00:00.0");
                same(row.getBoolean(6), true);
                same(row.getString(7), null);
                same(row.getBytes(8), new byte[] {0, (byte) 0xff});
                same(row.getDouble("f"), 2.5);
                same(row.next(), false);
            }
        }
    }

    static void manyRows() throws Exception {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            String text = "SELECT value FROM generate_series(1, 1000000) AS g(value)";
            long sum = 0;
            try (ResultSet result = statement.executeQuery(text)) {
                while (result.next()) {
                    sum += result.getLong(1);
                }
            }
            same(sum, 500000500000L);
        }
    }

    static void changes() throws Exception {
        try (Connection connection = connect()) {
            update(connection, "DROP TABLE IF EXISTS flight_j");
            update(connection, "CREATE TABLE flight_j (k BIGINT, v TEXT)");
            same(update(connection, "INSERT INTO flight_j VALUES (1, 'a'), (2, 'b')"), 2);
            String insert = "INSERT INTO flight_j VALUES (?, ?)";
            try (PreparedStatement statement = connection.prepareStatement(insert)) {
                for (int k = 10; k < 110; k++) {
                    statement.setLong(1, k);
                    statement.setString(2, "v" + k);
                    statement.addBatch();
                }
                statement.executeBatch();
                statement.setLong(1, 1000);
                statement.setNull(2, Types.VARCHAR);
                same(statement.executeUpdate(), 1);
            }
            Object counts = query(connection, "SELECT count(*), count(v) FROM flight_j").get(0);
            same(counts, Arrays.asList(103L, 102L));
        }
    }

    static void parameters() throws Exception {
        try (Connection connection = connect()) {
            String select = "SELECT v FROM flight_j WHERE k = ?";
            try (PreparedStatement statement = connection.prepareStatement(select)) {
                same(statement.getParameterMetaData().getParameterCount(), 1);
                for (String[] pair : new String[][] {{"1", "a"}, {"2", "b"}}) {
                    statement.setLong(1, Long.parseLong(pair[0]));
                    same(rows(statement.executeQuery()).get(0).get(0).toString(), pair[1]);
                }
            }
        }
    }

    static void transactions() throws Exception {
        // The driver leaves setAutoCommit and commit without effect; statements have it.
        try (Connection connection = connect()) {
            for (String end : new String[] {"ROLLBACK", "COMMIT"}) {
                update(connection, "BEGIN");
                update(connection, "DELETE FROM flight_j");
                update(connection, end);
                Object count = query(connection, "SELECT count(*) FROM flight_j").get(0).get(0);
                same(count, end.equals("COMMIT") ? 0L : 103L);
            }
        }
    }

    static void settings() throws Exception {
        try (Connection connection = connect()) {
            update(connection, "SET TimeZone = 'Europe/Berlin'");
            same(query(connection, "SHOW TimeZone").get(0).get(0).toString(), "Europe/Berlin");
        }
    }

    static void errors() throws Exception {
        try (Connection connection = connect()) {
            try {
                query(connection, "SELECT * FROM nosuch");
                throw new AssertionError("there is a table");
            } catch (SQLException expected) {
                same(expected.getMessage().contains("42P01"), true);
            }
            same(query(connection, "SELECT 2::bigint").get(0).get(0), 2L);
        }
    }

    static void metadata() throws Exception {
        try (Connection connection = connect()) {
            DatabaseMetaData data = connection.getMetaData();
            same(data.getDatabaseProductName(), "Terrace");
            same(data.supportsTransactions() && data.supportsSavepoints(), true);
            same(data.supportsGroupBy() && data.supportsUnionAll(), true);
            same(data.supportsFullOuterJoins() && data.supportsSubqueriesInExists(), true);
            same(data.getMaxConnections(), 0);
            same(data.supportsResultSetType(ResultSet.TYPE_FORWARD_ONLY), true);
            same(rows(data.getCatalogs()).get(0).get(0).toString(), "main");
            List<List<Object>> tables = rows(data.getTables(null, "public", "flight_j", null));
            same(tables.get(0).get(2).toString(), "flight_j");
            same(tables.get(0).get(3).toString(), "TABLE");
            List<List<Object>> columns = rows(data.getColumns(null, "public", "flight_j", "%"));
            same(columns.get(0).get(3).toString(), "k");
            same(columns.get(0).get(4), Types.BIGINT);
            same(columns.get(1).get(3).toString(), "v");
            same(rows(data.getPrimaryKeys(null, "public", "flight_j")).size(), 0);
        }
    }

    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("logins take the password", FlightClient::logins);
        checks.put("values have the types of JDBC", FlightClient::values);
        checks.put("many rows are read", FlightClient::manyRows);
        checks.put("statements change tables", FlightClient::changes);
        checks.put("parameters are bound", FlightClient::parameters);
        checks.put("transactions are kept or undone", FlightClient::transactions);
        checks.put("settings are those of the connection", FlightClient::settings);
        checks.put("errors have their state", FlightClient::errors);
        checks.put("metadata is told", FlightClient::metadata);
        System.out.println("1.." + checks.size());
        int number = 0;
        boolean isGood = true;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            number++;
            try {
                check.getValue().run();
                System.out.println("ok " + number + " - " + check.getKey());
            } catch (Throwable error) {
                isGood = false;
                System.out.println("not ok " + number + " - " + check.getKey());
                for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                    System.out.println("# " + cause);
                }
            }
        }
        System.exit(isGood ? 0 : 1);
    }
}
