//! sqlx against a managed database. The URL is that of the API, the certificate must be right.

use std::{error::Error, str::FromStr as _, time::Duration};

use bigdecimal::BigDecimal;
use database_clients::{CONNECTIONS, authority, url};
use serde_json::{Value, json};
use sqlx::{
    Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolCopyExt as _, PgPoolOptions},
};
use time::OffsetDateTime;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

async fn values_come_back_as_they_went(db: &PgPool) -> Result {
    let (ints, words) = (vec![Some(1), None, Some(3)], vec!["a".to_owned(), "b\"c".to_owned(), "ünï".to_owned()]);
    let amount = BigDecimal::from_str("12345678901234567890.0123456789")?;
    let at = OffsetDateTime::from_unix_timestamp(1_709_251_199)? + Duration::from_micros(123_456);
    let (raw, doc): (Vec<u8>, _) = ((0..=255).collect(), json!({"deep": [1, {"x": null}], "text": "ünï"}));
    sqlx::query(
        "CREATE TABLE sqlx_kept (ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb)",
    )
    .execute(db)
    .await?;
    let insert = sqlx::query("INSERT INTO sqlx_kept VALUES ($1, $2, $3, $4, $5, $6)");
    insert.bind(&ints).bind(&words).bind(&amount).bind(at).bind(&raw).bind(&doc).execute(db).await?;
    type Kept = (Vec<Option<i32>>, Vec<String>, BigDecimal, OffsetDateTime, Vec<u8>, Value);
    let row: Kept = sqlx::query_as("SELECT * FROM sqlx_kept").fetch_one(db).await?;
    assert_eq!(row, (ints, words, amount, at, raw, doc));
    Ok(())
}

async fn prepared_statements_are_used_again(db: &PgPool) -> Result {
    for number in 0..8 {
        let double: i32 = sqlx::query_scalar("SELECT $1 * 2").bind(number).fetch_one(db).await?;
        assert_eq!(double, number * 2);
    }
    Ok(())
}

async fn a_transaction_rolls_back(db: &PgPool) -> Result {
    sqlx::query("CREATE TABLE sqlx_rolled (n int)").execute(db).await?;
    let mut transaction = db.begin().await?;
    sqlx::query("INSERT INTO sqlx_rolled VALUES ($1)").bind(1).execute(&mut *transaction).await?;
    drop(transaction);
    let mut transaction = db.begin().await?;
    sqlx::query("INSERT INTO sqlx_rolled VALUES ($1)").bind(2).execute(&mut *transaction).await?;
    transaction.commit().await?;
    let left: Vec<i32> = sqlx::query_scalar("SELECT n FROM sqlx_rolled").fetch_all(db).await?;
    assert_eq!(left, [2]);
    Ok(())
}

async fn rows_are_copied(db: &PgPool) -> Result {
    sqlx::query("CREATE TABLE sqlx_copied (n int)").execute(db).await?;
    let lines: String = (0..500).map(|number| format!("{number}\n")).collect();
    let mut copy = db.copy_in_raw("COPY sqlx_copied FROM STDIN").await?;
    copy.send(lines.as_bytes()).await?;
    assert_eq!(copy.finish().await?, 500);
    let sum: i64 = sqlx::query_scalar("SELECT sum(n) FROM sqlx_copied").fetch_one(db).await?;
    assert_eq!(sum, 124_750);
    Ok(())
}

async fn errors_have_their_state(db: &PgPool) -> Result {
    sqlx::query("CREATE TABLE sqlx_unique (n int PRIMARY KEY)").execute(db).await?;
    sqlx::query("INSERT INTO sqlx_unique VALUES (1)").execute(db).await?;
    let again = sqlx::query("INSERT INTO sqlx_unique VALUES ($1)").bind(1).execute(db).await.unwrap_err();
    let error = again.as_database_error().unwrap();
    assert_eq!((error.code().as_deref(), error.constraint()), (Some("23505"), Some("sqlx_unique_pkey")));
    Ok(())
}

/// sqlx has no cancel requests, so the statement's own limit ends it.
async fn a_query_is_cancelled(db: &PgPool) -> Result {
    let mut transaction = db.begin().await?;
    sqlx::query("SET LOCAL statement_timeout = 500").execute(&mut *transaction).await?;
    let ended = sqlx::query("SELECT pg_sleep(60)").execute(&mut *transaction).await.unwrap_err();
    assert_eq!(ended.as_database_error().unwrap().code().as_deref(), Some("57014"));
    transaction.rollback().await?;
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(db).await?;
    assert_eq!(one, 1);
    Ok(())
}

async fn vectors_are_near(db: &PgPool) -> Result {
    sqlx::query("CREATE TABLE sqlx_vectors (id int, v vector(3))").execute(db).await?;
    for (id, vector) in [(1, "[1,0,0]"), (2, "[0,1,0]"), (3, "[0.5,0.5,0]")] {
        let insert = sqlx::query("INSERT INTO sqlx_vectors VALUES ($1, $2::text::vector)");
        insert.bind(id).bind(vector).execute(db).await?;
    }
    let ask = "SELECT id FROM sqlx_vectors ORDER BY v <-> $1::text::vector LIMIT 2";
    let near: Vec<i32> = sqlx::query_scalar(ask).bind("[1,0.05,0]").fetch_all(db).await?;
    assert_eq!(near, [1, 3]);
    Ok(())
}

async fn notifications_come(db: &PgPool, pooled: &PgConnectOptions) -> Result {
    let session = pooled.clone().options([("pandastack.session", "on")]);
    let mut listener = PgListener::connect_with(&PgPool::connect_lazy_with(session.clone())).await?;
    listener.listen("sqlx_news").await?;
    sqlx::query("SELECT pg_notify('sqlx_news', $1)").bind("hello").execute(db).await?;
    let heard = tokio::time::timeout(Duration::from_secs(30), listener.recv()).await??;
    assert_eq!((heard.channel(), heard.payload()), ("sqlx_news", "hello"));
    let mut own = PgConnection::connect_with(&session).await?;
    sqlx::query("CREATE TEMP TABLE mine AS SELECT 1 AS n").execute(&mut own).await?;
    let one: i32 = sqlx::query_scalar("SELECT n FROM mine").fetch_one(&mut own).await?;
    assert_eq!(one, 1);
    Ok(own.close().await?)
}

async fn many_connect_at_once(pooled: &PgConnectOptions) -> Result {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect_with(pooled.clone()).await?;
    let held = futures_util::future::try_join_all((0..CONNECTIONS).map(|_| pool.acquire())).await?;
    assert_eq!(pool.size(), CONNECTIONS);
    for (number, mut one) in (0..).zip(held) {
        let answer: i32 = sqlx::query_scalar("SELECT $1").bind(number).fetch_one(&mut *one).await?;
        assert_eq!(answer, number);
    }
    pool.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let pooled = PgConnectOptions::from_str(&format!("{}?sslmode=verify-full&sslrootcert={}", url(), authority()))?;
    let db = PgPoolOptions::new().max_connections(2).connect_with(pooled.clone()).await?;
    values_come_back_as_they_went(&db).await?;
    prepared_statements_are_used_again(&db).await?;
    a_transaction_rolls_back(&db).await?;
    rows_are_copied(&db).await?;
    errors_have_their_state(&db).await?;
    a_query_is_cancelled(&db).await?;
    vectors_are_near(&db).await?;
    notifications_come(&db, &pooled).await?;
    many_connect_at_once(&pooled).await?;
    db.close().await;
    println!("checked: sqlx");
    Ok(())
}
