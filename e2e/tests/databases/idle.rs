//! A database sleeps by itself when nobody uses it. What the platform does meanwhile, such as
//! archiving and looking after it, is no use.

mod deep {
    use std::time::Duration;

    use pandastack_testbed::wait_for;
    use reqwest::Method;
    use serde_json::{Value, json};

    use crate::databases::{DatabaseBed, OpenTransaction, backups::text, nothing_stays, path};

    /// Five minutes without a connection, and some for the machine to be sealed.
    const SLEEP_MAX: Duration = Duration::from_secs(450);

    #[tokio::test]
    async fn a_database_sleeps_when_its_last_client_is_gone() {
        let bed = DatabaseBed::start();
        let idle = made(&bed, json!({"label": "idle"})).await;
        let held = made(&bed, json!({"label": "held"})).await;
        let always_on = made(&bed, json!({"label": "always on", "always_on": true})).await;
        bed.answer(&idle, "CREATE TABLE t AS SELECT 1 AS n");
        let open = OpenTransaction::begin(&bed, &held, "CREATE TABLE t AS SELECT 2 AS n");
        let asleep = async || (status(&bed, &idle).await == "hibernated").then_some(());
        wait_for("it sleeps", SLEEP_MAX, asleep).await;
        assert_eq!((status(&bed, &held).await, status(&bed, &always_on).await), (json!("running"), json!("running")));
        // All of it is archived, and the first client wakes it.
        let (_, backups) = bed.get(&format!("{}/backups", path(&idle))).await;
        assert_eq!((&backups["archive"]["pending_segments"], &backups["archive"]["health"]), (&json!(0), &json!("ok")));
        assert_eq!(bed.answer(&idle, "SELECT n FROM t"), "1");
        open.commit();
        assert_eq!(bed.answer(&held, "SELECT n FROM t"), "2");
        nothing_stays(&bed, &[&idle, &held, &always_on]).await;
    }

    async fn made(bed: &DatabaseBed, spec: Value) -> Value {
        let (status, made) = bed.send(Method::POST, "/v1/databases", spec).await;
        assert_eq!(status, 202, "{made}");
        bed.running(text(&made, "id")).await
    }

    async fn status(bed: &DatabaseBed, database: &Value) -> Value {
        bed.get(&path(database)).await.1["status"].clone()
    }
}
