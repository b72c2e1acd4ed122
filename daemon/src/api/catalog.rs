//! The implementation of CatalogService.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use verbatim_catalog::{VERSION, statements};
use verbatim_proto::v1::catalog_service_server::CatalogService;
use verbatim_proto::v1::{
    ListStatementsRequest, ListStatementsResponse, ListTestsRequest, ListTestsResponse, Statement, Test, TestParameter,
};

use super::{Shared, computing, errors, validate};

/// The service that lists the catalogue, which is the same in every daemon of this version.
#[derive(Clone, Debug)]
pub struct Catalog {
    shared: Arc<Shared>,
}

impl Catalog {
    /// Creates the service. Every caller with a role may use it.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[tonic::async_trait]
impl CatalogService for Catalog {
    async fn list_tests(&self, request: Request<ListTestsRequest>) -> Result<Response<ListTestsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let patterns = request.into_inner().patterns;
        let tests = computing(&caller.who, move || validate::tests("patterns", &patterns)).await?;
        let tests = tests.map_err(errors::invalid)?;
        Ok(Response::new(ListTestsResponse {
            tests: tests.into_iter().map(test).collect(),
            catalogue: VERSION.into(),
        }))
    }

    async fn list_statements(
        &self,
        request: Request<ListStatementsRequest>,
    ) -> Result<Response<ListStatementsResponse>, Status> {
        self.shared.caller(&request)?;
        let statement = |of: &verbatim_catalog::Statement| Statement {
            id: of.id.clone(),
            title: of.title.clone(),
            about: of.about.clone(),
            source: of.source.clone(),
        };
        Ok(Response::new(ListStatementsResponse {
            statements: statements().iter().map(statement).collect(),
        }))
    }
}

fn test(of: &verbatim_tester::Test) -> Test {
    let words = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<String>>();
    let parameter = |of: &verbatim_tester::Parameter| TestParameter {
        name: of.name.into(),
        about: of.about.into(),
        least: of.range.0,
        most: of.range.1,
        default_value: of.default,
        default_value_when_simulated: of.simulated,
    };
    Test {
        id: of.id.into(),
        aliases: words(of.aliases),
        revision: of.revision,
        about: of.about.into(),
        reading: of.reading.into(),
        statements: words(of.statements),
        needs: of.needs.iter().map(|need| need.about().to_string()).collect(),
        parameters: of.all_parameters().map(parameter).collect(),
    }
}
