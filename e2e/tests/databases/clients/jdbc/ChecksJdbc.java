// JDBC (pgjdbc) against a managed database. The URL is that of the API, the certificate must be right.
// `java -cp postgresql.jar ChecksJdbc.java`

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;

public class ChecksJdbc {
    static final int CONNECTIONS = 20;

    interface Check {
        void run(Connection db) throws Exception;
    }

    static Connection open(String options) throws SQLException {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] user = url.getUserInfo().split(":", 2);
        Properties properties = new Properties();
        properties.setProperty("user", user[0]);
        properties.setProperty("password", user[1]);
        properties.setProperty("sslmode", "verify-full");
        properties.setProperty("sslrootcert", System.getenv("DATABASE_CA"));
        if (options != null) {
            properties.setProperty("options", options);
        }
        String place = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
        return DriverManager.getConnection(place, properties);
    }

    static void valuesComeBackAsTheyWent(Connection db) throws Exception {
        Integer[] ints = {1, null, 3};
        String[] words = {"a", "b\"c", "ünï"};
        BigDecimal amount = new BigDecimal("12345678901234567890.0123456789");
        OffsetDateTime at = OffsetDateTime.parse("2024-02-29T23:59:59.123456Z");
        byte[] raw = new byte[256];
        for (int at256 = 0; at256 < raw.length; at256++) {
            raw[at256] = (byte) at256;
        }
        String columns = "ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb";
        execute(db, "CREATE TABLE jdbc_kept (" + columns + ")");
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO jdbc_kept VALUES (?, ?, ?, ?, ?, ?::jsonb)")) {
            insert.setArray(1, db.createArrayOf("int4", ints));
            insert.setArray(2, db.createArrayOf("text", words));
            insert.setBigDecimal(3, amount);
            insert.setObject(4, at);
            insert.setBytes(5, raw);
            insert.setString(6, "{\"deep\": [1, {\"x\": null}]}");
            insert.executeUpdate();
        }
        try (Statement ask = db.createStatement(); ResultSet row = ask.executeQuery("SELECT * FROM jdbc_kept")) {
            row.next();
            same(Arrays.asList(ints), Arrays.asList((Object[]) row.getArray(1).getArray()));
            same(Arrays.asList(words), Arrays.asList((Object[]) row.getArray(2).getArray()));
            same(amount, row.getBigDecimal(3));
            same(at.toInstant(), row.getObject(4, OffsetDateTime.class).toInstant());
            same(true, Arrays.equals(raw, row.getBytes(5)));
            same("{\"deep\": [1, {\"x\": null}]}", row.getString(6));
        }
    }

    /** The driver prepares a statement on the server at its fifth use. */
    static void preparedStatementsAreUsedAgain(Connection db) throws Exception {
        try (PreparedStatement ask = db.prepareStatement("SELECT ? * 2")) {
            for (int number = 0; number < 10; number++) {
                ask.setInt(1, number);
                same(number * 2, only(ask));
            }
        }
    }

    static void aTransactionRollsBack(Connection db) throws Exception {
        execute(db, "CREATE TABLE jdbc_rolled (n int)");
        db.setAutoCommit(false);
        execute(db, "INSERT INTO jdbc_rolled VALUES (1)");
        db.rollback();
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO jdbc_rolled VALUES (?)")) {
            for (int number = 2; number < 5; number++) {
                insert.setInt(1, number);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        db.commit();
        db.setAutoCommit(true);
        same(9, only(db.prepareStatement("SELECT sum(n)::int FROM jdbc_rolled")));
    }

    static void rowsAreCopiedBothWays(Connection db) throws Exception {
        execute(db, "CREATE TABLE jdbc_copied (n int)");
        StringBuilder lines = new StringBuilder();
        for (int number = 0; number < 500; number++) {
            lines.append(number).append('\n');
        }
        var copies = db.unwrap(PGConnection.class).getCopyAPI();
        same(500L, copies.copyIn("COPY jdbc_copied FROM STDIN", new StringReader(lines.toString())));
        StringWriter back = new StringWriter();
        copies.copyOut("COPY (SELECT n FROM jdbc_copied ORDER BY n) TO STDOUT", back);
        same(lines.toString(), back.toString());
    }

    static void errorsHaveTheirState(Connection db) throws Exception {
        execute(db, "CREATE TABLE jdbc_unique (n int PRIMARY KEY)");
        execute(db, "INSERT INTO jdbc_unique VALUES (1)");
        same("23505", stateOf(() -> execute(db, "INSERT INTO jdbc_unique VALUES (1)")));
    }

    static void aQueryIsCancelled(Connection db) throws Exception {
        try (Statement slow = db.createStatement()) {
            slow.setQueryTimeout(5);
            same("57014", stateOf(() -> slow.execute("SELECT pg_sleep(60)")));
        }
        same(1, only(db.prepareStatement("SELECT 1")));
    }

    static void vectorsAreNear(Connection db) throws Exception {
        execute(db, "CREATE TABLE jdbc_vectors (id int, v vector(3))");
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO jdbc_vectors VALUES (?, ?::vector)")) {
            String[] vectors = {"[1,0,0]", "[0,1,0]", "[0.5,0.5,0]"};
            for (int at = 0; at < vectors.length; at++) {
                insert.setInt(1, at + 1);
                insert.setString(2, vectors[at]);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        String nearest = "SELECT id FROM jdbc_vectors ORDER BY v <-> ?::vector LIMIT 1";
        try (PreparedStatement near = db.prepareStatement(nearest)) {
            near.setString(1, "[0.6,0.4,0]");
            same(3, only(near));
        }
    }

    static void notificationsCome(Connection db) throws Exception {
        try (Connection listener = open("-c pandastack.session=on")) {
            execute(listener, "LISTEN jdbc_news");
            execute(db, "SELECT pg_notify('jdbc_news', 'hello')");
            var heard = listener.unwrap(PGConnection.class).getNotifications(30_000);
            same(1, heard.length);
            same("hello", heard[0].getParameter());
            execute(listener, "CREATE TEMP TABLE mine AS SELECT 7 AS n");
            same(7, only(listener.prepareStatement("SELECT n FROM mine")));
        }
    }

    static void manyConnectAtOnce(Connection db) throws Exception {
        var threads = Executors.newFixedThreadPool(CONNECTIONS);
        CyclicBarrier meet = new CyclicBarrier(CONNECTIONS);
        List<Future<Integer>> answers = new ArrayList<>();
        for (int number = 0; number < CONNECTIONS; number++) {
            int mine = number;
            answers.add(threads.submit(() -> {
                try (Connection one = open(null); PreparedStatement ask = one.prepareStatement("SELECT ?")) {
                    // Nobody goes on before all are connected.
                    meet.await(60, TimeUnit.SECONDS);
                    ask.setInt(1, mine);
                    return only(ask);
                }
            }));
        }
        for (int number = 0; number < CONNECTIONS; number++) {
            same(number, answers.get(number).get());
        }
        threads.shutdown();
    }

    interface Step {
        void run() throws Exception;
    }

    static String stateOf(Step step) throws Exception {
        try {
            step.run();
        } catch (SQLException error) {
            return error.getSQLState();
        }
        return "no error";
    }

    static void execute(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
        }
    }

    static int only(PreparedStatement ask) throws SQLException {
        try (ResultSet rows = ask.executeQuery()) {
            rows.next();
            return rows.getInt(1);
        }
    }

    static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError(expected + " was expected, and not " + found);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Check[] checks = {
            ChecksJdbc::valuesComeBackAsTheyWent,
            ChecksJdbc::preparedStatementsAreUsedAgain,
            ChecksJdbc::aTransactionRollsBack,
            ChecksJdbc::rowsAreCopiedBothWays,
            ChecksJdbc::errorsHaveTheirState,
            ChecksJdbc::aQueryIsCancelled,
            ChecksJdbc::vectorsAreNear,
            ChecksJdbc::notificationsCome,
            ChecksJdbc::manyConnectAtOnce,
        };
        try (Connection db = open(null)) {
            for (int at = 0; at < checks.length; at++) {
                checks[at].run(db);
                System.out.println("checked: " + (at + 1) + " of " + checks.length);
            }
        }
    }
}
