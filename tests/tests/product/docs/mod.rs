//! The documentation: its commands are run, and print what the pages show. `UPDATE=1 cargo test -p verbatim-tests --test
//! docs` writes into the pages what they print now.

use verbatim_tests::pages;

#[test]
fn every_command_of_the_documentation_prints_what_its_page_shows() {
    pages::check(None);
}
