//! `verbatim tests`: the catalogue.

use std::process::ExitCode;

use serde::Serialize;

use crate::exit::Usage;
use crate::print;

/// List the tests.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only tests that match: an id, a public name, a statement such as C14-16, or a glob
    patterns: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Say of each test what a correct device does, how unclear steps are read, and what can be set
    #[arg(long)]
    long: bool,
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    aliases: &'static [&'static str],
    revision: u32,
    about: &'static str,
    reading: &'static str,
    statements: &'static [&'static str],
    needs: Vec<&'static str>,
    parameters: Vec<ListedParameter>,
}

#[derive(Serialize)]
struct ListedParameter {
    name: &'static str,
    about: &'static str,
    least: u64,
    most: u64,
    default: u64,
    default_when_simulated: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tests = verbatim_catalog::select(&arguments.patterns).map_err(|error| Usage(error.to_string()))?;
    if arguments.json {
        let listed: Vec<Listed> = tests
            .iter()
            .map(|test| Listed {
                id: test.id,
                aliases: test.aliases,
                revision: test.revision,
                about: test.about,
                reading: test.reading,
                statements: test.statements,
                needs: test.needs.iter().map(|need| need.about()).collect(),
                parameters: test
                    .parameters
                    .iter()
                    .map(|parameter| ListedParameter {
                        name: parameter.name,
                        about: parameter.about,
                        least: parameter.range.0,
                        most: parameter.range.1,
                        default: parameter.default,
                        default_when_simulated: parameter.simulated,
                    })
                    .collect(),
            })
            .collect();
        print::json(&serde_json::json!({ "tests": listed }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    for test in tests {
        let aliases = if test.aliases.is_empty() {
            String::new()
        } else {
            format!(" ({})", test.aliases.join(", "))
        };
        out.push_str(&format!("{:<34} {}{aliases}\n", test.id, test.statements.join(" ")));
        if arguments.long {
            out.push_str(&format!("    {}\n    Reading: {}\n", test.about, test.reading));
            for parameter in test.parameters {
                out.push_str(&format!(
                    "    --set {}={}..{}: {} (default {}, {} in simulated time)\n",
                    parameter.name,
                    parameter.range.0,
                    parameter.range.1,
                    parameter.about,
                    parameter.default,
                    parameter.simulated
                ));
            }
        }
    }
    print::text(&out)?;
    Ok(ExitCode::SUCCESS)
}
