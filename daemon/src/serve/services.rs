//! The services of the server, by name.
//!
//! This module replaces tonic's own router. The router is behind a feature of tonic that adds a web framework.
//! Cargo would build the web framework into every program that is built together with the daemon.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

use crate::access::{Access, Caller};
use crate::api::as_caller;
use crate::turns::Turns;

type Request = http::Request<Body>;
type Response = http::Response<Body>;
type Answer = BoxFuture<Response, Infallible>;

type Call = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

/// Passes each call to the service that it names, within the limits of concurrent calls.
#[derive(Clone)]
pub(super) struct Services {
    all: BTreeMap<&'static str, Call>,
    calls: Turns,
    access: Arc<Access>,
}

impl Services {
    /// Creates the dispatcher without services.
    pub(super) fn new(calls: Turns, access: Arc<Access>) -> Self {
        Self {
            all: BTreeMap::new(),
            calls,
            access,
        }
    }

    /// Adds a service.
    pub(super) fn with<S>(mut self, service: S) -> Self
    where
        S: Service<Request, Response = Response, Error = Infallible, Future: Send>,
        S: NamedService + Clone + Send + Sync + 'static,
    {
        let call = move |request| -> Answer { Box::pin(service.clone().call(request)) };
        self.all.insert(S::NAME, Arc::new(call));
        self
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Service<Request> for Services {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Services made by tonic are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer {
        let name = request.uri().path().split('/').nth(1).unwrap_or_default();
        match self.all.get(name).cloned() {
            Some(service) => {
                let calls = self.calls.clone();
                let caller = request.extensions().get::<Caller>().cloned();
                let is_admin = caller
                    .as_ref()
                    .is_some_and(|caller| self.access.table().has_admin(caller));
                Box::pin(async move {
                    let who = caller.map(|caller| caller.who);
                    // The turn ends when the response begins; response streams have their own limits.
                    let _turn = calls.take(who.as_ref()).await;
                    as_caller(who, is_admin, service(request)).await
                })
            }
            None => {
                let status = Status::unimplemented(format!("this daemon has no service {name:?}"));
                Box::pin(async move { Ok(status.into_http()) })
            }
        }
    }
}
