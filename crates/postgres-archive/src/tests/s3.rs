//! The archive on S3, against a small stand-in that keeps objects in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use tokio::{net::TcpListener, time::Instant};

use super::bed::{Bed, DB, content, wal};
use crate::{
    Archive, ArchiveSettings, ArchiveStore, BaseCopy, Retention, S3Settings, name::Segment, verify::tests::backup,
};

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn parameters(request: &Request<Incoming>) -> BTreeMap<String, String> {
    let query = request.uri().query().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn list(objects: &BTreeMap<String, Vec<u8>>, asked: &BTreeMap<String, String>) -> String {
    let prefix = asked.get("prefix").cloned().unwrap_or_default();
    let after = asked.get("start-after").cloned().unwrap_or_default();
    let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let items: String = found
        .map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"x\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            )
        })
        .collect();
    format!(
        "<ListBucketResult><Name>b</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
    )
}

async fn answer(objects: Objects, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let asked = parameters(&request);
    let signed = request.headers().contains_key("authorization");
    let key = request.uri().path().trim_start_matches("/bucket").trim_start_matches('/').to_owned();
    let source = request.headers().get("x-amz-copy-source").map(|from| from.to_str().unwrap().to_owned());
    let method = request.method().clone();
    let body = request.into_body().collect().await?.to_bytes();
    let mut objects = objects.lock().unwrap();
    let say = |status: u16, body: Vec<u8>| {
        Response::builder().status(status).header("etag", "\"x\"").body(Full::new(Bytes::from(body))).unwrap()
    };
    if !signed {
        return Ok(say(403, Vec::new()));
    }
    Ok(match method {
        Method::POST if asked.contains_key("uploads") => {
            say(200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>".to_vec())
        }
        Method::POST if asked.contains_key("uploadId") => {
            let part = |number: u32| format!("part/{key}/{number}");
            let whole: Vec<u8> = (1..).map_while(|number| objects.remove(&part(number))).flatten().collect();
            objects.insert(key, whole);
            say(200, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>".to_vec())
        }
        Method::POST => {
            let text = String::from_utf8_lossy(&body).into_owned();
            let mut told = String::new();
            for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
                objects.remove(key);
                told.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
            }
            say(200, format!("<DeleteResult>{told}</DeleteResult>").into_bytes())
        }
        Method::PUT => {
            let bytes = match source {
                Some(from) => objects.get(from.trim_start_matches('/').trim_start_matches("bucket/")).cloned(),
                None => Some(body.to_vec()),
            };
            let Some(bytes) = bytes else { return Ok(say(404, Vec::new())) };
            let part = asked.get("partNumber").map(|number| format!("part/{key}/{number}"));
            objects.insert(part.unwrap_or(key), bytes);
            say(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>".to_vec())
        }
        Method::DELETE => {
            objects.remove(&key);
            say(204, Vec::new())
        }
        Method::GET if asked.contains_key("list-type") => say(200, list(&objects, &asked).into_bytes()),
        _ => match objects.get(&key) {
            Some(bytes) => {
                let mut found = say(200, bytes.clone());
                found.headers_mut().insert("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT".parse().unwrap());
                found
            }
            None => say(404, Vec::new()),
        },
    })
}

async fn stand_in(scope: &Scope) -> (String, Objects) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, objects) = (listener.local_addr().unwrap(), Objects::default());
    let (inner, kept) = (scope.clone(), objects.clone());
    scope.start("stand-in", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let kept = kept.clone();
            inner.start("stand-in connection", async move {
                let service = service_fn(move |request| answer(kept.clone(), request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (format!("http://{address}"), objects)
}

fn settings(endpoint: &str) -> S3Settings {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "hidden-key"),
        ("AWS_REGION", "here"),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_PROFILE", "unknown to us"),
        ("HOME", "/"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    S3Settings::parse("s3://bucket/some/prefix", variables).unwrap()
}

#[tokio::test]
async fn all_of_it_works_on_s3() {
    let mut bed = Bed::new();
    let (endpoint, objects) = stand_in(&bed.scope).await;
    let store = ArchiveStore::S3(settings(&endpoint));
    let opened = ArchiveSettings::new(bed.folder.path().join("s3-spool"), store);
    bed.archive = Archive::open(opened, bed.directory.clone(), bed.scope.clone()).unwrap();
    bed.archive.run();
    for number in 1..=4 {
        assert_eq!(bed.put(&wal(number), &content(number)).await, 201);
    }
    let name = "000000010000000000000004";
    bed.archive.wait_for(DB, name, Instant::now() + Duration::from_secs(60)).await.unwrap();
    assert!(objects.lock().unwrap().keys().all(|key| key.starts_with("some/prefix/db/db_one/wal/")));
    assert!(bed.get(&wal(3)).await == (200, content(3)));
    assert_eq!(bed.get(&wal(9)).await.0, 404);
    let base = "/base/base-20260101T000000Z.tar.gz";
    let sent = backup(Segment { timeline: 1, number: 2 }, 1000);
    assert_eq!(bed.put(base, &sent).await, 201);
    assert!(bed.get(base).await == (200, sent));
    let copy = BaseCopy { from: DB.into(), to: "db_two".into(), since: super::bed::at(2000) };
    bed.archive.copy_base(&copy).await.unwrap();
    let pruned = bed.archive.prune(DB, Retention { count: 1, age: Duration::ZERO }).await.unwrap();
    assert_eq!(pruned.wal_files, 1);
    // Another process finds it all.
    let opened = ArchiveSettings::new(bed.folder.path().join("other"), ArchiveStore::S3(settings(&endpoint)));
    bed.archive = Archive::open(opened, bed.directory.clone(), bed.scope.clone()).unwrap();
    assert_eq!(bed.state(DB).await.last_segment.as_deref(), Some(name));
    assert_eq!(bed.state("db_two").await.bases.len(), 1);
    bed.archive.remove(DB).await.unwrap();
    assert!(objects.lock().unwrap().keys().all(|key| key.contains("db_two")));
}

#[test]
fn addresses_are_checked_and_secrets_not_shown() {
    assert!(!format!("{:?}", settings("http://127.0.0.1:1")).contains("hidden"));
    for url in ["", "s3://", "http://bucket", "s3://bu cket", "s3://b/../c d"] {
        assert!(S3Settings::parse(url, []).is_err(), "{url}");
    }
}
