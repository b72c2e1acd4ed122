//! Calls of the independent programs.

use serde_json::Value;
use verbatim_lab::workspace::root;
use verbatim_tests::oracle::available;
use verbatim_tests::product::{Place, run};
use verbatim_tests::python;

/// Perl code that prints TAP::Parser's result: the points by outcome, the YAML blocks, and the parse errors.
const PERL: &str = r#"
my $tap = TAP::Parser->new({source => "it.tap"});
my @blocks;
while (my $line = $tap->next) { push @blocks, $line->data->{outcome} if $line->is_yaml; }
print join(" ", "passed", $tap->passed), "\n", join(" ", "failed", $tap->failed), "\n";
print "skipped ", join(" ", $tap->skipped), "\ntodo ", join(" ", $tap->todo), "\n";
print "blocks ", join(" ", @blocks), "\nwrong ", join("; ", $tap->parse_errors), "\n";
"#;

/// Python code that prints the errors of each document by the schema in the first file.
const SCHEMA: &str = "
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
for document in json.load(open(sys.argv[2])):
    for error in Draft202012Validator(schema).iter_errors(document):
        print(error.json_path, error.message)
";

/// Checks XML against the schema of Jenkins' xunit plugin, and panics if the XML breaks it. Returns false if xmllint is
/// missing.
pub(crate) fn follows_the_schema_of_jenkins(place: &Place, xml: &str) -> bool {
    if !available("xmllint", "apt-get install libxml2-utils") {
        return false;
    }
    let file = place.write("it.xml", xml);
    let mut lint = place.command("xmllint");
    lint.arg("--noout")
        .arg("--schema")
        .arg(root().join("tests/data/junit/jenkins-junit.xsd"))
        .arg(file);
    let output = run(&mut lint);
    assert_eq!(output.code(), 0, "{output}{xml}");
    true
}

/// Returns the result of Perl's TAP::Parser for a TAP report, or `None` if Perl is missing.
pub(crate) fn perl_reads(place: &Place, tap: &str) -> Option<String> {
    if !available("prove", "apt-get install perl") {
        return None;
    }
    place.write("it.tap", tap);
    let output = run(place.command("perl").args(["-MTAP::Parser", "-e", PERL]));
    assert_eq!(output.code(), 0, "{output}{tap}");
    Some(output.stdout)
}

/// Returns the errors that Python's jsonschema finds in the documents with a schema of `docs/schema`. Returns `None` if
/// jsonschema is missing.
pub(crate) fn wrong_by_the_schema(place: &Place, schema: &str, documents: &[Value]) -> Option<String> {
    if python::lacks(&[("jsonschema", "jsonschema")]) {
        return None;
    }
    let file = place.write("documents.json", serde_json::to_string(documents).unwrap());
    let mut command = place.command(python::DEBIAN);
    command
        .args(["-c", SCHEMA])
        .arg(root().join("docs/schema").join(schema))
        .arg(file);
    let output = run(&mut command);
    assert_eq!(output.code(), 0, "{output}");
    Some(output.stdout)
}
