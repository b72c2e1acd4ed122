//! `verbatim statements`: the compliance statements, in our own words.

use std::process::ExitCode;

use serde_json::{Value, json};
use verbatim_catalog::typable;
use verbatim_client::v1;
use verbatim_text::Text;

use crate::exit::Usage;
use crate::print;
use crate::server::{self, Place};

/// List the compliance statements that tests judge, or show the requirements of some statements.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Statements: C14-16, in any of its forms (c14_016, v1c14-016#03), or a word of an id, title or text; all when
    /// none is given
    statements: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    let (statements, tests) = match place {
        Place::Server(address) => server::at(address, |client| async move {
            Ok((client.list_statements().await?, client.list_tests(&[]).await?.tests))
        })?,
        Place::Inside(_) => (
            verbatim_catalog::statements().iter().map(ours).collect(),
            verbatim_catalog::TESTS
                .iter()
                .copied()
                .map(super::tests::ours)
                .collect(),
        ),
    };
    for wanted in &arguments.statements {
        if !statements.iter().any(|statement| is_meant(wanted, statement)) {
            let near = nearest(wanted, &statements);
            return Err(Usage(format!(
                "no statement matches {wanted:?}{near}; `verbatim statements` lists them all"
            ))
            .into());
        }
    }
    let meant = |statement: &&v1::Statement| {
        arguments.statements.is_empty() || arguments.statements.iter().any(|wanted| is_meant(wanted, statement))
    };
    let chosen: Vec<(&v1::Statement, Vec<&str>)> = statements
        .iter()
        .filter(meant)
        .map(|statement| (statement, judged_by(statement, &tests)))
        .collect();
    if arguments.json {
        let documents: Vec<Value> = chosen
            .iter()
            .map(|(statement, tests)| document(statement, tests))
            .collect();
        print::json(&json!({ "statements": documents }))?;
    } else {
        let long = !arguments.statements.is_empty();
        let text: Text = chosen
            .iter()
            .map(|(statement, tests)| {
                if long {
                    whole(statement, tests)
                } else {
                    line(statement, tests)
                }
            })
            .collect();
        print::text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn ours(statement: &verbatim_catalog::Statement) -> v1::Statement {
    v1::Statement {
        id: statement.id.clone(),
        title: statement.title.clone(),
        about: statement.about.clone(),
        source: statement.source.clone(),
    }
}

/// Returns whether a text selects a statement: by an id in any form, else by a part of its id, title or text.
fn is_meant(wanted: &str, statement: &v1::Statement) -> bool {
    if let Some(id) = verbatim_catalog::canonical(wanted) {
        return id == statement.id;
    }
    let wanted = wanted.to_ascii_lowercase();
    [statement.id.as_str(), &typable(&statement.id), &statement.title]
        .into_iter()
        .any(|words| words.to_ascii_lowercase().contains(&wanted))
        || verbatim_catalog::has_word(&statement.about, &wanted)
}

/// Returns a suggestion with the nearest id; empty if none is near.
fn nearest(wanted: &str, statements: &[v1::Statement]) -> String {
    let ids = statements.iter().map(|statement| statement.id.as_str());
    verbatim_nearest::nearest(wanted, ids)
        .map_or_else(String::new, |near| format!(" (did you mean {}?)", typable(near)))
}

fn judged_by<'a>(statement: &v1::Statement, tests: &'a [v1::Test]) -> Vec<&'a str> {
    let judges = |test: &&v1::Test| test.statements.contains(&statement.id);
    tests.iter().filter(judges).map(|test| test.id.as_str()).collect()
}

fn line(statement: &v1::Statement, tests: &[&str]) -> Text {
    let count = print::counted(tests.len() as u64, "test", "tests");
    Text::of(format_args!(
        "{:<34} {count:>9}  {}",
        typable(&statement.id),
        statement.title
    ))
}

fn whole(statement: &v1::Statement, tests: &[&str]) -> Text {
    let mut text = Text::of(format_args!("{}  {}", typable(&statement.id), statement.title));
    text.line(format_args!("  {}", statement.about));
    text.line(format_args!("  Source: {}", statement.source));
    text.line(format_args!("  Judged by: {}", tests.join(" ")));
    text
}

fn document(statement: &v1::Statement, tests: &[&str]) -> Value {
    json!({
        "id": statement.id,
        "title": statement.title,
        "about": statement.about,
        "source": statement.source,
        "tests": tests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_typable_and_found_in_both_forms() {
        let of = |id: &str| ours(verbatim_catalog::statement(id).unwrap());
        let nak = of("9.7.5.1.1 NAK handling");
        assert!(line(&nak, &[]).starts_with("9.7.5.1.1-nak-handling  "));
        assert!(whole(&nak, &[]).starts_with("9.7.5.1.1-nak-handling  "));
        assert!(whole(&of("C14-16"), &[]).starts_with("C14-16  "));
        assert_eq!(document(&nak, &[])["id"], "9.7.5.1.1 NAK handling");
        for form in [
            "9.7.5.1.1 NAK handling",
            "9.7.5.1.1-nak-handling",
            "9.7.5.1.1-NAK",
            "NAK handling",
            "nak-handling",
        ] {
            assert!(is_meant(form, &nak), "{form}");
        }
    }

    #[test]
    fn suggests_the_id_with_swapped_digits() {
        let statements: Vec<_> = verbatim_catalog::statements().iter().map(ours).collect();
        assert_eq!(nearest("C14-61", &statements), " (did you mean C14-16?)");
        assert_eq!(nearest("c14-161", &statements), " (did you mean C14-16?)");
        assert_eq!(nearest("9.7.7.1 MNS", &statements), " (did you mean 9.7.7.1-msn?)");
        assert_eq!(nearest("weather", &statements), "");
    }
}
