//! The dashboard: serves the built pages, which are part of the program. Knows nothing of the API
//! but which paths belong to it.

mod files;
mod page;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use pandastack_door::{ConnectionHandle, Places, http::refuse, occupy};

pub use files::PackedFile;

/// The file of every page.
const INDEX: &str = "index.html";
/// Folder of files whose names change with their content.
const ASSETS: &str = "assets/";
/// Paths and folders of the API and its documents.
const API: [&str; 9] = ["v1", "mcp", "repl", "healthz", "version", "metrics", "openapi.json", "docs", ".well-known"];

/// The dashboard in front of the API. Clones are the same one.
#[derive(Clone)]
pub struct Dashboard {
    files: &'static [PackedFile],
    connections: Places,
}

impl Dashboard {
    /// Serves the dashboard of this build. Its requests take places of connections.
    pub fn new(connections: Places) -> Self {
        Self { files: files::all(), connections }
    }

    /// Tells whether this build has a dashboard.
    pub fn is_built() -> bool {
        files::all().iter().any(|file| file.path == INDEX)
    }

    /// Puts the dashboard in front of the API.
    pub fn before(self, api: Router) -> Router {
        api.layer(from_fn_with_state(self, serve))
    }

    /// Finds what a request is for. `None` if it is for the API.
    fn find(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Page> {
        let path = path.strip_prefix('/')?;
        let top = path.split('/').next().unwrap_or_default();
        if !matches!(*method, Method::GET | Method::HEAD) || API.contains(&top) {
            return None;
        }
        if let Some(file) = self.file(path).filter(|file| file.path != INDEX) {
            return Some(Page::File(file));
        }
        if path.starts_with(ASSETS) {
            return Some(Page::Missing);
        }
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if !accepted.into_iter().any(|value| value.to_ascii_lowercase().contains("text/html")) {
            return None;
        }
        Some(self.file(INDEX).map_or(Page::NotBuilt, Page::File))
    }

    fn file(&self, path: &str) -> Option<&'static PackedFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// The answer to a request for the dashboard.
#[derive(Clone, Copy)]
enum Page {
    File(&'static PackedFile),
    /// A file of another version. A page must not be mistaken for it.
    Missing,
    NotBuilt,
}

async fn serve(State(dashboard): State<Dashboard>, request: Request, next: Next) -> Response {
    let Some(page) = dashboard.find(request.method(), request.uri().path(), request.headers()) else {
        return next.run(request).await;
    };
    let connection = request.extensions().get::<ConnectionHandle>().cloned();
    let place = match dashboard.connections.take(None) {
        Ok(place) => place,
        Err(fault) => return refuse(fault, ""),
    };
    let response = match page {
        Page::File(file) => page::show(file, file.path.starts_with(ASSETS), request.method(), request.headers()),
        Page::Missing => page::missing(),
        Page::NotBuilt => page::not_built(),
    };
    occupy(response, Some(place), connection)
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode};
    use http_body_util::BodyExt as _;
    use pandastack_door::ServeSettings;
    use tower::ServiceExt as _;

    use super::*;

    /// `hello`, compressed with gzip.
    const HELLO: &[u8] =
        &[31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];
    static BUILT: [PackedFile; 3] = [
        PackedFile { path: "assets/app-1a2b.js", kind: "text/javascript; charset=utf-8", tag: "t1", packed: HELLO },
        PackedFile { path: "favicon.svg", kind: "image/svg+xml", tag: "t2", packed: HELLO },
        PackedFile { path: "index.html", kind: "text/html; charset=utf-8", tag: "t3", packed: HELLO },
    ];

    async fn ask(files: &'static [PackedFile], path: &str, headers: &[(&str, &str)]) -> Response {
        let api = Router::new().fallback(|| async { (StatusCode::IM_A_TEAPOT, "api") });
        let app = Dashboard { files, connections: ServeSettings::default().places() }.before(api);
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn text(response: Response) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");

    #[tokio::test]
    async fn every_page_is_the_index_and_the_api_stays_what_it_is() {
        for path in ["/", "/sandboxes", "/sandboxes/abc/terminal", "/welcome", "/index.html", "/docsy"] {
            let response = ask(&BUILT, path, &[HTML]).await;
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(response.headers()["cache-control"], "no-cache");
            let policy = response.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
            assert_eq!(response.headers()["referrer-policy"], "no-referrer");
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
            assert_eq!(text(response).await, "hello");
        }
        for path in ["/v1", "/v1/sandboxes", "/v1/x.js", "/docs", "/openapi.json", "/mcp", "/healthz", "/metrics"] {
            assert_eq!(ask(&BUILT, path, &[HTML]).await.status(), 418, "{path}");
        }
        for headers in [&[][..], &[("accept", "*/*")], &[("accept", "application/json")]] {
            assert_eq!(ask(&BUILT, "/nowhere", headers).await.status(), 418, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn assets_are_kept_forever_and_compressed() {
        let response = ask(&BUILT, "/assets/app-1a2b.js", &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(response.headers()["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(
            (&response.headers()["vary"], &response.headers()["etag"]),
            (&"accept-encoding".parse().unwrap(), &"\"t1\"".parse().unwrap())
        );
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), HELLO);
        for encoding in ["identity", "gzip;q=0", "gzip; q=0.0, br"] {
            let response = ask(&BUILT, "/assets/app-1a2b.js", &[("accept-encoding", encoding)]).await;
            assert!(!response.headers().contains_key("content-encoding"), "{encoding}");
            assert_eq!(text(response).await, "hello");
        }
        let response = ask(&BUILT, "/assets/app-old.js", &[HTML]).await;
        assert_eq!(
            (response.status(), &response.headers()["cache-control"]),
            (StatusCode::NOT_FOUND, &"no-store".parse().unwrap())
        );
        assert_eq!(ask(&BUILT, "/assets/../index.html", &[]).await.status(), 404);
    }

    #[tokio::test]
    async fn a_known_file_is_not_sent_again() {
        for known in ["\"t2\"", "W/\"t2\"", "\"x\", \"t2\"", "*"] {
            let response = ask(&BUILT, "/favicon.svg", &[("if-none-match", known)]).await;
            assert_eq!(response.status(), 304, "{known}");
            assert_eq!(text(response).await, "");
        }
        assert_eq!(ask(&BUILT, "/favicon.svg", &[("if-none-match", "\"t3\"")]).await.status(), 200);
    }

    #[tokio::test]
    async fn without_a_build_the_page_tells_how_to_make_one() {
        let response = ask(&[], "/", &[HTML]).await;
        assert_eq!(response.status(), 200);
        assert!(text(response).await.contains("make build"));
        assert_eq!(ask(&[], "/", &[]).await.status(), 418);
    }

    #[test]
    fn the_built_dashboard_is_small() {
        let bytes: usize = files::all().iter().map(|file| file.packed.len()).sum();
        assert!(bytes <= 3_000_000, "{bytes}");
        for file in files::all() {
            assert!(!file.unpack().is_empty(), "{}", file.path);
        }
    }
}
