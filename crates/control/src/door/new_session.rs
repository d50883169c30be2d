//! How a new session reaches its owner: as a token in the body, or for our own pages as a cookie.

use std::convert::Infallible;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use pandastack_door::http::{check_own_page, store_session};
use pandastack_model::Fault;
use pandastack_wire_public::{LoggedIn, rfc3339};

use crate::{Control, app::NewSession, limits::SESSION_AGE_MAX};

/// The head of a request that begins a session.
pub struct LoginHead {
    method: Method,
    headers: HeaderMap,
    uri: Uri,
}

impl FromRequestParts<Control> for LoginHead {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Control) -> Result<Self, Infallible> {
        Ok(Self { method: parts.method.clone(), headers: parts.headers.clone(), uri: parts.uri.clone() })
    }
}

/// Where the token of a new session goes.
pub enum TokenPlace {
    Body,
    Cookie(HeaderMap),
}

impl LoginHead {
    /// Chooses the place, before the login. Only our own pages may choose the cookie: another page
    /// could log somebody in as somebody else.
    pub fn token_place(self, cookie: bool) -> Result<TokenPlace, Fault> {
        if !cookie {
            return Ok(TokenPlace::Body);
        }
        check_own_page(&self.method, &self.headers, &self.uri)?;
        Ok(TokenPlace::Cookie(self.headers))
    }
}

impl TokenPlace {
    /// Answers with a new session.
    pub fn answer(self, status: StatusCode, begun: NewSession) -> Result<Response, Fault> {
        let token = begun.token.reveal();
        let (shown, cookie) = match self {
            TokenPlace::Body => (token.to_owned(), None),
            TokenPlace::Cookie(headers) => (String::new(), Some(store_session(&headers, token, SESSION_AGE_MAX)?)),
        };
        let body = LoggedIn {
            token: shown,
            expires_at: rfc3339(begun.expires_at_ns),
            user_id: begun.user.id,
            email: begun.user.email,
        };
        let mut response = (status, Json(body)).into_response();
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(cookie) = cookie {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }
}
