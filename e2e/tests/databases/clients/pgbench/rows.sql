\set n random(1, 50)
INSERT INTO pgbench_rows VALUES (:n, :client_id) ON CONFLICT (n) DO UPDATE SET last = excluded.last;
SELECT last FROM pgbench_rows WHERE n = :n;
