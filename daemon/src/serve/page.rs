//! Serves the web page over HTTP at the address in `[web]`. [`Web`] provides the content.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use hyper::{Request, Response, StatusCode};
use tonic::Code;

use super::http::refused;
use crate::api::{Found, Web};

/// The content security policy of the page: it may load content from this daemon only.
const OF_THE_PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The content security policy of a report, which contains its own style and has no script.
const OF_A_REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";

pub(super) async fn answer(
    request: Request<Incoming>,
    from: SocketAddr,
    web: Arc<Web>,
    names: Arc<[String]>,
) -> Response<String> {
    if !is_for_us(&request, &names) {
        // Prevent DNS rebinding: another site could let its own name resolve to this address, and its script could
        // then read this page.
        let what = "expected the daemon's IP address, localhost, or a name in `names` of [web] as the host of the URL";
        return refused(StatusCode::MISDIRECTED_REQUEST, what);
    }
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().map(String::from));
    drop(request);
    match web.get(&path, query.as_deref(), from).await {
        Ok(found) => made(found),
        Err(status) => {
            let code = match status.code() {
                Code::NotFound => StatusCode::NOT_FOUND,
                Code::InvalidArgument => StatusCode::BAD_REQUEST,
                Code::PermissionDenied | Code::Unauthenticated => StatusCode::FORBIDDEN,
                Code::FailedPrecondition => StatusCode::CONFLICT,
                Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
                Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            refused(code, status.message())
        }
    }
}

fn made(found: Found) -> Response<String> {
    let (kind, policy, text) = match found {
        Found::Page(text) => ("text/html; charset=utf-8", OF_THE_PAGE, text.to_owned()),
        Found::Script(text) => ("text/javascript; charset=utf-8", OF_THE_PAGE, text.to_owned()),
        Found::Style(text) => ("text/css; charset=utf-8", OF_THE_PAGE, text.to_owned()),
        Found::Json(json) => (
            "application/json",
            OF_THE_PAGE,
            verbatim_text::shown_json(json.to_string()),
        ),
        Found::Report(text) => ("text/html; charset=utf-8", OF_A_REPORT, text),
    };
    let mut response = Response::new(text);
    let headers: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns whether the one Host header of a request, and its absolute URL if it has one, name this daemon.
fn is_for_us<B>(request: &Request<B>, names: &[String]) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    host.to_str().is_ok_and(|host| is_ours(host, names))
        && request
            .uri()
            .authority()
            .is_none_or(|host| is_ours(host.as_str(), names))
}

/// Returns whether a host with an optional port is this daemon. Accepts every IP address, because DNS rebinding needs a
/// name.
fn is_ours(host: &str, names: &[String]) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if !port.is_empty() && port.strip_prefix(':').is_none_or(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_hidden_characters() {
        let hidden = "\u{9b}\u{202e}\u{2066}\u{2028}";
        let value = serde_json::json!({ "reason": hidden });
        let body = made(Found::Json(value.clone())).into_body();
        assert_eq!(body, r#"{"reason":"\u009b\u202e\u2066\u2028"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), value);
    }

    #[test]
    fn accepts_only_addresses_and_listed_hosts() {
        let names = ["lab.example".to_owned()];
        for ours in [
            "127.0.0.1:80",
            "192.0.2.7",
            "[::1]:8080",
            "localhost:1",
            "Lab.Example:8080",
        ] {
            assert!(is_ours(ours, &names), "{ours}");
        }
        for other in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "",
            "lab.example.evil",
            "[::1]evil",
            "[::1",
            "localhost:80@evil.example",
        ] {
            assert!(!is_ours(other, &names), "{other}");
        }
    }

    #[test]
    fn every_host_of_a_request_must_be_ours() {
        let is_for_us = |url: &str, hosts: &[&str]| {
            let mut request = Request::get(url);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            is_for_us(&request.body(()).unwrap(), &[])
        };
        assert!(is_for_us("/", &["localhost"]));
        assert!(is_for_us("http://localhost/", &["localhost:80"]));
        assert!(!is_for_us("/", &[]));
        assert!(!is_for_us("/", &["localhost", "evil.example"]));
        assert!(!is_for_us("http://evil.example/", &["localhost"]));
    }
}
