//! tokio-postgres against a managed database. The URL is that of the API, the certificate must be
//! right.

use std::{error::Error, future::poll_fn, pin::pin, time::Duration};

use database_clients::{CONNECTIONS, authority, url};
use futures_util::{SinkExt as _, TryStreamExt as _};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, Notification, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Opens a connection, and passes on what is heard on it.
async fn open(options: &str, tls: &MakeRustlsConnect) -> Result<(Client, mpsc::Receiver<Notification>)> {
    let mut config: Config = url().parse()?;
    config.ssl_mode(SslMode::Require).options(options);
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let (hear, heard) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(news) = message {
                let _ = hear.send(news).await;
            }
        }
    });
    Ok((client, heard))
}

async fn values_come_back_as_they_went(db: &Client) -> Result {
    let (ints, words) = (vec![Some(1), None, Some(3)], vec!["a", "b\"c", "ünï"]);
    let at = OffsetDateTime::from_unix_timestamp(1_709_251_199)? + Duration::from_micros(123_456);
    let (raw, doc): (Vec<u8>, _) = ((0..=255).collect(), json!({"deep": [1, {"x": null}], "text": "ünï"}));
    let amount = "12345678901234567890.0123456789";
    let table =
        "CREATE TABLE rust_kept (ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb)";
    db.batch_execute(table).await?;
    let insert = "INSERT INTO rust_kept VALUES ($1, $2, $3::text::numeric, $4, $5, $6)";
    db.execute(insert, &[&ints, &words, &amount, &at, &raw, &doc]).await?;
    let row = db.query_one("SELECT ints, words, amount::text, at, raw, doc FROM rust_kept", &[]).await?;
    assert_eq!(row.get::<_, Vec<Option<i32>>>(0), ints);
    assert_eq!((row.get::<_, Vec<&str>>(1), row.get::<_, &str>(2)), (words, amount));
    assert_eq!((row.get::<_, OffsetDateTime>(3), row.get::<_, Vec<u8>>(4), row.get::<_, Value>(5)), (at, raw, doc));
    Ok(())
}

async fn prepared_statements_are_used_again(db: &Client) -> Result {
    let double = db.prepare("SELECT $1::int * 2").await?;
    for number in 0..8 {
        assert_eq!(db.query_one(&double, &[&number]).await?.get::<_, i32>(0), number * 2);
    }
    // All are sent before the first answer.
    let asked = (0..20).map(|number| async move { db.query_one("SELECT $1::int", &[&number]).await });
    let answers = futures_util::future::try_join_all(asked).await?;
    assert!((0..20).zip(answers).all(|(number, row)| row.get::<_, i32>(0) == number));
    Ok(())
}

async fn a_transaction_rolls_back(db: &mut Client) -> Result {
    db.batch_execute("CREATE TABLE rust_rolled (n int)").await?;
    let transaction = db.transaction().await?;
    transaction.execute("INSERT INTO rust_rolled VALUES ($1)", &[&1]).await?;
    transaction.rollback().await?;
    let transaction = db.transaction().await?;
    transaction.execute("INSERT INTO rust_rolled VALUES ($1)", &[&2]).await?;
    transaction.commit().await?;
    assert_eq!(db.query_one("SELECT n FROM rust_rolled", &[]).await?.get::<_, i32>(0), 2);
    Ok(())
}

async fn rows_are_copied_both_ways(db: &Client) -> Result {
    db.batch_execute("CREATE TABLE rust_copied (n int)").await?;
    let lines: String = (0..500).map(|number| format!("{number}\n")).collect();
    let mut sink = pin!(db.copy_in::<_, std::io::Cursor<Vec<u8>>>("COPY rust_copied FROM STDIN").await?);
    sink.send(std::io::Cursor::new(lines.clone().into_bytes())).await?;
    assert_eq!(sink.finish().await?, 500);
    let parts: Vec<_> = db.copy_out("COPY rust_copied TO STDOUT").await?.try_collect().await?;
    assert_eq!(parts.concat(), lines.into_bytes());
    Ok(())
}

async fn errors_have_their_state(db: &Client) -> Result {
    db.batch_execute("CREATE TABLE rust_unique (n int PRIMARY KEY); INSERT INTO rust_unique VALUES (1)").await?;
    let again = db.execute("INSERT INTO rust_unique VALUES ($1)", &[&1]).await.unwrap_err();
    assert_eq!(again.code().unwrap().code(), "23505");
    Ok(())
}

async fn a_query_is_cancelled(db: &Client, tls: &MakeRustlsConnect) -> Result {
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        db.cancel_token().cancel_query(tls.clone()).await
    };
    let (ended, cancelled) = tokio::join!(db.batch_execute("SELECT pg_sleep(60)"), cancel);
    cancelled?;
    assert_eq!(ended.unwrap_err().code().unwrap().code(), "57014");
    assert_eq!(db.query_one("SELECT 1", &[]).await?.get::<_, i32>(0), 1);
    Ok(())
}

async fn vectors_are_near(db: &Client) -> Result {
    db.batch_execute("CREATE TABLE rust_vectors (id int, v vector(3))").await?;
    for (id, vector) in [(1, "[1,0,0]"), (2, "[0,1,0]"), (3, "[0.5,0.5,0]")] {
        db.execute("INSERT INTO rust_vectors VALUES ($1, $2::text::vector)", &[&id, &vector]).await?;
    }
    let ask = "SELECT id FROM rust_vectors ORDER BY v <-> $1::text::vector LIMIT 2";
    let near: Vec<i32> = db.query(ask, &[&"[1,0.05,0]"]).await?.iter().map(|row| row.get(0)).collect();
    assert_eq!(near, [1, 3]);
    Ok(())
}

async fn notifications_come(db: &Client, tls: &MakeRustlsConnect) -> Result {
    let (listener, mut heard) = open("-c pandastack.session=on", tls).await?;
    listener.batch_execute("LISTEN rust_news").await?;
    db.execute("SELECT pg_notify('rust_news', $1)", &[&"hello"]).await?;
    let news = tokio::time::timeout(Duration::from_secs(30), heard.recv()).await?.unwrap();
    assert_eq!((news.channel(), news.payload()), ("rust_news", "hello"));
    listener.batch_execute("CREATE TEMP TABLE mine AS SELECT 1 AS n").await?;
    assert_eq!(listener.query_one("SELECT n FROM mine", &[]).await?.get::<_, i32>(0), 1);
    Ok(())
}

async fn many_connect_at_once(tls: &MakeRustlsConnect) -> Result {
    let opened = futures_util::future::try_join_all((0..CONNECTIONS).map(|_| open("", tls))).await?;
    for (number, (one, _)) in (0..).zip(&opened) {
        assert_eq!(one.query_one("SELECT $1::int", &[&number]).await?.get::<_, i32>(0), number);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority())?)?;
    let tls = MakeRustlsConnect::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let (mut db, _heard) = open("", &tls).await?;
    values_come_back_as_they_went(&db).await?;
    prepared_statements_are_used_again(&db).await?;
    a_transaction_rolls_back(&mut db).await?;
    rows_are_copied_both_ways(&db).await?;
    errors_have_their_state(&db).await?;
    a_query_is_cancelled(&db, &tls).await?;
    vectors_are_near(&db).await?;
    notifications_come(&db, &tls).await?;
    many_connect_at_once(&tls).await?;
    println!("checked: tokio-postgres");
    Ok(())
}
