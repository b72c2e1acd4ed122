//! `verbatim tests`: the catalogue.

use std::process::ExitCode;

use serde::Serialize;
use verbatim_client::v1;
use verbatim_tester::Test;

use crate::exit::Usage;
use crate::print;
use crate::server::{self, Place};

/// List the tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tests that match: an id, a public name, a statement such as C14-16, a glob, or a word such as rnr or m_key,
    /// which is looked for in ids, titles, public names and statements; or a selection: quick, standard, full
    patterns: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also show each test's duration on a rig in real time, its reading of unclear steps, its public names, statements
    /// and parameters
    #[arg(long)]
    long: bool,
}

#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    aliases: &'a [String],
    revision: u32,
    estimate_s: u64,
    about: &'a str,
    reading: &'a str,
    statements: &'a [String],
    needs: &'a [String],
    parameters: Vec<ListedParameter<'a>>,
}

#[derive(Serialize)]
struct ListedParameter<'a> {
    name: &'a str,
    about: &'a str,
    least: u64,
    most: u64,
    default: u64,
    default_when_simulated: u64,
}

pub(crate) fn run(arguments: &Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    let tests = match place {
        Place::Server(address) => server::at(address, |client| async move {
            Ok(client.list_tests(&arguments.patterns).await?.tests)
        })?,
        Place::Inside(_) => verbatim_catalog::select(&arguments.patterns)
            .map_err(|error| Usage(error.to_string()))?
            .into_iter()
            .map(ours)
            .collect(),
    };
    if arguments.json {
        let listed: Vec<Listed<'_>> = tests.iter().map(listed).collect();
        print::json(&serde_json::json!({ "tests": listed }))?;
    } else {
        print::text(&print::tables::tests(&tests, arguments.long, print::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a test of this program's own catalogue, in the form of a daemon.
pub(crate) fn ours(test: &'static Test) -> v1::Test {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    v1::Test {
        id: test.id.into(),
        aliases: owned(test.aliases),
        revision: test.revision,
        about: test.about.into(),
        reading: test.reading.into(),
        statements: owned(test.statements),
        needs: test.needs.iter().map(|need| need.about().to_string()).collect(),
        parameters: test
            .all_parameters()
            .map(|parameter| v1::TestParameter {
                name: parameter.name.into(),
                about: parameter.about.into(),
                least: parameter.range.0,
                most: parameter.range.1,
                default_value: parameter.default,
                default_value_when_simulated: parameter.simulated,
            })
            .collect(),
    }
}

fn listed(test: &v1::Test) -> Listed<'_> {
    Listed {
        id: &test.id,
        aliases: &test.aliases,
        revision: test.revision,
        estimate_s: verbatim_catalog::estimate(&test.id).as_secs(),
        about: &test.about,
        reading: &test.reading,
        statements: &test.statements,
        needs: &test.needs,
        parameters: test
            .parameters
            .iter()
            .map(|parameter| ListedParameter {
                name: &parameter.name,
                about: &parameter.about,
                least: parameter.least,
                most: parameter.most,
                default: parameter.default_value,
                default_when_simulated: parameter.default_value_when_simulated,
            })
            .collect(),
    }
}
