//! Routes for files and folders.

use serde_json::{Value, json};

use super::operation::{Operation, ours, query, route, shape, yes_or_no};
use crate::{
    DirListing, Entry, ExecFailure, Written,
    tree::{Change, Changed, Chmod, MakeDir, MovePath, Unpacked, WatchNote},
};

const TAG: &str = "Files";
const BYTES: &str = "application/octet-stream";
const TAR: &str = "application/x-tar";

pub fn operations() -> Vec<Operation> {
    let mut all = files();
    all.extend(trees().into_iter().map(Operation::ours));
    all
}

fn bytes() -> Value {
    json!({"type": "string", "format": "binary"})
}

fn files() -> Vec<Operation> {
    let body = |kind: &str| json!({kind: {"schema": bytes()}});
    let mode = query("mode", json!({"type": "string", "pattern": "^[0-7]{1,4}$"}), "Permission bits in octal.");
    let depth = query("depth", json!({"type": "integer", "minimum": 1}), "Maximum depth of a recursive listing.");
    vec![
        route(TAG, "GET", "/v1/sandboxes/{id}/fs", "Read a file").machine().with(path()).gives_content(
            200,
            BYTES,
            bytes(),
        ),
        route(TAG, "PUT", "/v1/sandboxes/{id}/fs", "Write a file atomically")
            .machine()
            .with(path())
            .with(ours(mode))
            .takes_content(body(BYTES), false)
            .gives::<Written>(200),
        route(TAG, "DELETE", "/v1/sandboxes/{id}/fs", "Delete a path and everything below it")
            .machine()
            .with(path())
            .gives_nothing(204),
        route(TAG, "GET", "/v1/sandboxes/{id}/fs/dir", "List a directory")
            .machine()
            .with(query(
                "path",
                json!({"type": "string", "pattern": "^/"}),
                "Absolute path; the root directory by default.",
            ))
            .with(ours(yes_or_no("recursive", "Includes everything below the path.")))
            .with(ours(depth))
            .gives::<DirListing>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/fs/stat", "Show the metadata of a path")
            .machine()
            .with(path())
            .gives::<Entry>(200),
    ]
}

/// Our own additions: changes of folders, and whole trees.
fn trees() -> Vec<Operation> {
    vec![
        route(TAG, "POST", "/v1/sandboxes/{id}/fs/mkdir", "Create a directory")
            .machine()
            .takes::<MakeDir>(json!({"path": "/srv/app", "parents": true}))
            .gives::<Changed>(201),
        route(TAG, "POST", "/v1/sandboxes/{id}/fs/move", "Move a path")
            .machine()
            .takes::<MovePath>(json!({"from": "/srv/a", "to": "/srv/b"}))
            .gives::<Changed>(200),
        route(TAG, "POST", "/v1/sandboxes/{id}/fs/chmod", "Set permission bits")
            .machine()
            .takes::<Chmod>(json!({"path": "/srv/run", "mode": "0755"}))
            .gives::<Changed>(200),
        route(TAG, "GET", "/v1/sandboxes/{id}/fs/watch", "Stream the changes below a path")
            .notes("An event stream that stays open until the client closes it. After an `error` event it ends.")
            .machine()
            .with(path())
            .with(yes_or_no("recursive", "Includes everything below the path."))
            .gives_events(&[
                ("ready", shape::<WatchNote>),
                ("change", shape::<Change>),
                ("overflow", shape::<WatchNote>),
                ("error", shape::<ExecFailure>),
            ]),
        route(TAG, "GET", "/v1/sandboxes/{id}/fs/tar", "Download a directory as a tar archive")
            .machine()
            .with(path())
            .gives_content(200, TAR, bytes()),
        route(TAG, "PUT", "/v1/sandboxes/{id}/fs/tar", "Unpack a tar archive into a directory")
            .machine()
            .with(path())
            .takes_content(json!({TAR: {"schema": bytes()}, BYTES: {"schema": bytes()}}), false)
            .gives::<Unpacked>(200),
    ]
}

fn path() -> Value {
    let mut path = query("path", json!({"type": "string", "pattern": "^/"}), "Absolute path.");
    path["required"] = json!(true);
    path
}
