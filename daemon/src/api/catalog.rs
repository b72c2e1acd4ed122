//! CatalogService.

use tonic::{Request, Response, Status};
use verbatim_catalog::{VERSION, select, statements};
use verbatim_proto::v1::catalog_service_server::CatalogService;
use verbatim_proto::v1::{
    ListStatementsRequest, ListStatementsResponse, ListTestsRequest, ListTestsResponse, Statement, Test, TestParameter,
};

use super::errors::{self, Violation};

/// What can be run: the same in every daemon of this version.
#[derive(Clone, Copy, Debug)]
pub struct Catalog;

#[tonic::async_trait]
impl CatalogService for Catalog {
    async fn list_tests(&self, request: Request<ListTestsRequest>) -> Result<Response<ListTestsResponse>, Status> {
        let patterns = request.into_inner().patterns;
        let tests = select(&patterns).map_err(|error| {
            let place = patterns
                .iter()
                .position(|pattern| *pattern == error.pattern)
                .unwrap_or(0);
            errors::invalid(vec![Violation::new(format!("patterns[{place}]"), error.to_string())])
        })?;
        Ok(Response::new(ListTestsResponse {
            tests: tests.into_iter().map(test).collect(),
            catalogue: VERSION.into(),
        }))
    }

    async fn list_statements(
        &self,
        _: Request<ListStatementsRequest>,
    ) -> Result<Response<ListStatementsResponse>, Status> {
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
        parameters: of.parameters.iter().map(parameter).collect(),
    }
}
