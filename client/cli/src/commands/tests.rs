//! `verbatim tests`: the catalogue.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use verbatim_client::v1;
use verbatim_tester::Test;

use super::rigs;
use crate::exit::Usage;
use crate::print;
use crate::print::document::bare;
use crate::print::history::Expected;
use crate::server::{self, Place};

/// List the tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tests that match: an id, a public name, a statement such as C14-16, a glob, or a word such as rnr or m_key,
    /// which is looked for in ids, titles, public names and the texts of statements; or a selection: quick, standard,
    /// full
    patterns: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also show each test's duration on a rig in real time, its reading of unclear steps, its public names, statements
    /// and parameters
    #[arg(long)]
    long: bool,
    /// Show which of the tests this rig can run, and what it lacks for the others
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
    let rig = arguments.rig(place)?;
    let expected = rig.as_ref().map(|rig| Expected::on(bare(&rig.name), &rig.kind));
    let missing = |test: &v1::Test| rig.as_ref().and_then(|rig| missing(test, &rig.offers));
    if arguments.json {
        let listed = |test| {
            let missing = rig.is_some().then(|| missing(test));
            listed(test, missing, expected.as_ref())
        };
        let all: Vec<Listed<'_>> = tests.iter().map(listed).collect();
        print::json(&serde_json::json!({ "tests": all }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut here, mut others) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for test in tests {
        match missing(&test) {
            None => here.push(test),
            Some(missing) => others.entry(missing).or_default().push(test.id),
        }
    }
    let mut text = print::tables::tests(&here, arguments.long, print::columns(), expected.as_ref());
    for (missing, ids) in others {
        text.line("");
        text.line(format_args!("Not here, because {missing}:"));
        ids.iter().for_each(|id| text.line(format_args!("  {id}")));
    }
    print::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Returns the rig of `--rig`, in the form of a daemon: `None` without `--rig`.
    fn rig(&self, place: &Place) -> anyhow::Result<Option<v1::Rig>> {
        let Some(name) = &self.rig else {
            return Ok(None);
        };
        if let Place::Server(address) = place {
            server::refuse_rig_file(self.rig_file.as_ref(), address)?;
            let name = name.parse()?;
            return server::at(address, |client| async move { Ok(Some(client.get_rig(&name).await?)) });
        }
        let file = rigs::load(self.rig_file.as_ref())?;
        let rig = file.find_any(name).map_err(|error| Usage(error.to_string()))?;
        Ok(Some(rigs::ours(rig)))
    }
}

/// Returns words for the needs of a test that a rig lacks, or `None` if it lacks none. `offers` has the needs that the
/// rig fulfils.
pub(crate) fn missing(test: &v1::Test, offers: &[String]) -> Option<String> {
    let missing: Vec<&str> = test
        .needs
        .iter()
        .filter(|need| !offers.contains(need))
        .map(String::as_str)
        .collect();
    (!missing.is_empty()).then(|| format!("the rig does not offer {}", missing.join(", nor ")))
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

fn listed<'a>(test: &'a v1::Test, missing: Option<Option<String>>, on_rig: Option<&Expected>) -> Listed<'a> {
    let lasts = on_rig.map_or_else(|| verbatim_catalog::estimate(&test.id), |on| on.of(&test.id));
    Listed {
        id: &test.id,
        aliases: &test.aliases,
        revision: test.revision,
        estimate_s: lasts.as_secs(),
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
        missing,
    }
}
