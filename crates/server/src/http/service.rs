//! Routes a request to its response.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::poll_fn;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use terrace_sql::query::Query;
use tokio::sync::mpsc;

use super::dashboard::Asset;
use super::events::Hub;
use super::{access, dashboard, exposition, metrics};
use crate::shared::Shared;

type Body = UnsyncBoxBody<Bytes, Infallible>;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Path of the health check, which also answers requests that name another host or none.
const HEALTH: &str = "/healthz";

/// Headers of every response: the page loads nothing from other sites and cannot be embedded.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// The HTTP service: answers requests from the state of the server.
pub(super) struct Site {
    shared: Arc<Shared>,
    hub: Arc<Hub>,
}

/// An action on a query: suspend, resume or cancel.
type Action = fn(&Query);

/// A resource that a GET request reads.
enum Target {
    Health,
    Metrics,
    Events,
    File(&'static Asset),
}

impl Target {
    fn of(path: &str) -> Option<Self> {
        match path {
            HEALTH => Some(Self::Health),
            "/metrics" => Some(Self::Metrics),
            "/events" => Some(Self::Events),
            path => dashboard::asset(path).map(Self::File),
        }
    }
}

impl Site {
    pub(super) fn new(shared: Arc<Shared>, hub: Arc<Hub>) -> Self {
        Self { shared, hub }
    }

    /// Returns the response to a request.
    pub(super) fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        let mut response = self.route(request);
        for (name, value) in HEADERS {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
        let never = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, never);
        response
    }

    fn route(&self, request: &Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method(), request.uri().path());
        let host = match access::own_host(request.headers()) {
            Ok(host) => Some(host),
            Err(_) if path == HEALTH => None,
            Err(text) => return refusal(StatusCode::MISDIRECTED_REQUEST, &text),
        };
        if !request.body().is_end_stream() {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "requests have no body");
        }
        if path != HEALTH
            && let Err(text) = self.check_login(request.headers())
        {
            return unauthorized(&text);
        }
        if let Some((id, action)) = query_action(path) {
            let Some(host) = host.filter(|_| *method == Method::POST) else {
                return not_allowed("POST");
            };
            return match access::check_change(request.headers(), &host) {
                Ok(()) => self.act(id, action),
                Err(text) => refusal(StatusCode::FORBIDDEN, &text),
            };
        }
        let Some(target) = Target::of(path) else {
            let text = "there are /, /metrics, /healthz, /events and /queries/{id}/{action}, where \
                        the action is suspend, resume or cancel";
            return refusal(StatusCode::NOT_FOUND, text);
        };
        if *method != Method::GET && *method != Method::HEAD {
            return not_allowed("GET, HEAD");
        }
        match target {
            Target::Health => self.health(),
            Target::Metrics => {
                let text = metrics::exposition(&self.shared);
                full(StatusCode::OK, exposition::CONTENT_TYPE, text)
            }
            Target::Events => self.events(),
            Target::File(asset) => full(StatusCode::OK, asset.content_type, asset.text),
        }
    }

    fn check_login(&self, headers: &HeaderMap) -> Result<(), String> {
        let Shared { engine, secret, .. } = self.shared.as_ref();
        access::check_login(headers, engine.catalog(), secret)
    }

    fn health(&self) -> Response<Body> {
        match self.shared.engine.failure() {
            None => full(StatusCode::OK, JSON, json!({ "status": "ok" }).to_string()),
            Some(reason) => {
                let body = json!({ "status": "failed", "reason": reason });
                full(StatusCode::SERVICE_UNAVAILABLE, JSON, body.to_string())
            }
        }
    }

    fn events(&self) -> Response<Body> {
        match self.hub.listen() {
            Some(events) => response(StatusCode::OK, EVENTS, stream(events)),
            None => refusal(StatusCode::SERVICE_UNAVAILABLE, "as many clients listen as can"),
        }
    }

    fn act(&self, id: u64, action: Action) -> Response<Body> {
        let Some(query) = self.shared.engine.queries().find(id) else {
            return refusal(StatusCode::NOT_FOUND, &format!("no query {id} runs"));
        };
        action(&query);
        let state = query.state().to_string();
        full(StatusCode::OK, JSON, json!({ "id": id, "state": state }).to_string())
    }
}

/// Parses the query and the action from a path such as `/queries/7/cancel`.
fn query_action(path: &str) -> Option<(u64, Action)> {
    let (id, action) = path.strip_prefix("/queries/")?.split_once('/')?;
    let action: Action = match action {
        "suspend" => Query::suspend,
        "resume" => Query::resume,
        "cancel" => Query::cancel,
        _ => return None,
    };
    Some((id.parse().ok()?, action))
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn full(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    response(status, content_type, Full::new(body.into()).boxed_unsync())
}

fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    full(status, JSON, json!({ "error": Value::from(text) }).to_string())
}

fn unauthorized(text: &str) -> Response<Body> {
    let mut response = refusal(StatusCode::UNAUTHORIZED, text);
    let scheme = HeaderValue::from_static("Basic realm=\"terrace\", charset=\"UTF-8\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    response
}

fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &format!("it is {methods}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// Returns events as a body, which ends when the client is dropped.
fn stream(mut events: mpsc::Receiver<Bytes>) -> Body {
    let frames = poll_fn(move |cx| events.poll_recv(cx).map(|it| it.map(|it| Ok(Frame::data(it)))));
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_queries_have_a_number_and_an_action() {
        let id = |path| query_action(path).map(|(id, _)| id);
        assert_eq!(id("/queries/7/cancel"), Some(7));
        assert_eq!(id("/queries/18446744073709551615/resume"), Some(u64::MAX));
        for path in [
            "/queries/7",
            "/queries//cancel",
            "/queries/-1/cancel",
            "/queries/7/cancel/",
            "/queries/7/drop",
            "/queries/18446744073709551616/suspend",
        ] {
            assert_eq!(id(path), None, "{path}");
        }
    }
}
