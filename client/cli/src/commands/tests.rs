//! `verbatim tests`: the catalogue.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use verbatim_catalog::TESTS;
use verbatim_client::v1;
use verbatim_tester::Test;

use super::rigs;
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
    /// Show which of the tests this rig of the rig file can run, and what it lacks for the others
    #[arg(long, value_name = "NAME")]
    rig: Option<String>,
    /// The rig file (default: $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml)
    #[arg(long, value_name = "FILE", requires = "rig")]
    rig_file: Option<PathBuf>,
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
    /// With `--rig`: what the rig lacks for the test; null if the rig can run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Option<String>>,
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
    let missing = arguments.missing(&tests, place)?;
    if arguments.json {
        let mut all: Vec<Listed<'_>> = tests.iter().map(listed).collect();
        for (listed, missing) in all.iter_mut().zip(missing.iter().flatten()) {
            listed.missing = Some(missing.clone());
        }
        print::json(&serde_json::json!({ "tests": all }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(missing) = missing else {
        print::text(&print::tables::tests(&tests, arguments.long, print::columns()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let (mut here, mut others) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for (test, missing) in tests.into_iter().zip(missing) {
        match missing {
            None => here.push(test),
            Some(missing) => others.entry(missing).or_default().push(test.id),
        }
    }
    let mut text = print::tables::tests(&here, arguments.long, print::columns());
    for (missing, ids) in others {
        text.line("");
        text.line(format_args!("Not here, because {missing}:"));
        ids.iter().for_each(|id| text.line(format_args!("  {id}")));
    }
    print::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Returns what the rig of `--rig` lacks for each test: `None` without `--rig`.
    fn missing(&self, tests: &[v1::Test], place: &Place) -> anyhow::Result<Option<Vec<Option<String>>>> {
        let Some(name) = &self.rig else {
            return Ok(None);
        };
        if let Place::Server(address) = place {
            return Err(Usage(format!(
                "--rig cannot be used with the daemon at {}, which has its own rig file: add --server none and \
                 --rig-file",
                address.in_words()
            ))
            .into());
        }
        let file = rigs::load(self.rig_file.as_ref())?;
        let offers = file.find(name).map_err(|error| Usage(error.to_string()))?.offers();
        let missing = |test: &v1::Test| {
            let known = TESTS.iter().find(|known| known.id == test.id)?;
            known.missing(&offers)
        };
        Ok(Some(tests.iter().map(missing).collect()))
    }
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
        missing: None,
    }
}
